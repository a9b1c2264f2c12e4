/*
 * Description: a program gets as many channels and devices as its limit of descriptors promises,
 * whatever the library keeps open for itself, and finds the limit as it set it. Memory that is
 * pinned is bounded if that is asked for, as the kernel does it.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab.h"

#define MANY  300
#define SPARE 12 /* what programs have open anyhow, and the library for a moment */

static int n_open(void)
{
	int n = 0;

	for (int fd = 0; fd < MANY; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/*
 * The soft limit. False: the hard one is the same, and may not be exceeded
 */
static bool set_limit(rlim_t soft, bool hard)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = soft;
	if (hard)
		limit.rlim_max = soft;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur < limit.rlim_max;
}

static void limit_is(rlim_t soft)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_uint_eq(limit.rlim_cur, soft);
}

static int count_channels(struct ibv_context *ctx)
{
	struct ibv_comp_channel *c[MANY];
	int n = 0, made;

	while (n < MANY && (c[n] = ibv_create_comp_channel(ctx)))
		n++;
	ck_assert_int_eq(errno, EMFILE);
	for (made = n; n; n--)
		ck_assert_int_eq(ibv_destroy_comp_channel(c[n - 1]), 0);
	return made;
}

static int count_event_channels(void)
{
	struct rdma_event_channel *c[MANY];
	int n = 0, made;

	while (n < MANY && (c[n] = rdma_create_event_channel()))
		n++;
	ck_assert_int_eq(errno, EMFILE);
	for (made = n; n; n--)
		rdma_destroy_event_channel(c[n - 1]);
	return made;
}

static int count_devices(struct ibv_device *dev)
{
	struct ibv_context *c[MANY];
	int n = 0, made;

	while (n < MANY && (c[n] = ibv_open_device(dev)))
		n++;
	for (made = n; n; n--)
		ck_assert_int_eq(ibv_close_device(c[n - 1]), 0);
	return made;
}

START_TEST(a_channel_costs_one_descriptor_and_a_device_two)
{
	static const rlim_t limits[] = {64, 256};
	rlim_t limit = limits[_i];
	struct lab l;
	int left;

	if (!set_limit(limit, false))
		return;
	lab_open(&l);
	left = (int)limit - n_open();
	ck_assert_int_ge(left, (int)limit - SPARE);
	ck_assert_int_ge(count_channels(l.ctx), left - 1);
	ck_assert_int_ge(count_event_channels(), left - 1);
	ck_assert_int_ge(count_devices(l.ctx->device), left / 2 - 1);
	limit_is(limit);
	/* the library's threads read files in /proc now and then */
	for (int i = 0; i < 1000 && (int)limit - n_open() != left; i++)
		usleep(1000);
	ck_assert_int_eq((int)limit - n_open(), left);
	lab_close(&l);
}
END_TEST

/* Where the hard limit is the same, the library's own are within; the channels' are few */
START_TEST(a_channel_costs_one_descriptor_below_a_hard_limit)
{
	struct lab l;
	int left;

	set_limit(256, true);
	lab_open(&l);
	left = 256 - n_open();
	ck_assert_int_ge(left, 256 - SPARE - 40);
	ck_assert_int_ge(count_channels(l.ctx), left - 8);
	ck_assert_int_ge(count_event_channels(), left - 8);
	limit_is(256);
	lab_close(&l);
}
END_TEST

/* Events come through every channel, however it is made */
START_TEST(each_of_many_channels_tells)
{
	struct ibv_comp_channel *ch[100];
	struct ibv_cq *cq[100], *got;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct lab l;
	void *ctx;

	set_limit(256, _i);
	lab_open(&l);
	for (int i = 0; i < 100; i++) {
		struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
						.cap = {1, 1, 1, 1, 0}};
		struct ibv_qp_attr init = {
		    .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
		struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
		struct ibv_qp *qp;

		ch[i] = ibv_create_comp_channel(l.ctx);
		ck_assert_ptr_nonnull(ch[i]);
		cq[i] = ibv_create_cq(l.ctx, 4, NULL, ch[i], 0);
		ck_assert_ptr_nonnull(cq[i]);
		attr.send_cq = attr.recv_cq = cq[i];
		qp = ibv_create_qp(l.pd, &attr);
		ck_assert_ptr_nonnull(qp);
		ck_assert_int_eq(ibv_modify_qp(qp, &init,
					       IBV_QP_STATE | IBV_QP_PKEY_INDEX |
						   IBV_QP_PORT | IBV_QP_QKEY),
				 0);
		ck_assert_int_eq(ibv_req_notify_cq(cq[i], 0), 0);
		ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
		/* the request is flushed */
		ck_assert_int_eq(ibv_modify_qp(qp, &err, IBV_QP_STATE), 0);
		ck_assert_int_eq(ibv_get_cq_event(ch[i], &got, &ctx), 0);
		ck_assert_ptr_eq(got, cq[i]);
		ibv_ack_cq_events(got, 1);
		ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	}
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(ibv_destroy_cq(cq[i]), 0);
		ck_assert_int_eq(ibv_destroy_comp_channel(ch[i]), 0);
	}
	lab_close(&l);
}
END_TEST

