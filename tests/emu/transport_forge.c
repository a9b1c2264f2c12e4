/* transport_forge.c - makes packets that no good peer sends, and lets one side be alone. */
#include "transport_forge.h"

void inject(struct side *to, struct roce_hdr h, uint32_t payload, struct wrong how)
{
	static uint8_t data[8192];
	const struct side *from = to == &env.a ? &env.b : &env.a;
	struct net_path path = {.src = from->ip, .dst = to->ip};
	struct net_rx rx = {.path = &path, .data = data};
	uint32_t hdr_len;

	h.pkey = how.pkey ? how.pkey : ROCE_PKEY_DEFAULT;
	h.dqpn = h.dqpn ? h.dqpn : emu_qp_num(to->qp);
	h.pad = (0 - payload) & 3;
	path.src.b[15] ^= how.src;
	path.dst.b[15] ^= how.dst;
	memset(data, 0xee, sizeof(data));
	hdr_len = roce_build(data, &h);
	rx.len = hdr_len + payload + h.pad - how.cut;
	emu_hca_rx(to->hca, &rx);
	if (!how.still)
		env_run(0);
}

void answer(uint8_t op, uint8_t syndrome, uint32_t n, uint32_t payload)
{
	inject(&env.a,
	       (struct roce_hdr){
		   .opcode = op, .syndrome = syndrome, .psn = roce_psn_add(PSN, n)},
	       payload, (struct wrong){0});
}

int lost(struct side *from, const struct roce_hdr *h, uint8_t *data, uint32_t len)
{
	return from == &env.a ? 0 : 1;
}

void alone_with(uint8_t timeout, enum ibv_mtu mtu)
{
	env_connect(
	    (struct env_qp){.psn = PSN, .timeout = timeout, .mtu = mtu, .sig_all = true});
	env.filter = lost;
}

void alone(void)
{
	alone_with(20, IBV_MTU_1024);
}

void post(int op, uint64_t id, uint32_t len)
{
	env_post(&env.a, (struct env_wr){.id = id, .op = op, .len = len});
	env_run(0);
}

bool untouched(const uint8_t *p, uint32_t len)
{
	while (len--)
		if (p[len])
			return false;
	return true;
}
