/*
 * switch.c - the header that the switch puts in front of what it forwards; see switch.h.
 */
#include "net/switch.h"

#include "net/bytes.h"

/* Offsets; all numbers in network order */
enum {
	AT_MAGIC = 0, /* 4 bytes */
	AT_SLOT = 4,
	AT_TCLASS = 6,
	AT_TTL = 7,
	AT_SPORT = 8,
	AT_ZERO = 10,
	AT_FLOW = 12,
	AT_SRC = 16,
};

static const uint8_t magic[4] = {SWITCH_MAGIC, 'u', 'x', 1};

void switch_encap_write(uint8_t *p, unsigned int slot, const struct net_path *path)
{
	memcpy(p + AT_MAGIC, magic, sizeof(magic));
	put_be16(p + AT_SLOT, (uint16_t)slot);
	p[AT_TCLASS] = path->tclass;
	p[AT_TTL] = path->ttl;
	put_be16(p + AT_SPORT, path->sport);
	put_be16(p + AT_ZERO, 0);
	put_be32(p + AT_FLOW, path->flow);
	memcpy(p + AT_SRC, path->src.b, sizeof(path->src.b));
}

bool switch_encap_read(const uint8_t *p, uint32_t len, struct switch_encap *out)
{
	if (len < SWITCH_ENCAP_LEN || memcmp(p + AT_MAGIC, magic, sizeof(magic)) != 0)
		return false;
	out->slot = get_be16(p + AT_SLOT);
	out->path.tclass = p[AT_TCLASS];
	out->path.ttl = p[AT_TTL];
	out->path.sport = get_be16(p + AT_SPORT);
	out->path.flow = get_be32(p + AT_FLOW) & 0xfffff;
	memcpy(out->path.src.b, p + AT_SRC, sizeof(out->path.src.b));
	return true;
}

uint64_t switch_key(const struct net_ip *ip)
{
	/*
	 * "switch" in front keeps it apart from other users of the registry; the
	 * addresses of one host do not collide in 64 bits
	 */
	uint64_t key = 0x7377697463680000ull;
	unsigned int i;

	for (i = 0; i < sizeof(ip->b); i++)
		key = (key ^ ip->b[i]) * 0x100000001b3ull; /* FNV-1a */
	return key;
}
