/*
 * fuzz_uverbs.c - commands to the uverbs device, by write(2) and by ioctl(2), in one context that
 * ends with the input. What a command points to is memory of the target's, or nobody's; the rest
 * is any bytes.
 */
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/fuzz/fuzz.h"
#include "verbs/uverbs/uverbs.h"

#define STEPS  32
#define BODY   192
#define ATTRS  12
#define ARENA  (1u << 20)
#define ANSWER 512

static uint8_t *arena;

static void give(int fd, const void *buf, size_t len)
{
	struct vfile *vf = vfile_get(fd);

	if (!vf)
		abort();
	vf->ops->write(vf, fd, buf, len);
	vfile_put(vf);
}

/* An open device that has done GET_CONTEXT */
static int context(void)
{
	struct ib_uverbs_get_context_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_get_context cmd;
	} q = {{IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(q) / 4, sizeof(resp) / 4},
	       {.response = (uintptr_t)&resp}};
	int fd;

	setenv("URXE_DEVICE", "rxe0=lo", 1);
	fd = uverbs_open(0, O_RDWR);
	if (fd < 0)
		abort();
	give(fd, &q, sizeof(q));
	return fd;
}

static void *somewhere(struct input *in)
{
	uint32_t at = take16(in);

	return at == 0xffff ? (void *)16 : arena + at * 16 % (ARENA - ANSWER);
}

/* Descriptors that answers may have told of: those that are vfiles */
static void close_new(void)
{
	for (int fd = 3; fd < 64; fd++) {
		struct vfile *vf = vfile_get(fd);

		if (!vf)
			continue;
		vfile_put(vf);
		vfile_discard(fd);
	}
}

/* The first 8 bytes of a request point to the answer, those of an extended one in its header */
static void by_write(struct input *in, int fd)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint8_t body[BODY];
	} __attribute__((aligned(8))) q;
	uint16_t len = take8(in) % (BODY / 4) * 4;
	uint64_t answer = (uintptr_t)somewhere(in);
	bool ex = take8(in) % 4 == 1;

	q.hdr.command = take8(in) % 48 | (ex ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0);
	if (ex)
		q.hdr.in_words = (uint16_t)(len < 16 ? 0 : len / 8 - 2);
	else
		q.hdr.in_words = (uint16_t)((len + sizeof(q.hdr)) / 4);
	q.hdr.out_words = take8(in) % (ANSWER / 8);
	take(in, q.body, sizeof(q.body));
	memcpy(q.body, &answer, sizeof(answer));
	/* a region is of the arena, or of nothing */
	if (q.hdr.command == IB_USER_VERBS_CMD_REG_MR) {
		uint64_t start = (uintptr_t)somewhere(in), length = take32(in) % 65536;

		memcpy(q.body + 8, &start, 8);
		memcpy(q.body + 16, &length, 8);
		memcpy(q.body + 24, &start, 8);
	}
	if (take8(in) == 1)
		q.hdr.in_words++;
	give(fd, &q, sizeof(q.hdr) + len);
}

static void by_ioctl(struct input *in, int fd)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr[ATTRS];
	} q = {0};
	unsigned int n = take8(in) % (ATTRS + 1), i;
	struct vfile *vf;

	q.hdr.length = (uint16_t)(sizeof(q.hdr) + n * sizeof(q.attr[0]));
	q.hdr.object_id = take8(in) % 20;
	q.hdr.method_id = take8(in) % 12;
	q.hdr.num_attrs = (uint16_t)n;
	q.hdr.driver_id = take8(in) % 2 ? RDMA_DRIVER_RXE : take8(in);
	for (i = 0; i < n; i++) {
		struct ib_uverbs_attr *a = &q.attr[i];

		a->attr_id = take8(in) % 32;
		if (take8(in) % 8 == 1)
			a->attr_id |= 0x1000; /* UVERBS_ID_DRIVER_NS */
		a->len = take8(in) % 2 ? take8(in) : 8;
		a->flags = take8(in) % 2;
		a->data = take8(in) % 2 ? (uintptr_t)somewhere(in) : take8(in);
	}
	vf = vfile_get(fd);
	if (!vf)
		abort();
	vf->ops->ioctl(vf, fd, RDMA_VERBS_IOCTL, &q);
	vfile_put(vf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	int fd, i;

	if (!arena)
		arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd = context();
	for (i = 0; i < STEPS && in.n; i++)
		if (take8(&in) % 3)
			by_write(&in, fd);
		else
			by_ioctl(&in, fd);
	close_new();
	return 0;
}
