/*
 * diagnose_modify.c - which attribute of a modify was refused, and why; and what else verbs
 * refuse.
 *
 * The checks are those of qp.c and of the kernel's face, in their order.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emu/diagnose.h"
#include "trace/names.h"
#include "trace/render.h"

#define WHY_BYTES 256

static const char *state_name(unsigned int state)
{
	const char *name = trace_name(TRACE_STATE, state);

	return name ? name : "?";
}

static const char *gid_text(const uint8_t gid[16], char buf[64])
{
	struct trace_ip ip;

	memcpy(ip.b, gid, sizeof(ip.b));
	return trace_ip_text(&ip, buf);
}

/* The names of the attributes of @mask, as they are in attr_mask */
static void mask_text(uint32_t mask, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int bit = 0; bit < 32; bit++)
		if (mask & 1u << bit && trace_attr_name(bit) && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%sIBV_QP_%s",
					      n ? ", " : "", trace_attr_name(bit));
}

/* The entries that the GID table has, at most a few */
static void gids_text(const struct emu_hca *hca, char *buf, size_t size)
{
	size_t n = 0;
	char ip[64];

	buf[0] = '\0';
	for (unsigned int i = 0; i < EMU_GID_TABLE_LEN && n < size; i++)
		if (hca->gid_used[i])
			n += (size_t)snprintf(buf + n, size - n, "%s%u (%s)",
					      n ? ", " : "", i,
					      gid_text(hca->gid[i].b, ip));
}

/* The address vector; false: nothing is wrong with it but the route */
static bool wrong_av(const struct emu_qp *qp, const struct ibv_ah_attr *ah,
		     char why[WHY_BYTES])
{
	static const struct net_ip any;
	const struct ibv_global_route *grh = &ah->grh;
	unsigned int i = grh->sgid_index;
	char gids[160], src[64], dst[64];
	struct net_ip to;

	memcpy(to.b, grh->dgid.raw, sizeof(to.b));
	if (ah->port_num != EMU_PORT) {
		snprintf(why, WHY_BYTES, "ah_attr.port_num is %u, the device has port 1",
			 ah->port_num);
	} else if (!ah->is_global) {
		snprintf(why, WHY_BYTES,
			 "ah_attr.is_global is 0, and RoCE has no addresses but GIDs: "
			 "is_global = 1, grh.dgid, grh.sgid_index");
	} else if (i >= EMU_GID_TABLE_LEN || !qp->hca->gid_used[i]) {
		gids_text(qp->hca, gids, sizeof(gids));
		snprintf(why, WHY_BYTES,
			 "grh.sgid_index is %u, and the GID table has no such entry: it "
			 "has %s",
			 i, gids);
	} else if (net_ip_eq(&to, &any)) {
		snprintf(why, WHY_BYTES, "grh.dgid is all zero: nobody's address");
	} else if (net_ip_is_v4(&to) != net_ip_is_v4(&qp->hca->gid[i])) {
		gids_text(qp->hca, gids, sizeof(gids));
		snprintf(why, WHY_BYTES,
			 "grh.dgid is %s and grh.sgid_index %u is %s: IPv4 and IPv6 do "
			 "not meet; the GID table has %s",
			 gid_text(to.b, dst), i, gid_text(qp->hca->gid[i].b, src), gids);
	} else {
		return false;
	}
	return true;
}

static void no_route(const struct emu_qp *qp, const struct ibv_ah_attr *ah, int err,
		     char why[WHY_BYTES])
{
	const struct net_ip *from = &qp->hca->gid[ah->grh.sgid_index];
	char src[64], dst[64];

	snprintf(why, WHY_BYTES, "this host has no route from %s to %s (%s)%s",
		 gid_text(from->b, src), gid_text(ah->grh.dgid.raw, dst), strerror(-err),
		 net_ip_is_v4(from) && from->b[12] == 127
		     ? "; a device on lo does not reach other hosts (urxe run --device)"
		     : "");
}

