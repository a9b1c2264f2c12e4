/*
 * Description: a card with both types of GIDs has each address twice, RoCE v1 before v2; rdma_cm takes
 * v2, and what is connected by a v1 GID works. Runs with URXE_PROFILE=connectx-5.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#include "hca.h"

#define PORT 17171

START_TEST(each_address_is_there_as_v1_and_as_v2)
{
	struct ibv_gid_entry table[64], e;
	struct lab l;
	ssize_t n;

	lab_open(&l);
	n = ibv_query_gid_table(l.ctx, table, 64, 0);
	ck_assert_int_ge(n, 2);
	ck_assert_int_eq(n % 2, 0);
	for (ssize_t i = 0; i < n; i++) {
		ck_assert_int_eq(table[i].gid_index, i);
		ck_assert_int_eq(table[i].gid_type,
				 i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
		ck_assert_mem_eq(&table[i].gid, &table[i & ~(ssize_t)1].gid, 16);
		ck_assert_int_eq(ibv_query_gid_ex(l.ctx, 1, (uint32_t)i, &e, 0), 0);
		ck_assert_int_eq(e.gid_type, table[i].gid_type);
	}
	lab_close(&l);
}
END_TEST

static void file_says(const char *name, const char *expected)
{
	char path[128], text[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/rxe0/ports/1/gid_attrs/%s",
		 name);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	ck_assert_str_eq(text, expected);
}

START_TEST(sysfs_says_the_types_before_and_while_the_device_is_open)
{
	struct lab l;

	file_says("types/0", "IB/RoCE v1\n");
	file_says("types/1", "RoCE v2\n");
	lab_open(&l);
	file_says("types/0", "IB/RoCE v1\n");
	file_says("types/1", "RoCE v2\n");
	file_says("ndevs/1", "lo\n");
	lab_close(&l);
}
END_TEST

START_TEST(what_is_connected_by_a_v1_gid_works)
{
	char *p = lab_map(2);
	struct ibv_mr *mr;
	struct lab l;

	lab_begin(&l); /* by the GID of index 0 */
	ck_assert_int_eq(query(l.left).ah_attr.grh.sgid_index, 0);
	mr = lab_reg(&l, p, 2 * LAB_PAGE, LAB_ACCESS);
	lab_fill(p, LAB_PAGE, 3);
	ck_assert_int_eq(lab_write(&l, mr, p, mr, p + LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert(lab_is(p + LAB_PAGE, LAB_PAGE, 3));
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

static struct rdma_cm_event *next(struct rdma_event_channel *ch,
				  enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	ck_assert_int_eq(rdma_get_cm_event(ch, &e), 0);
	ck_assert_int_eq(e->event, type);
	return e;
}

/* The GID index with which rdma_cm would bring a QP of @id to RTR */
static unsigned int sgid_index_of(struct rdma_cm_id *id)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};
	int mask;

	ck_assert_int_eq(rdma_init_qp_attr(id, &a, &mask), 0);
	return a.ah_attr.grh.sgid_index;
}

START_TEST(rdma_cm_takes_a_v2_gid_on_both_sides)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ibv_qp_init_attr qp = {
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = 1}};
	struct rdma_event_channel *listening = rdma_create_event_channel(),
				  *asking = rdma_create_event_channel();
	struct rdma_conn_param with = {.qp_num = 0};
	struct rdma_cm_id *server, *client, *met;
	struct rdma_cm_event *e;

	ck_assert_int_eq(rdma_create_id(listening, &server, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(rdma_bind_addr(server, (struct sockaddr *)&to), 0);
	ck_assert_int_eq(rdma_listen(server, 1), 0);
	ck_assert_int_eq(rdma_create_id(asking, &client, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(
	    rdma_resolve_addr(client, NULL, (struct sockaddr *)&to, LAB_WAIT * 1000), 0);
	rdma_ack_cm_event(next(asking, RDMA_CM_EVENT_ADDR_RESOLVED));
	ck_assert_int_eq(rdma_resolve_route(client, LAB_WAIT * 1000), 0);
	rdma_ack_cm_event(next(asking, RDMA_CM_EVENT_ROUTE_RESOLVED));
	ck_assert_int_eq(rdma_create_qp(client, NULL, &qp), 0);
	ck_assert_int_eq(rdma_connect(client, &with), 0);
	e = next(listening, RDMA_CM_EVENT_CONNECT_REQUEST);
	met = e->id;
	rdma_ack_cm_event(e);
	ck_assert_uint_eq(sgid_index_of(met) % 2, 1);
	ck_assert_int_eq(rdma_create_qp(met, NULL, &qp), 0);
	ck_assert_int_eq(rdma_accept(met, &with), 0);
	rdma_ack_cm_event(next(asking, RDMA_CM_EVENT_ESTABLISHED));
	ck_assert_uint_eq(sgid_index_of(client) % 2, 1);
	rdma_destroy_qp(met);
	rdma_destroy_qp(client);
	rdma_destroy_id(client);
	rdma_destroy_id(server);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gids");
	TCase *tc = tcase_create("gids");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, each_address_is_there_as_v1_and_as_v2);
	tcase_add_test(tc, sysfs_says_the_types_before_and_while_the_device_is_open);
	tcase_add_test(tc, what_is_connected_by_a_v1_gid_works);
	tcase_add_test(tc, rdma_cm_takes_a_v2_gid_on_both_sides);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
