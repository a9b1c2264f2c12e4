/*
 * uverbs_write.c - the commands of the uverbs device by number: write(2), and
 * INVOKE_WRITE of ioctl(2), which carries the same structures.
 *
 * <rdma/ib_user_verbs.h> defines the structures; the sizes and the errors are those of
 * the kernel's ib_uverbs_write(). Commands that rxe does not have answer EOPNOTSUPP.
 */
#include <errno.h>
#include <rdma/ib_user_verbs.h>

#include "odp/guard.h"
#include "verbs/uverbs/uverbs_cmd.h"
#include "verbs/uverbs/uverbs_points.h"

/*
 * struct command - one that exists. Legacy requests with an answer begin with its address.
 * @req, @resp:	the smallest sizes of request and answer, in bytes
 * @hw:		legacy commands: what is longer than these is rxe's own part
 */
struct command {
	int (*run)(struct uverbs_call *c);
	uint16_t req;
	uint16_t resp;
	bool hw;
};

/* --- what commands share ----------------------------------------------------------- */

struct uobject *uverbs_cmd_find(struct uverbs_call *c, enum uobject_type type,
				uint32_t handle)
{
	return uobject_find(&c->ctx->objects, type, handle);
}

int uverbs_cmd_created(struct uverbs_call *c, struct uobject *o, const void *resp,
		       size_t len, const void *hw, size_t hw_len)
{
	int ret = uverbs_hw_response(c, hw, hw_len);

	if (!ret)
		ret = uverbs_response(c, resp, len);
	if (ret)
		uverbs_undo(c->ctx, o);
	return ret;
}

bool uverbs_cmd_no_room(const struct uverbs_call *c, size_t len)
{
	return c->hw_out_len < len;
}

int uverbs_cmd_destroy(struct uverbs_call *c, enum uobject_type type,
		       struct uverbs_reported *rep)
{
	struct ib_uverbs_destroy_qp cmd;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	return ret ? ret : uverbs_destroy(c->ctx, type, cmd.qp_handle, rep);
}

/* --- the tables ------------------------------------------------------------------- */

#define SIZE_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

#define CMD(name)                                                                        \
	{                                                                                \
		.run = uverbs_cmd_##name, .req = sizeof(struct ib_uverbs_##name)         \
	}