/* The transition; what of it was refused */
static uint32_t wrong_state(const struct emu_qp *qp, const struct ibv_qp_attr *attr,
			    int mask, char why[WHY_BYTES])
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	uint32_t missing, extra;
	char names[160];

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state) {
		snprintf(why, WHY_BYTES, "cur_qp_state is %s, and the QP is in %s",
			 state_name(attr->cur_qp_state), state_name(qp->state));
		return IBV_QP_CUR_STATE;
	}
	if (!emu_qp_transition(qp->type, qp->state, to, mask, &missing, &extra)) {
		snprintf(why, WHY_BYTES,
			 "there is no way from %s to %s (RESET, INIT, RTR, RTS is the "
			 "order)",
			 state_name(qp->state), state_name(to));
		return IBV_QP_STATE;
	}
	if (missing || extra) {
		mask_text(missing ? missing : extra, names, sizeof(names));
		snprintf(why, WHY_BYTES, "attr_mask %s %s", missing ? "lacks" : "has",
			 names);
		if (!missing)
			strncat(why, ", which this transition does not take",
				WHY_BYTES - strlen(why) - 1);
		return missing ? missing : extra;
	}
	snprintf(why, WHY_BYTES, "the send queue is draining: wait for SQ_DRAINED");
	return IBV_QP_STATE;
}

static uint32_t why_modify(const struct emu_qp *qp, const struct ibv_qp_attr *attr,
			   int mask, int err, char why[WHY_BYTES])
{
	struct emu_qp_value v;
	uint32_t bit;

	if (err == -EOPNOTSUPP) {
		snprintf(why, WHY_BYTES, "attr_mask has bits of raw packet QPs");
		return (uint32_t)mask;
	}
	if (mask & IBV_QP_AV) {
		if (wrong_av(qp, &attr->ah_attr, why))
			return IBV_QP_AV;
		if (err != -EINVAL) {
			no_route(qp, &attr->ah_attr, err, why);
			return IBV_QP_AV;
		}
	}
	bit = emu_qp_wrong_value(qp, attr, mask, &v);
	if (!bit)
		return wrong_state(qp, attr, mask, why);
	if (bit == IBV_QP_ACCESS_FLAGS)
		snprintf(why, WHY_BYTES, "%s is 0x%x, this QP can have bits of 0x%x",
			 v.name, v.value, v.max);
	else if (v.min == v.max)
		snprintf(why, WHY_BYTES, "%s is %u, the device has %u only", v.name,
			 v.value, v.max);
	else
		snprintf(why, WHY_BYTES, "%s is %u, it may be %u to %u", v.name, v.value,
			 v.min, v.max);
	return bit;
}

uint32_t diagnose_modify(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask,
			 int err)
{
	struct emu_about about = {
	    .cause = TRACE_NOTE_MODIFY, .object = TRACE_OBJ_QP, .id = qp->qpn};
	int to = mask & IBV_QP_STATE ? (int)attr->qp_state : (int)qp->state;
	char why[WHY_BYTES];

	mask = emu_qp_mask(qp->type, mask);
	about.detail = why_modify(qp, attr, mask, err, why);
	/* that the state before was not reached has been said */
	about.say = !(qp->refused && about.detail == IBV_QP_STATE);
	emu_note(qp->hca, &about, "ibv_modify_qp() from %s to %s fails with %s: %s",
		 state_name(qp->state), state_name((unsigned int)to),
		 strerrorname_np(-err), why);
	return about.detail;
}

void diagnose_post(struct emu_qp *qp)
{
	const struct emu_about about = {.cause = TRACE_NOTE_POST,
					.object = TRACE_OBJ_QP,
					.id = qp->qpn,
					.say = !qp->refused};

	emu_note(qp->hca, &about,
		 "ibv_post_send() in %s fails with EINVAL: the QP must be in RTS first",
		 state_name(qp->state));
}

