/* fuzz_ioctl.c - uverbs by ioctl(2). */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include "tests/verbs/fuzz_face.h"

void fuzz_ioctl(struct rng *r)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr[16];
	} q = {0};
	uint16_t n = (uint16_t)below(r, 12);
	int fd = some_fd(r);
	uint8_t *body = shared.arena + below(r, ARENA - (1 << 17)) / 8 * 8;

	if (fd < 0)
		return;
	fill(r, body, BODY);
	q.hdr.length = (uint16_t)(sizeof(q.hdr) + n * sizeof(q.attr[0]));
	q.hdr.object_id = (uint16_t)below(r, 20);
	q.hdr.method_id = (uint16_t)below(r, 10);
	q.hdr.num_attrs = n;
	q.hdr.driver_id = RDMA_DRIVER_RXE;
	for (uint16_t i = 0; i < n; i++) {
		struct ib_uverbs_attr *a = &q.attr[i];

		a->attr_id =
		    (uint16_t)(one_in(r, 8) ? 0x1000 + below(r, 3) : i + below(r, 2));
		a->len = (uint16_t)(one_in(r, 6) ? some_u32(r) : below(r, 65));
		a->flags = (uint16_t)(one_in(r, 20) ? rnd(r) : one_in(r, 2));
		a->data = one_in(r, 2) ? ptr_bits(r) : some_u32(r);
		if (a->len > 8 && one_in(r, 2))
			a->data = (uintptr_t)body;
	}
	if (one_in(r, 20))
		q.hdr.length = (uint16_t)rnd(r);
	if (one_in(r, 20))
		q.hdr.num_attrs = (uint16_t)rnd(r);
	if (one_in(r, 4)) { /* a legacy command inside */
		q.hdr.object_id = UVERBS_OBJECT_DEVICE;
		q.hdr.method_id = UVERBS_METHOD_INVOKE_WRITE;
		q.attr[0].attr_id = UVERBS_ATTR_CORE_IN;
		q.attr[1].attr_id = UVERBS_ATTR_CORE_OUT;
		q.attr[2].attr_id = UVERBS_ATTR_WRITE_CMD;
		q.attr[2].data = below(r, 44);
		q.attr[2].len = 8;
		tame(r, (uint32_t)q.attr[2].data, body);
	}
	/* what answers with descriptors, see comp_channel() */
	if (q.hdr.object_id == UVERBS_OBJECT_ASYNC_EVENT ||
	    q.attr[2].data == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL)
		return;
	ioctl(fd, one_in(r, 30) ? rnd(r) : RDMA_VERBS_IOCTL,
	      one_in(r, 30) ? (void *)some_ptr(r) : &q);
}
