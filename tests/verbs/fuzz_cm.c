/* fuzz_cm.c - commands of the rdma_cm device. */
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <unistd.h>

#include "tests/verbs/fuzz_face.h"

void fuzz_cm(struct rng *r)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		uint8_t body[560];
	} __attribute__((aligned(8))) q;
	struct rdma_ucm_create_id create = {.uid = 1, .qp_type = 2};
	struct sockaddr_in sin = {.sin_family = AF_INET};
	uint64_t resp = ptr_bits(r);
	uint16_t len = (uint16_t)(4 * below(r, 140));
	int fd = some_fd(r);

	if (fd < 0)
		return;
	fill(r, q.body, sizeof(q.body));
	sin.sin_port = htons((uint16_t)(20000 + below(r, 64)));
	sin.sin_addr.s_addr = htonl(0x7f4e0000 | below(r, 4));
	for (size_t at = 8; at + sizeof(sin) < sizeof(q.body); at += 8)
		if (one_in(r, 12))
			memcpy(q.body + at, &sin, sizeof(sin));
	if (one_in(r, 2))
		memcpy(q.body, &resp, sizeof(resp));
	q.hdr.cmd = one_in(r, 20) ? some_u32(r) : below(r, 24);
	if (one_in(r, 3)) {
		static const uint16_t spaces[] = {0x106, 0x111, 0x13f, 2};

		q.hdr.cmd = RDMA_USER_CM_CMD_CREATE_ID;
		create.ps = spaces[below(r, 4)];
		create.response = resp;
		len = sizeof(create);
		memcpy(q.body, &create, sizeof(create));
	}
	q.hdr.in = (uint16_t)(one_in(r, 10) ? some_u32(r) : len);
	q.hdr.out = (uint16_t)(one_in(r, 4) ? some_u32(r) : 400);
	if (write(fd, &q, sizeof(q.hdr) + len) < 0)
		return;
}
