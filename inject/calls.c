/*
 * calls.c - the functions that can be made to fail, and with which errors.
 *
 * Manual pages of verbs and rdma_cm mostly say "the value of errno" and leave open which. Where
 * they name some (ibv_advise_mr(3), rdma_notify(3)) the table has those, as far as a correct
 * call can meet them. Elsewhere it has what the kernel's function answers to a correct call: no
 * memory where something is made or grows, an address or device that is not there, an object
 * that others still use. A poll answers "a negative value" or "an error": it is that of a device which does
 * not work. What only a wrong call gets (EINVAL, EFAULT) is not in it.
 */
#include <errno.h>
#include <string.h>

#include "inject/rule.h"

static const struct inject_call calls[] = {
    {"ibv_open_device", {ENOMEM}},
    {"ibv_query_device", {ENOMEM}},
    {"ibv_query_port", {ENOMEM}},
    {"ibv_alloc_pd", {ENOMEM}},
    {"ibv_dealloc_pd", {EBUSY}},
    {"ibv_reg_mr", {ENOMEM}},
    {"ibv_rereg_mr", {ENOMEM}},
    {"ibv_dereg_mr", {EBUSY}},
    {"ibv_advise_mr", {EOPNOTSUPP, ENOMEM, EFAULT}, .hint = true},
    {"ibv_alloc_mw", {ENOMEM}},
    {"ibv_dealloc_mw", {EBUSY}},
    {"ibv_create_comp_channel", {ENOMEM, EMFILE}},
    {"ibv_create_cq", {ENOMEM}},
    {"ibv_resize_cq", {ENOMEM}},
    {"ibv_req_notify_cq", {ENOMEM}},
    {"ibv_poll_cq", {EIO}},
    {"ibv_start_poll", {EIO}},
    {"ibv_destroy_cq", {EBUSY}},
    {"ibv_create_qp", {ENOMEM}},
    {"ibv_modify_qp", {ENOMEM, ETIMEDOUT}},
    {"ibv_query_qp", {ENOMEM}},
    {"ibv_destroy_qp", {EBUSY}},
    {"ibv_post_send", {ENOMEM}, .qp = true},
    {"ibv_post_recv", {ENOMEM}, .qp = true},
    {"ibv_wr_complete", {ENOMEM}, .qp = true},
    {"ibv_create_srq", {ENOMEM}},
    {"ibv_modify_srq", {ENOMEM}},
    {"ibv_query_srq", {ENOMEM}},
    {"ibv_destroy_srq", {EBUSY}},
    {"ibv_post_srq_recv", {ENOMEM}},
    {"ibv_create_ah", {ENOMEM}},
    {"ibv_destroy_ah", {EBUSY}},
    {"ibv_attach_mcast", {ENOMEM}},
    {"ibv_detach_mcast", {ENOMEM}},
    {"ibv_open_xrcd", {ENOMEM}},
    {"ibv_close_xrcd", {EBUSY}},
    {"ibv_open_qp", {ENOMEM}},
    {"rdma_create_event_channel", {ENOMEM, EMFILE}},
    {"rdma_create_id", {ENOMEM}},
    {"rdma_destroy_id", {0}},
    {"rdma_bind_addr", {EADDRINUSE, EADDRNOTAVAIL, ENODEV}},
    {"rdma_resolve_addr", {ENODEV, ENETUNREACH, ENOMEM}},
    {"rdma_resolve_route", {ENOMEM}},
    {"rdma_listen", {EADDRINUSE, ENOMEM}},
    {"rdma_connect", {ENOMEM}},
    {"rdma_accept", {ENOMEM}},
    {"rdma_reject", {ENOMEM}},
    {"rdma_disconnect", {ENOMEM}},
    {"rdma_init_qp_attr", {ENOMEM}},
    {"rdma_get_cm_event", {ENOMEM}},
    {"rdma_set_option", {ENOMEM}},
    {"rdma_notify", {EISCONN}},
    {"rdma_join_multicast", {ENOMEM, EADDRNOTAVAIL}},
    {"rdma_leave_multicast", {ENOMEM}},
    {"rdma_migrate_id", {ENOMEM}},
};

const struct inject_call *inject_call_named(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, name))
			return &calls[i];
	return NULL;
}

static const struct {
	int error;
	const char *name;
} errors[] = {
    {ENOMEM, "ENOMEM"},		{EBUSY, "EBUSY"},
    {EMFILE, "EMFILE"},		{EFAULT, "EFAULT"},
    {EOPNOTSUPP, "EOPNOTSUPP"}, {ETIMEDOUT, "ETIMEDOUT"},
    {EADDRINUSE, "EADDRINUSE"}, {EADDRNOTAVAIL, "EADDRNOTAVAIL"},
    {ENODEV, "ENODEV"},		{ENETUNREACH, "ENETUNREACH"},
    {EISCONN, "EISCONN"},	{EIO, "EIO"},
};

const char *inject_errno_name(int error)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error)
			return errors[i].name;
	return NULL;
}

int inject_errno(const char *name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(errors[i].name, name))
			return errors[i].error;
	return 0;
}
