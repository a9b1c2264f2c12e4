/*
 * Description: threads that are cancelled (pthread_cancel(3)) in the calls that wait. Each ends
 * there, as in read(2) of a kernel's device; no event is lost, no lock or descriptor stays behind,
 * and the device goes on.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "hca.h"

#define ROUNDS 150

/*
 * The library's own included. A file that is never released keeps one, so there would be one more
 * for each round; the library may open a few others when it needs them.
 */
static int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Start it, cancel it after some time, see that this is how it ended. */
static void cancel_one(void *(*run)(void *), void *arg, unsigned int us)
{
	pthread_t thread;
	void *end;

	ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
	if (us)
		usleep(us);
	ck_assert_int_eq(pthread_cancel(thread), 0);
	ck_assert_int_eq(pthread_join(thread, &end), 0);
	ck_assert_ptr_eq(end, PTHREAD_CANCELED);
}

/* --- completions ------------------------------------------------------------------ */

/*
 * struct traffic - WRITEs whose completions are waited for
 * @events: read and acknowledged
 */
struct traffic {
	struct lab l;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	atomic_uint events;
};

static void traffic_begin(struct traffic *t)
{
	struct ibv_qp_init_attr attr = usual;

	lab_open(&t->l);
	t->ch = ibv_create_comp_channel(t->l.ctx);
	ck_assert_ptr_nonnull(t->ch);
	t->cq = ibv_create_cq(t->l.ctx, 256, NULL, t->ch, 0);
	ck_assert_ptr_nonnull(t->cq);
	attr.send_cq = t->cq;
	remake(&t->l, attr);
	t->events = 0;
}

static void arm_and_write(struct traffic *t)
{
	ck_assert_int_eq(ibv_req_notify_cq(t->cq, 0), 0);
	post(&t->l, (struct request){.op = IBV_WR_RDMA_WRITE,
				     .no_sge = true,
				     .flags = IBV_SEND_SIGNALED});
}

static void drain(struct traffic *t)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(t->cq, 1, &wc)) > 0)
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(n, 0);
}

/* Cancelled nowhere but where it waits */
static void *wait_for_completions(void *arg)
{
	struct traffic *t = arg;
	struct ibv_cq *cq;
	void *context;
	int state;

	for (;;) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		arm_and_write(t);
		pthread_setcancelstate(state, NULL);
		if (ibv_get_cq_event(t->ch, &cq, &context))
			return NULL;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		ibv_ack_cq_events(cq, 1);
		drain(t);
		t->events++;
		pthread_setcancelstate(state, NULL);
	}
}

/* That the CQ goes shows that no event was read which nobody could acknowledge. */
static void traffic_end(struct traffic *t)
{
	ck_assert_int_eq(ibv_destroy_qp(t->l.left), 0);
	ck_assert_int_eq(ibv_destroy_qp(t->l.right), 0);
	ck_assert_int_eq(ibv_destroy_cq(t->cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(t->ch), 0);
	ck_assert_int_eq(ibv_destroy_cq(t->l.cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(t->l.pd), 0);
	ck_assert_int_eq(ibv_close_device(t->l.ctx), 0);
}

START_TEST(cancelled_while_completions_come)
{
	struct traffic t;
	struct ibv_cq *cq;
	void *context;

	traffic_begin(&t);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		cancel_one(wait_for_completions, &t, (unsigned int)rand() % 3000);
		drain(&t);
	}
	/* the same channel still serves */
	arm_and_write(&t);
	ck_assert_int_eq(ibv_get_cq_event(t.ch, &cq, &context), 0);
	ck_assert_ptr_eq(cq, t.cq);
	ibv_ack_cq_events(cq, 1);
	ck_assert_uint_gt(t.events, 0);
	traffic_end(&t);
}
END_TEST

static void *wait_for_nothing(void *arg)
{
	struct traffic *t = arg;
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(t->ch, &cq, &context);
	return NULL;
}

/* At the beginning of the call, while it spins, while it sleeps */
START_TEST(cancelled_while_no_completion_comes)
{
	struct traffic t;
	int before;

	traffic_begin(&t);
	traffic_end(&t);
	before = count_descriptors();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		traffic_begin(&t);
		cancel_one(wait_for_nothing, &t, i * 10);
		traffic_end(&t);
	}
	ck_assert_int_lt(count_descriptors(), before + ROUNDS / 2);
}
END_TEST

/* --- asynchronous events ---------------------------------------------------------- */

static void *wait_for_async(void *arg)
{
	struct ibv_async_event ev;

	ibv_get_async_event(arg, &ev);
	return NULL;
}

START_TEST(cancelled_while_no_asynchronous_event_comes)
{
	struct lab l;
	int before;

	lab_begin(&l);
	lab_close(&l);
	before = count_descriptors();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		lab_begin(&l);
		cancel_one(wait_for_async, l.ctx, i * 10);
		lab_connect(&l);
		lab_close(&l);
	}
	ck_assert_int_lt(count_descriptors(), before + ROUNDS / 2);
}
END_TEST

/* --- events of rdma_cm ------------------------------------------------------------ */

static void *wait_for_cm(void *arg)
{
	struct rdma_cm_event *ev;

	rdma_get_cm_event(arg, &ev);
	return NULL;
}

static void resolve(struct rdma_event_channel *ch)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000), 0);
	ck_assert_int_eq(rdma_get_cm_event(ch, &ev), 0);
	ck_assert_int_eq(ev->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(rdma_ack_cm_event(ev), 0);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
}

START_TEST(cancelled_while_no_event_of_rdma_cm_comes)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	int before;

	ck_assert_ptr_nonnull(ch);
	resolve(ch);
	rdma_destroy_event_channel(ch);
	before = count_descriptors();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		ch = rdma_create_event_channel();
		ck_assert_ptr_nonnull(ch);
		cancel_one(wait_for_cm, ch, i * 10);
		resolve(ch);
		rdma_destroy_event_channel(ch);
	}
	ck_assert_int_lt(count_descriptors(), before + ROUNDS / 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cancel");
	TCase *tc = tcase_create("cancel");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, cancelled_while_completions_come);
	tcase_add_test(tc, cancelled_while_no_completion_comes);
	tcase_add_test(tc, cancelled_while_no_asynchronous_event_comes);
	tcase_add_test(tc, cancelled_while_no_event_of_rdma_cm_comes);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
