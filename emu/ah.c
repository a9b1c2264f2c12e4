/*
 * ah.c - address handles, and the path that address attributes describe.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/objects.h"

/*
 * rdma_check_ah_attr(), rdma_get_gid_attr(): a port of ours, a GRH (RoCE has no other
 * address), a GID that exists. And an address of the same family, else nothing could be
 * sent.
 */
int emu_path_from_ah(const struct emu_hca *hca, const struct ibv_ah_attr *attr,
		     struct net_path *path)
{
	const struct ibv_global_route *grh = &attr->grh;
	static const struct net_ip any;
	struct net_path p = {
	    .tclass = grh->traffic_class,
	    .ttl = grh->hop_limit,
	    .flow = grh->flow_label & 0xfffff,
	};

	if (attr->port_num != EMU_PORT || !attr->is_global ||
	    grh->sgid_index >= EMU_GID_TABLE_LEN)
		return -EINVAL;
	if (!hca->gid_used[grh->sgid_index])
		return -ENODATA;
	p.src = hca->gid[grh->sgid_index];
	memcpy(p.dst.b, grh->dgid.raw, sizeof(p.dst.b));
	if (net_ip_is_v4(&p.src) != net_ip_is_v4(&p.dst) || net_ip_eq(&p.dst, &any))
		return -EINVAL;
	*path = p;
	return 0;
}

int emu_ah_create(struct emu_pd *pd, const struct ibv_ah_attr *attr, struct emu_ah **out)
{
	struct emu_hca *hca = pd->hca;
	struct net_path path;
	struct emu_ah *ah;
	uint8_t last;
	int ret;

	ret = emu_path_from_ah(hca, attr, &path);
	if (ret) {
		emu_made(hca, TRACE_OBJ_AH, 0, pd->num, 0, ret);
		return ret;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	*ah = (struct emu_ah){.hca = hca, .pd = pd, .attr = *attr, .path = path};
	ret = emu_table_add(&hca->ahs, ah, &ah->num, &last);
	if (ret) {
		free(ah);
		return ret;
	}
	pd->users++;
	emu_made(hca, TRACE_OBJ_AH, ah->num, pd->num, 0, 0);
	*out = ah;
	return 0;
}

int emu_ah_destroy(struct emu_ah *ah)
{
	emu_ended(ah->hca, TRACE_OBJ_AH, ah->num, 0);
	emu_table_del(&ah->hca->ahs, ah->num, 0);
	ah->pd->users--;
	free(ah);
	return 0;
}

uint32_t emu_ah_num(const struct emu_ah *ah)
{
	return ah->num;
}

struct emu_ah *emu_ah_find(struct emu_hca *hca, uint32_t num)
{
	return emu_table_get(&hca->ahs, num);
}