/* What a program starts has the limit that the program has, and none of the library's descriptors */
START_TEST(a_child_has_the_limit_and_nothing_else)
{
	char say[] =
	    "test $(ulimit -Sn) = 64 && set -- /proc/self/fd/[0-9]* && test $# -lt 14 &&"
	    "test ! -e /proc/$$/fd/4096";
	struct lab l;
	int status;

	if (!set_limit(64, false))
		return;
	lab_open(&l);
	ck_assert_int_eq(system(say), 0);
	if (!fork()) {
		closefrom(3);
		_exit(dup(0) == 3 ? 0 : 1);
	}
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	lab_close(&l);
}
END_TEST

/* A program that closes all that it does not know goes on with its device. */
START_TEST(closing_everything_leaves_the_library_its_own)
{
	static char buf[4096];
	struct ibv_mr *mr;
	struct lab l;

	set_limit(64, false);
	lab_begin(&l);
	mr = lab_reg(&l, buf, sizeof(buf), LAB_ACCESS);
	closefrom(l.ctx->async_fd > l.ctx->cmd_fd ? l.ctx->async_fd + 1
						  : l.ctx->cmd_fd + 1);
	close_range(40, ~0u, 0);
	ck_assert_int_eq(lab_write(&l, mr, buf, mr, buf + 8, 8), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* A limit that is raised while devices are open gives what it promises, too */
START_TEST(a_limit_raised_at_run_time)
{
	struct lab l;
	int left;

	if (!set_limit(64, false))
		return;
	lab_open(&l);
	set_limit(256, false);
	left = 256 - n_open();
	ck_assert_int_ge(left, 256 - SPARE);
	ck_assert_int_ge(count_channels(l.ctx), left - 1);
	limit_is(256);
	lab_close(&l);
}
END_TEST

/* --- pinned memory ---------------------------------------------------------------- */

#define PAGES 16
#define BOUND ((size_t)PAGES * LAB_PAGE)

static void set_memlock(rlim_t soft)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	limit.rlim_cur = soft;
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

/* False: the process did not have it */
static bool drop_ipc_lock(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];
	bool had;

	ck_assert_int_eq(syscall(SYS_capget, &h, d), 0);
	had = d[0].effective >> CAP_IPC_LOCK & 1;
	d[0].effective &= ~(1u << CAP_IPC_LOCK);
	ck_assert_int_eq(syscall(SYS_capset, &h, d), 0);
	return had;
}

/* A device whose bound, if it has one, is BOUND */
static char *begin(struct lab *l, const char *how)
{
	if (how)
		setenv("URXE_MEMLOCK", how, 1);
	else
		unsetenv("URXE_MEMLOCK");
	set_memlock(BOUND);
	lab_open(l);
	return lab_map(4 * PAGES);
}

static int refused(struct lab *l, void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, p, len, access);

	if (!mr)
		return errno;
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	return 0;
}

START_TEST(pinned_memory_has_no_bound_unless_asked_for)
{
	static const char *const how[] = {NULL, "no"};
	struct lab l;
	char *p;

	drop_ipc_lock();
	p = begin(&l, how[_i]);
	ck_assert_int_eq(refused(&l, p, 4 * BOUND, LAB_ACCESS), 0);
	lab_close(&l);
}
END_TEST

