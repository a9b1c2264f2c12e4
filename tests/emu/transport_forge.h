/*
 * transport_forge.h - packets that no good peer sends, for the tests of what is made of them.
 *
 * Side @a of the environment is alone: what it sends is lost, and the test answers in its peer's
 * name.
 */
#ifndef URXE_TESTS_EMU_TRANSPORT_FORGE_H
#define URXE_TESTS_EMU_TRANSPORT_FORGE_H

#include "transport_env.h"

#define PSN 0xfffffeu /* the PSNs of these tests wrap */

/* struct wrong - what is not as it should be */
struct wrong {
	uint8_t src, dst; /* last byte of the addresses is changed */
	uint16_t pkey;
	uint32_t cut; /* bytes that are missing at the end */
	bool still;   /* do not let the HCA run */
};

/* Give @to a packet with @payload bytes, as if from its peer but for what is wrong */
void inject(struct side *to, struct roce_hdr h, uint32_t payload, struct wrong how);
/* A response to @a, @n packets behind the first one that it sent */
void answer(uint8_t op, uint8_t syndrome, uint32_t n, uint32_t payload);
/* What @a sends is lost: a filter */
int lost(struct side *from, const struct roce_hdr *h, uint8_t *data, uint32_t len);
void alone_with(uint8_t timeout, enum ibv_mtu mtu);
void alone(void);
/* Post one work request to @a, and let it run */
void post(int op, uint64_t id, uint32_t len);
/* Are @len bytes zero? */
bool untouched(const uint8_t *p, uint32_t len);

#endif
