/*
 * path_record.c - path records, as the rdma_cm device gives and takes them: the subnet
 * administrator's (IBTA 15.2.5.16), 64 packed bytes, and the kernel's older structure.
 */
#include <endian.h>
#include <string.h>

#include "verbs/ucma/ucma_internal.h"

/* Where the components are, in bytes. A selector is in the upper two bits of its byte. */
enum {
	SERVICE_ID = 0,
	DGID = 8,
	SGID = 24,
	FLOW_AND_HOPS =
	    44, /* 4 bits raw traffic and such, 20 bits flow label, 8 hop limit */
	TCLASS = 48,
	REVERSIBLE = 49, /* the top bit */
	PKEY = 50,
	MTU = 54,
	RATE = 55,
	LIFETIME = 56,
};

#define FLOW_SHIFT    8
#define FLOW_MASK     0xfffffu
#define EXACTLY	      2 /* a selector */
#define SELECT_EXACT  (EXACTLY << 6)
#define SELECTED_MASK 0x3f

void ucma_path_pack(const struct ucma_id *id, uint8_t record[UCMA_PATH_RECORD_LEN])
{
	uint64_t sid = htobe64(cm_service_id(id->ps, ucma_addr_port(&id->dst)));
	uint32_t flow = htobe32(id->path.flow << FLOW_SHIFT | id->path.hop_limit);
	uint16_t pkey = htobe16(UCMA_PKEY);

	memset(record, 0, UCMA_PATH_RECORD_LEN);
	memcpy(record + SERVICE_ID, &sid, sizeof(sid));
	memcpy(record + DGID, id->dgid.b, 16);
	memcpy(record + SGID, id->sgid.b, 16);
	memcpy(record + FLOW_AND_HOPS, &flow, sizeof(flow));
	record[TCLASS] = id->path.tclass;
	record[REVERSIBLE] = 0x80;
	memcpy(record + PKEY, &pkey, sizeof(pkey));
	record[MTU] = (uint8_t)(SELECT_EXACT | id->path.mtu);
	record[RATE] = SELECT_EXACT;
	record[LIFETIME] = (uint8_t)(SELECT_EXACT | id->path.lifetime);
}

void ucma_path_unpack(const uint8_t record[UCMA_PATH_RECORD_LEN], struct ucma_path *path)
{
	uint32_t flow;

	memcpy(&flow, record + FLOW_AND_HOPS, sizeof(flow));
	flow = be32toh(flow);
	*path = (struct ucma_path){
	    .mtu = (enum ibv_mtu)(record[MTU] & SELECTED_MASK),
	    .lifetime = record[LIFETIME] & SELECTED_MASK,
	    .tclass = record[TCLASS],
	    .hop_limit = (uint8_t)flow,
	    .flow = flow >> FLOW_SHIFT & FLOW_MASK,
	};
}

void ucma_path_user(const struct ucma_id *id, struct ib_user_path_rec *r)
{
	memcpy(r->dgid, id->dgid.b, 16);
	memcpy(r->sgid, id->sgid.b, 16);
	r->pkey = htobe16(UCMA_PKEY);
	if (!id->num_paths)
		return;
	r->flow_label = htobe32(id->path.flow);
	r->reversible = 1;
	r->mtu = id->path.mtu;
	r->hop_limit = id->path.hop_limit;
	r->traffic_class = id->path.tclass;
	r->mtu_selector = EXACTLY;
	r->rate_selector = EXACTLY;
	r->packet_life_time_selector = EXACTLY;
	r->packet_life_time = id->path.lifetime;
}
