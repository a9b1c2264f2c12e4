/*
 * mcast.c - which UD QPs are in which multicast group.
 *
 * The network is told when the first QP joins and when the last one leaves.
 */
#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

#include "emu/qp.h"

/* struct emu_mcast_group - @qp: its members, @num of them, room for @room */
struct emu_mcast_group {
	struct net_ip ip;
	struct emu_qp **qp;
	uint32_t num, room;
	UT_hash_handle hh;
};

/* rdma_is_multicast_addr(): ff00::/8, or 224.0.0.0/4 in mapped form */
static bool is_multicast(const struct net_ip *ip)
{
	return ip->b[0] == 0xff || (net_ip_is_v4(ip) && (ip->b[12] & 0xf0) == 0xe0);
}

static struct emu_mcast_group *find(struct emu_hca *hca, const struct net_ip *ip)
{
	struct emu_mcast_group *g;

	HASH_FIND(hh, hca->mcast, ip, sizeof(*ip), g);
	return g;
}

static int index_of(const struct emu_mcast_group *g, const struct emu_qp *qp)
{
	for (uint32_t i = 0; i < g->num; i++)
		if (g->qp[i] == qp)
			return (int)i;
	return -1;
}

static int make_group(struct emu_hca *hca, const struct net_ip *ip,
		      struct emu_mcast_group **out)
{
	struct emu_mcast_group *g;
	int ret;

	if (hca->num_mcast_groups >= hca->limits.max_mcast_grp)
		return -ENOMEM;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	ret = hca->ops->mcast(hca->arg, ip, true);
	if (ret) {
		free(g);
		return ret;
	}
	g->ip = *ip;
	HASH_ADD(hh, hca->mcast, ip, sizeof(g->ip), g);
	hca->num_mcast_groups++;
	*out = g;
	return 0;
}

static void drop_group_if_empty(struct emu_hca *hca, struct emu_mcast_group *g)
{
	if (g->num)
		return;
	/* uthash: the lists that a group is in do not go to freed ones */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	HASH_DEL(hca->mcast, g);
	hca->num_mcast_groups--;
	hca->ops->mcast(hca->arg, &g->ip, false);
	free(g->qp);
	free(g);
}

static int add(struct emu_mcast_group *g, struct emu_qp *qp)
{
	if (g->num >= qp->hca->limits.max_mcast_qp_attach)
		return -ENOMEM;
	if (g->num == g->room) {
		uint32_t room = g->room ? 2 * g->room : 4;
		struct emu_qp **p = realloc(g->qp, room * sizeof(*p));

		if (!p)
			return -ENOMEM;
		g->qp = p;
		g->room = room;
	}
	g->qp[g->num++] = qp;
	return 0;
}

static int attach(struct emu_qp *qp, const struct net_ip *group)
{
	struct emu_hca *hca = qp->hca;
	struct emu_mcast_group *g;
	int ret;

	if (qp->type != IBV_QPT_UD || !is_multicast(group))
		return -EINVAL;
	g = find(hca, group);
	if (g && index_of(g, qp) >= 0)
		return 0; /* ib_uverbs_attach_mcast(): once is enough */
	if (hca->num_mcast_attached >= hca->limits.max_total_mcast_qp_attach)
		return -ENOMEM;
	if (!g) {
		ret = make_group(hca, group, &g);
		if (ret)
			return ret;
	}
	ret = add(g, qp);
	if (ret) {
		drop_group_if_empty(hca, g);
		return ret;
	}
	qp->mcast_groups++;
	hca->num_mcast_attached++;
	return 0;
}

static int record(const struct emu_qp *qp, enum trace_verb verb, int ret)
{
	if (ret)
		EMU_TRACE(qp->hca, verb_failed, .object = TRACE_OBJ_QP,
			  .verb = (uint8_t)verb, .id = qp->qpn, .result = ret);
	else
		EMU_TRACE(qp->hca, verb, .object = TRACE_OBJ_QP, .verb = (uint8_t)verb,
			  .id = qp->qpn);
	return ret;
}

int emu_qp_attach_mcast(struct emu_qp *qp, const struct net_ip *group)
{
	return record(qp, TRACE_VERB_ATTACH, attach(qp, group));
}

static void leave(struct emu_mcast_group *g, struct emu_qp *qp, uint32_t index)
{
	struct emu_hca *hca = qp->hca;

	g->qp[index] = g->qp[--g->num];
	qp->mcast_groups--;
	hca->num_mcast_attached--;
	drop_group_if_empty(hca, g);
}

int emu_qp_detach_mcast(struct emu_qp *qp, const struct net_ip *group)
{
	struct emu_mcast_group *g = find(qp->hca, group);
	int index = g ? index_of(g, qp) : -1;

	if (qp->type != IBV_QPT_UD || !is_multicast(group) || index < 0)
		return record(qp, TRACE_VERB_DETACH, -EINVAL);
	leave(g, qp, (uint32_t)index);
	return record(qp, TRACE_VERB_DETACH, 0);
}

void emu_qp_detach_all_mcast(struct emu_qp *qp)
{
	struct emu_mcast_group *g, *tmp;

	if (!qp->mcast_groups)
		return;
	HASH_ITER (hh, qp->hca->mcast, g, tmp) {
		int index = index_of(g, qp);

		if (index >= 0)
			leave(g, qp, (uint32_t)index);
	}
}

void emu_mcast_each(struct emu_hca *hca, const struct net_ip *group,
		    void (*fn)(void *arg, struct emu_qp *qp), void *arg)
{
	struct emu_mcast_group *g = find(hca, group);

	for (uint32_t i = 0; g && i < g->num; i++)
		fn(arg, g->qp[i]);
}