static void why_post(const struct emu_qp *qp, const struct emu_posted *p, int err,
		     char why[WHY_BYTES])
{
	const struct trace_cq *cq = &qp->send_cq->seen->cq;

	if (err == ENOMEM)
		snprintf(why, WHY_BYTES,
			 "the send queue is full: %u of %u requests are not complete; "
			 "%" PRIu64 " completions wait in its CQ, %u",
			 ring_count_from(&qp->sq, qp->sq.local), qp->cap.max_send_wr,
			 cq->produced - cq->polled, qp->send_cq->num);
	else if (p->is_inline && p->length > qp->cap.max_inline_data)
		snprintf(why, WHY_BYTES,
			 "IBV_SEND_INLINE with %u bytes, and max_inline_data of the QP "
			 "is %u",
			 p->length, qp->cap.max_inline_data);
	else if (p->num_sge > qp->cap.max_send_sge)
		snprintf(why, WHY_BYTES, "%u SGEs, and max_send_sge of the QP is %u",
			 p->num_sge, qp->cap.max_send_sge);
	else
		snprintf(why, WHY_BYTES, "the provider does not take such a request");
}

void emu_qp_post_failed(struct emu_qp *qp, const struct emu_posted *p, int err)
{
	/* a full queue is how some programs find out that they must poll */
	const struct emu_about about = {.cause = TRACE_NOTE_POST,
					.object = TRACE_OBJ_QP,
					.id = qp->qpn,
					.detail = (uint32_t)err,
					.say = err != ENOMEM};
	char why[WHY_BYTES];

	if (qp->state < IBV_QPS_RTS || !qp->send_cq)
		return; /* the doorbell has said it */
	why_post(qp, p, err, why);
	emu_note(qp->hca, &about,
		 "ibv_post_send() of wr_id 0x%" PRIx64 " fails with %s: %s", p->wr_id,
		 strerrorname_np(err), why);
}

void diagnose_reg_mr(const struct emu_mr *want, int err)
{
	const struct emu_about about = {.cause = TRACE_NOTE_REG_MR,
					.object = TRACE_OBJ_MR,
					.detail = (uint32_t)want->access,
					.say = err == -EINVAL || err == -EFAULT};
	bool lacks_local =
	    (want->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(want->access & IBV_ACCESS_LOCAL_WRITE);
	const char *why = "address, length or access flags make no region";

	if (lacks_local)
		why = "IBV_ACCESS_REMOTE_WRITE and _REMOTE_ATOMIC need "
		      "IBV_ACCESS_LOCAL_WRITE, too";
	else if (err == -EFAULT)
		why =
		    "some of the memory is not mapped, or its protection does not allow "
		    "the access";
	else if (err == -ENOMEM)
		why = "there is no memory for it, or RLIMIT_MEMLOCK is too small";
	emu_note(want->hca, &about,
		 "ibv_reg_mr() of %" PRIu64 " bytes at 0x%" PRIx64
		 ", access 0x%x, fails with %s: %s",
		 want->length, want->start, (unsigned int)want->access,
		 strerrorname_np(-err), why);
}

void emu_note_unacked(struct emu_hca *hca, enum trace_object_kind object, uint32_t id,
		      uint32_t comp, uint32_t async)
{
	/* not said: another thread may be about to do it */
	const struct emu_about about = {
	    .cause = TRACE_NOTE_EVENTS, .object = object, .id = id};
	const char *name = trace_name(TRACE_OBJECT, object);
	char number[24] = "";

	if (object != TRACE_OBJ_QP)
		snprintf(number, sizeof(number), "%s %u: ", name, id);
	emu_note(
	    hca, &about,
	    "%sibv_destroy_%s() came when %u event(s) were read and not acknowledged: "
	    "it waits until %s() has done so",
	    number,
	    object == TRACE_OBJ_CQ   ? "cq"
	    : object == TRACE_OBJ_QP ? "qp"
				     : "srq",
	    comp + async, comp ? "ibv_ack_cq_events" : "ibv_ack_async_event");
}
