/*
 * Description: a child of fork has the queues of its parent before its eyes, and changes nothing
 * in them: what it posts is refused and never sent, what it polls is not taken away.
 */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab.h"

#define LEN 64

static char *mem;
static struct ibv_mr *mr;

static struct ibv_send_wr send_wr(struct ibv_sge *sge, uint64_t id)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)mem, .length = LEN, .lkey = mr->lkey};
	return (struct ibv_send_wr){.wr_id = id,
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED};
}

/* In the child: whatever the calls answer */
static void meddle(struct lab *l)
{
	struct ibv_recv_wr recv = {.wr_id = 98}, *bad_recv;
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	int err;

	wr = send_wr(&sge, 99);
	err = ibv_post_send(l->left, &wr, &bad);
	ibv_post_recv(l->right, &recv, &bad_recv);
	while (ibv_poll_cq(l->cq, 1, &wc) > 0)
		;
	_exit(err == EIO ? 0 : 1);
}

static void end_child(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(what_a_child_posts_is_never_sent)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct lab l;
	pid_t pid;
	int i;

	lab_begin(&l);
	mem = lab_map(1);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	for (i = 0; i < 3; i++)
		lab_post_recv(l.right, mr, mem + 1024, LEN);
	/* a completion that the parent has not polled yet */
	wr = send_wr(&sge, 1);
	lab_post(l.left, &wr);
	usleep(100000);
	pid = fork();
	if (!pid)
		meddle(&l);
	end_child(pid);
	wr = send_wr(&sge, 2);
	lab_post(l.left, &wr);
	for (i = 0; i < 4; i++) { /* two of the sender's, two of the receiver's */
		wc = lab_wait(&l);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_lt(wc.wr_id, 98);
	}
	usleep(100000);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* No handler of fork(3) has run in it, and the queues are the parent's own. */
START_TEST(what_a_bare_clone_posts_is_refused)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct lab l;
	pid_t pid;

	lab_begin(&l);
	mem = lab_map(1);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	lab_post_recv(l.right, mr, mem + 1024, LEN);
	wr = send_wr(&sge, 1);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		_exit(ibv_post_send(l.left, &wr, &bad) == EIO ? 0 : 1);
	end_child(pid);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* Its own device is the child's, and works. */
START_TEST(a_child_with_a_device_of_its_own)
{
	struct lab l, own;
	pid_t pid;

	lab_begin(&l);
	pid = fork();
	if (!pid) {
		lab_begin(&own);
		mem = lab_map(1);
		mr = lab_reg(&own, mem, LAB_PAGE, LAB_ACCESS);
		_exit(lab_write(&own, mr, mem, mr, mem + 1024, LEN));
	}
	end_child(pid);
	mem = lab_map(1);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	ck_assert_int_eq(lab_write(&l, mr, mem, mr, mem + 1024, LEN), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fork");
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, what_a_child_posts_is_never_sent);
	tcase_add_test(tc, what_a_bare_clone_posts_is_refused);
	tcase_add_test(tc, a_child_with_a_device_of_its_own);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