/* @_i: by RLIMIT_MEMLOCK, by a size */
START_TEST(pinned_memory_has_a_bound)
{
	static const char *const how[] = {"yes", "64k"};
	struct ibv_mr *mr, *half[2];
	struct lab l;
	char *p;

	drop_ipc_lock();
	p = begin(&l, how[_i]);
	ck_assert_int_eq(refused(&l, p, BOUND + 1, LAB_ACCESS), ENOMEM);
	mr = lab_reg(&l, p, BOUND, LAB_ACCESS);
	ck_assert_int_eq(refused(&l, p, 1, 0), ENOMEM);
	/* what is on demand is not pinned */
	ck_assert_int_eq(refused(&l, p, 4 * BOUND, LAB_ODP), 0);
	ck_assert_int_eq(refused(&l, NULL, SIZE_MAX, LAB_ODP), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	/* the same pages count each time */
	for (int i = 0; i < 2; i++)
		half[i] = lab_reg(&l, p, BOUND / 2, LAB_ACCESS);
	ck_assert_int_eq(refused(&l, p, BOUND / 2, LAB_ACCESS), ENOMEM);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_dereg_mr(half[i]), 0);
	/* two bytes in two pages are two pages */
	mr = lab_reg(&l, p, BOUND - LAB_PAGE, LAB_ACCESS);
	ck_assert_int_eq(refused(&l, p + LAB_PAGE - 1, 2, LAB_ACCESS), ENOMEM);
	ck_assert_int_eq(refused(&l, p + LAB_PAGE - 1, 1, LAB_ACCESS), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	/* a registration that fails gives back */
	ck_assert_int_eq(munmap(p + LAB_PAGE, LAB_PAGE), 0);
	ck_assert_int_eq(refused(&l, p, BOUND, LAB_ACCESS), EFAULT);
	ck_assert_int_eq(refused(&l, p + 2 * LAB_PAGE, BOUND, LAB_ACCESS), 0);
	lab_close(&l);
}
END_TEST

START_TEST(what_is_registered_anew_counts_beside_the_old)
{
	struct ibv_mr *mr;
	struct lab l;
	char *p;

	p = begin(&l, "64k");
	mr = lab_reg(&l, p, BOUND, LAB_ACCESS);
	ck_assert_int_ne(
	    ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + BOUND, BOUND, 0),
	    0);
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	mr = lab_reg(&l, p, BOUND / 2, LAB_ACCESS);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				      p + BOUND, BOUND / 2, 0),
			 0);
	ck_assert_int_eq(refused(&l, p, BOUND / 2, LAB_ACCESS), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(refused(&l, p, BOUND, LAB_ACCESS), 0);
	lab_close(&l);
}
END_TEST

START_TEST(a_limit_of_pinned_memory_raised_at_run_time)
{
	struct lab l;
	char *p;

	drop_ipc_lock();
	p = begin(&l, "yes");
	set_memlock(BOUND / 2);
	ck_assert_int_eq(refused(&l, p, BOUND, LAB_ACCESS), ENOMEM);
	set_memlock(BOUND);
	ck_assert_int_eq(refused(&l, p, BOUND, LAB_ACCESS), 0);
	lab_close(&l);
}
END_TEST

START_TEST(a_child_of_fork_begins_with_nothing_pinned)
{
	struct ibv_mr *mr;
	struct lab l, own;
	int status;
	char *p;

	drop_ipc_lock();
	p = begin(&l, "yes");
	mr = lab_reg(&l, p, BOUND, LAB_ACCESS);
	if (!fork()) {
		lab_open(&own);
		_exit(refused(&own, p, BOUND, LAB_ACCESS) == 0 &&
			      refused(&own, p, BOUND + 1, LAB_ACCESS) == ENOMEM
			  ? 0
			  : 1);
	}
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* CAP_IPC_LOCK frees of the limit, not of a size. */
START_TEST(who_may_lock_all_has_no_limit)
{
	struct stat ns;
	struct lab l;
	char *p = begin(&l, _i ? "64k" : "yes");
	bool may;

	ck_assert_int_eq(stat("/proc/self/ns/user", &ns), 0);
	may = refused(&l, p, 4 * BOUND, LAB_ACCESS) == 0;
	/* in a user namespace of its own even root may not */
	ck_assert_int_eq(may, !_i && drop_ipc_lock() && ns.st_ino == 0xeffffffd);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("limits");
	TCase *tc = tcase_create("descriptors");

	tcase_add_loop_test(tc, a_channel_costs_one_descriptor_and_a_device_two, 0, 2);
	tcase_add_test(tc, a_channel_costs_one_descriptor_below_a_hard_limit);
	tcase_add_loop_test(tc, each_of_many_channels_tells, 0, 2);
	tcase_add_test(tc, a_child_has_the_limit_and_nothing_else);
	tcase_add_test(tc, closing_everything_leaves_the_library_its_own);
	tcase_add_test(tc, a_limit_raised_at_run_time);
	suite_add_tcase(s, tc);
	tc = tcase_create("pinned");
	tcase_add_loop_test(tc, pinned_memory_has_no_bound_unless_asked_for, 0, 2);
	tcase_add_loop_test(tc, pinned_memory_has_a_bound, 0, 2);
	tcase_add_test(tc, what_is_registered_anew_counts_beside_the_old);
	tcase_add_test(tc, a_limit_of_pinned_memory_raised_at_run_time);
	tcase_add_test(tc, a_child_of_fork_begins_with_nothing_pinned);
	tcase_add_loop_test(tc, who_may_lock_all_has_no_limit, 0, 2);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
