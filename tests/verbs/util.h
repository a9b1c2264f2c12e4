/*
 * util.h - helpers of the tests of verbs: a context as a program has it, and requests to
 * it.
 */
#ifndef URXE_TESTS_VERBS_UTIL_H
#define URXE_TESTS_VERBS_UTIL_H

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/uverbs/uverbs.h"
#include "tests/check_main.h"

/* A suite of one test case, run; what main() returns */
static inline int util_run(const char *name, void (*add)(TCase *tc))
{
	Suite *s = suite_create(name);
	TCase *tc = tcase_create(name);

	tcase_set_timeout(tc, 60);
	add(tc);
	suite_add_tcase(s, tc);
	return check_main(s);
}

/* An address that no program has mapped */
static inline void *util_bad_ptr(void)
{
	void *volatile p = (void *)16; /* the compiler must not look through it */

	return p;
}
#define BAD_PTR util_bad_ptr()

static inline ssize_t util_write(int fd, const void *buf, size_t len)
{
	struct vfile *vf = vfile_get(fd);
	ssize_t n;

	ck_assert_ptr_nonnull(vf);
	n = vf->ops->write(vf, fd, buf, len);
	vfile_put(vf);
	return n;
}

static inline int util_ioctl(int fd, unsigned long cmd, void *arg)
{
	struct vfile *vf = vfile_get(fd);
	int n;

	ck_assert_ptr_nonnull(vf);
	n = vf->ops->ioctl(vf, fd, cmd, arg);
	vfile_put(vf);
	return n;
}

static inline ssize_t util_read(int fd, void *buf, size_t len)
{
	struct vfile *vf = vfile_get(fd);
	ssize_t n;

	ck_assert_ptr_nonnull(vf);
	n = vf->ops->read(vf, fd, buf, len);
	vfile_put(vf);
	return n;
}

static inline void util_close(int fd)
{
	vfile_discard(fd);
}

/* A request of up to 256 bytes behind its header */
struct util_request {
	struct ib_uverbs_cmd_hdr hdr;
	uint8_t body[256];
} __attribute__((aligned(8)));

/*
 * Send a legacy command: @body of @len bytes, whose first 8 become the pointer to @resp
 * if there is one. 0 or -errno
 */
static inline int util_command(int fd, uint32_t number, const void *body, size_t len,
			       void *resp, size_t resp_len)
{
	uint64_t ptr = (uintptr_t)resp;
	struct util_request r = {0};
	ssize_t n;

	ck_assert(len <= sizeof(r.body));
	memcpy(r.body, body, len);
	if (resp)
		memcpy(r.body, &ptr, sizeof(ptr));
	r.hdr.command = number;
	r.hdr.in_words = (uint16_t)((sizeof(r.hdr) + len) / 4);
	r.hdr.out_words = (uint16_t)(resp_len / 4);
	n = util_write(fd, &r, sizeof(r.hdr) + len);
	if (n < 0)
		return (int)n;
	ck_assert_int_eq(n, (ssize_t)(sizeof(r.hdr) + len));
	return 0;
}

/* An open device that has done GET_CONTEXT; its event file in *@async */
static inline int util_context(int *async)
{
	struct ib_uverbs_get_context cmd = {0};
	struct ib_uverbs_get_context_resp resp;
	int fd;

	setenv("URXE_DEVICE", "rxe0=lo", 1);
	fd = uverbs_open(0, O_RDWR);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_GET_CONTEXT, &cmd,
				      sizeof(cmd), &resp, sizeof(resp)),
			 0);
	ck_assert_uint_ge(resp.num_comp_vectors, 1);
	*async = (int)resp.async_fd;
	return fd;
}

static inline uint32_t util_pd(int fd)
{
	struct ib_uverbs_alloc_pd cmd = {0};
	struct ib_uverbs_alloc_pd_resp resp;

	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_ALLOC_PD, &cmd, sizeof(cmd),
				      &resp, sizeof(resp)),
			 0);
	return resp.pd_handle;
}

struct util_cq_resp {
	struct ib_uverbs_create_cq_resp base;
	struct rxe_create_cq_resp hw;
};

static inline struct util_cq_resp util_cq(int fd, int comp_fd, uint64_t user_handle)
{
	struct ib_uverbs_create_cq cmd = {
	    .user_handle = user_handle, .cqe = 16, .comp_channel = comp_fd};
	struct util_cq_resp resp;

	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_CREATE_CQ, &cmd, sizeof(cmd),
				      &resp, sizeof(resp)),
			 0);
	return resp;
}

static inline int util_destroy(int fd, uint32_t number, uint32_t handle)
{
	return util_command(fd, number, &handle, sizeof(handle), NULL, 0);
}

#endif