#define CMD_RESP(name)                                                                   \
	{                                                                                \
		.run = uverbs_cmd_##name, .req = sizeof(struct ib_uverbs_##name),        \
		.resp = sizeof(struct ib_uverbs_##name##_resp)                           \
	}
#define CMD_HW(name)                                                                     \
	{                                                                                \
		.run = uverbs_cmd_##name, .req = sizeof(struct ib_uverbs_##name),        \
		.resp = sizeof(struct ib_uverbs_##name##_resp), .hw = true               \
	}

static const struct command commands[] = {
    [IB_USER_VERBS_CMD_GET_CONTEXT] = CMD_HW(get_context),
    [IB_USER_VERBS_CMD_QUERY_DEVICE] = CMD_RESP(query_device),
    [IB_USER_VERBS_CMD_QUERY_PORT] = CMD_RESP(query_port),
    [IB_USER_VERBS_CMD_ALLOC_PD] = CMD_HW(alloc_pd),
    [IB_USER_VERBS_CMD_DEALLOC_PD] = CMD(dealloc_pd),
    [IB_USER_VERBS_CMD_CREATE_AH] = CMD_HW(create_ah),
    [IB_USER_VERBS_CMD_DESTROY_AH] = CMD(destroy_ah),
    [IB_USER_VERBS_CMD_REG_MR] = CMD_HW(reg_mr),
    [IB_USER_VERBS_CMD_REREG_MR] = CMD_HW(rereg_mr),
    [IB_USER_VERBS_CMD_DEREG_MR] = CMD(dereg_mr),
    [IB_USER_VERBS_CMD_ALLOC_MW] = CMD_HW(alloc_mw),
    [IB_USER_VERBS_CMD_DEALLOC_MW] = CMD(dealloc_mw),
    [IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL] = CMD_RESP(create_comp_channel),
    [IB_USER_VERBS_CMD_CREATE_CQ] = CMD_HW(create_cq),
    [IB_USER_VERBS_CMD_RESIZE_CQ] = CMD_HW(resize_cq),
    [IB_USER_VERBS_CMD_DESTROY_CQ] = CMD_RESP(destroy_cq),
    [IB_USER_VERBS_CMD_REQ_NOTIFY_CQ] = CMD(req_notify_cq),
    [IB_USER_VERBS_CMD_CREATE_QP] = CMD_HW(create_qp),
    [IB_USER_VERBS_CMD_QUERY_QP] = CMD_RESP(query_qp),
    [IB_USER_VERBS_CMD_MODIFY_QP] = CMD(modify_qp),
    [IB_USER_VERBS_CMD_DESTROY_QP] = CMD_RESP(destroy_qp),
    [IB_USER_VERBS_CMD_POST_SEND] = CMD_RESP(post_send),
    [IB_USER_VERBS_CMD_ATTACH_MCAST] = CMD(attach_mcast),
    [IB_USER_VERBS_CMD_DETACH_MCAST] = CMD(detach_mcast),
    [IB_USER_VERBS_CMD_CREATE_SRQ] = CMD_HW(create_srq),
    [IB_USER_VERBS_CMD_MODIFY_SRQ] = {.run = uverbs_cmd_modify_srq,
				      .req = sizeof(struct ib_uverbs_modify_srq),
				      .hw = true},
    [IB_USER_VERBS_CMD_QUERY_SRQ] = CMD_RESP(query_srq),
    [IB_USER_VERBS_CMD_DESTROY_SRQ] = CMD_RESP(destroy_srq),
    [IB_USER_VERBS_CMD_OPEN_XRCD] = CMD_HW(open_xrcd),
    [IB_USER_VERBS_CMD_CLOSE_XRCD] = CMD(close_xrcd),
    [IB_USER_VERBS_CMD_OPEN_QP] = {.run = uverbs_cmd_open_qp,
				   .req = sizeof(struct ib_uverbs_open_qp),
				   .resp = sizeof(struct ib_uverbs_create_qp_resp),
				   .hw = true},
    [IB_USER_VERBS_CMD_CREATE_XSRQ] = {.run = uverbs_cmd_create_xsrq,
				       .req = sizeof(struct ib_uverbs_create_xsrq),
				       .resp = sizeof(struct ib_uverbs_create_srq_resp),
				       .hw = true},
};

/* Extended ones may be shorter than their structures: up to the member that all have */
static const struct command ex_commands[] = {
    [IB_USER_VERBS_EX_CMD_QUERY_DEVICE] =
	{.run = uverbs_cmd_ex_query_device,
	 .req = sizeof(struct ib_uverbs_ex_query_device),
	 .resp = SIZE_TO(struct ib_uverbs_ex_query_device_resp, response_length)},
    [IB_USER_VERBS_EX_CMD_CREATE_CQ] =
	{.run = uverbs_cmd_ex_create_cq,
	 .req = SIZE_TO(struct ib_uverbs_ex_create_cq, reserved),
	 .resp = SIZE_TO(struct ib_uverbs_ex_create_cq_resp, response_length)},
    [IB_USER_VERBS_EX_CMD_CREATE_QP] =
	{.run = uverbs_cmd_ex_create_qp,
	 .req = SIZE_TO(struct ib_uverbs_ex_create_qp, comp_mask),
	 .resp = SIZE_TO(struct ib_uverbs_ex_create_qp_resp, response_length)},
    [IB_USER_VERBS_EX_CMD_MODIFY_QP] =
	{.run = uverbs_cmd_ex_modify_qp,
	 .req = SIZE_TO(struct ib_uverbs_ex_modify_qp, base),
	 .resp = SIZE_TO(struct ib_uverbs_ex_modify_qp_resp, response_length)},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int find_command(uint32_t number, const struct command **out)
{
	uint32_t n = number & IB_USER_VERBS_CMD_COMMAND_MASK;
	const struct command *cmd = NULL;

	if (number &
	    ~(uint32_t)(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK))
		return -EINVAL;
	if (number & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		cmd = n < COUNT(ex_commands) ? &ex_commands[n] : NULL;
	else
		cmd = n < COUNT(commands) ? &commands[n] : NULL;
	if (!cmd || !cmd->run)
		return -EOPNOTSUPP;
	*out = cmd;
	return 0;
}

static int run(struct uverbs_call *c, const struct command *cmd)
{
	if (!c->ctx->ready && cmd->run != uverbs_cmd_get_context)
		return -EINVAL;
	return cmd->run(c);
}

int uverbs_invoke(struct uverbs_call *c, uint32_t number)
{
	const struct command *cmd;
	int ret = find_command(number, &cmd);

	if (ret)
		return ret;
	if (c->in_len < cmd->req || c->out_len < cmd->resp)
		return -ENOSPC;
	return run(c, cmd);
}

/* --- write(2) --------------------------------------------------------------------- */

#define HDR    sizeof(struct ib_uverbs_cmd_hdr)
#define EX_HDR sizeof(struct ib_uverbs_ex_cmd_hdr)

/* The application's pointers may be anything: arithmetic with them must not be C's. */
static void *behind(const void *p, size_t len)
{
	return (void *)((uintptr_t)p + len);
}

static int split_legacy(const struct command *cmd, const struct ib_uverbs_cmd_hdr *hdr,
			const void *buf, size_t len, struct uverbs_call *c)
{
	size_t out_len = hdr->out_words * 4u;
	uint64_t response;

	if (hdr->in_words * 4u != len)
		return -EINVAL;
	if (len < HDR + cmd->req || out_len < cmd->resp)
		return -ENOSPC;
	c->in = behind(buf, HDR);
	c->in_len = len - HDR;
	if (cmd->hw) {
		c->in_len = cmd->req;
		c->hw_in = behind(buf, HDR + cmd->req);
		c->hw_in_len = len - HDR - cmd->req;
	}
	if (!cmd->resp)
		return 0;
	if (guard_copy(&response, c->in, sizeof(response)))
		return -EFAULT;
	c->out = (void *)(uintptr_t)response;
	c->out_len = out_len;
	if (cmd->hw) {
		c->out_len = cmd->resp;
		c->hw_out = behind(c->out, cmd->resp);
		c->hw_out_len = out_len - cmd->resp;
	}
	return 0;
}

static int split_ex(const struct command *cmd, const struct ib_uverbs_cmd_hdr *hdr,
		    const void *buf, size_t len, struct uverbs_call *c)
{
	struct ib_uverbs_ex_cmd_hdr ex;

	if (len < HDR + EX_HDR)
		return -EINVAL;
	if (guard_copy(&ex, behind(buf, HDR), sizeof(ex)))
		return -EFAULT;
	if ((hdr->in_words + (size_t)ex.provider_in_words) * 8 != len - HDR - EX_HDR)
		return -EINVAL;
	if (hdr->in_words * 8u < cmd->req)
		return -ENOSPC;
	if (ex.cmd_hdr_reserved)
		return -EINVAL;
	if (!ex.response != (!hdr->out_words && !ex.provider_out_words))
		return -EINVAL;
	if (ex.response && hdr->out_words * 8u < cmd->resp)
		return -ENOSPC;
	c->in = behind(buf, HDR + EX_HDR);
	c->in_len = hdr->in_words * 8u;
	c->hw_in = behind(c->in, c->in_len);
	c->hw_in_len = ex.provider_in_words * 8u;
	c->out = (void *)(uintptr_t)ex.response;
	c->out_len = hdr->out_words * 8u;
	c->hw_out = behind(c->out, c->out_len);
	c->hw_out_len = ex.provider_out_words * 8u;
	return 0;
}

ssize_t uverbs_write(struct vfile *vf, int fd, const void *buf, size_t len)
{
	struct uverbs_call c = {.ctx = (struct uverbs_context *)vf};
	struct ib_uverbs_cmd_hdr hdr;
	const struct command *cmd;
	int ret;

	if (len < sizeof(hdr))
		return -EINVAL;
	if (guard_copy(&hdr, buf, sizeof(hdr)))
		return -EFAULT;
	ret = find_command(hdr.command, &cmd);
	if (ret)
		return ret;
	if (hdr.command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		ret = split_ex(cmd, &hdr, buf, len, &c);
	else
		ret = split_legacy(cmd, &hdr, buf, len, &c);
	if (!ret)
		ret = uverbs_point_command(c.ctx, hdr.command);
	if (ret)
		return ret;
	if (hdr.command == IB_USER_VERBS_CMD_POST_SEND)
		engine_enter_to_post(c.ctx->engine);
	else
		engine_enter(c.ctx->engine);
	ret = run(&c, cmd);
	uverbs_leave(c.ctx, c.work);
	return ret ? ret : (ssize_t)len;
}
