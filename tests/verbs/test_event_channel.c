/*
 * Description: events are read once, counted when read, and withdrawn with their object.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "odp/guard.h"
#include "tests/verbs/util.h"

static struct event_channel *ch;
static int fd;

static void open_channel(bool async)
{
	ck_assert_int_eq(event_channel_open(NULL, async, &fd, &ch), 0);
	ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static bool readable(void)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

START_TEST(completion_events_are_read_in_order)
{
	struct ib_uverbs_comp_event_desc ev;
	struct event_source a, b;

	open_channel(false);
	event_source_init(&a, ch, 0xa);
	event_source_init(&b, ch, 0xb);
	ck_assert(!readable());
	ck_assert_int_eq(util_read(fd, &ev, sizeof(ev)), -EAGAIN);
	event_post(&a, 0);
	event_post(&b, 0);
	event_post(&a, 0);
	ck_assert(readable());
	ck_assert_int_eq(util_read(fd, &ev, sizeof(ev)), sizeof(ev));
	ck_assert_uint_eq(ev.cq_handle, 0xa);
	/* one event a read, however large the buffer */
	{
		struct ib_uverbs_comp_event_desc evs[4];

		ck_assert_int_eq(util_read(fd, evs, sizeof(evs)), sizeof(ev));
		ck_assert_uint_eq(evs[0].cq_handle, 0xb);
	}
	ck_assert_uint_eq(a.reported, 1);
	event_source_fini(&a);
	ck_assert_uint_eq(a.reported, 1);
	ck_assert_uint_eq(b.reported, 1);
	ck_assert(!readable());
	ck_assert_int_eq(util_read(fd, &ev, sizeof(ev)), -EAGAIN);
	event_source_fini(&b);
}
END_TEST

START_TEST(async_events_are_read_in_order)
{
	struct ib_uverbs_async_event_desc ev;
	struct event_source qp;

	open_channel(true);
	event_source_init(&qp, ch, 77);
	event_post(&qp, IBV_EVENT_COMM_EST);
	event_post_port(ch, 1, IBV_EVENT_PORT_ERR);
	ck_assert_int_eq(util_read(fd, &ev, sizeof(ev)), sizeof(ev));
	ck_assert_uint_eq(ev.element, 77);
	ck_assert_uint_eq(ev.event_type, IBV_EVENT_COMM_EST);
	event_source_fini(&qp);
	ck_assert_int_eq(util_read(fd, &ev, sizeof(ev)), sizeof(ev));
	ck_assert_uint_eq(ev.element, 1);
	ck_assert_uint_eq(ev.event_type, IBV_EVENT_PORT_ERR);
}
END_TEST

START_TEST(bad_reads_are_refused)
{
	struct ib_uverbs_comp_event_desc ev;
	struct event_source a;

	open_channel(false);
	event_source_init(&a, ch, 0xa);
	event_post(&a, 0);
	ck_assert_int_eq(util_read(fd, &ev, sizeof(ev) - 1), -EINVAL);
	ck_assert_int_eq(util_read(fd, &ev, 0), -EINVAL);
	ck_assert(readable());
	/* taken all the same, as by the kernel */
	ck_assert_int_eq(util_read(fd, BAD_PTR, sizeof(ev)), -EFAULT);
	ck_assert(!readable());
	event_source_fini(&a);
}
END_TEST

/* Another thread may close the descriptor before the flags are looked at. */
START_TEST(nonblocking_read_of_a_closed_descriptor)
{
	struct ib_uverbs_comp_event_desc ev;
	struct vfile *vf;

	open_channel(false);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	vf = vfile_get(fd);
	ck_assert_ptr_nonnull(vf);
	util_close(fd);
	ck_assert_int_eq(vf->ops->read(vf, fd, &ev, sizeof(ev)), -EAGAIN);
	vfile_put(vf);
	event_channel_put(ch);
}
END_TEST

START_TEST(edge_triggered_epoll_sees_each)
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLET}, got;
	int ep = epoll_create1(0);
	struct event_source a;

	open_channel(false);
	event_source_init(&a, ch, 0xa);
	ck_assert_int_eq(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &want), 0);
	for (int i = 0; i < 3; i++) {
		event_post(&a, 0);
		ck_assert_int_eq(epoll_wait(ep, &got, 1, 0), 1);
		ck_assert_int_eq(epoll_wait(ep, &got, 1, 0), 0);
	}
	event_source_fini(&a);
}
END_TEST

START_TEST(closing_discards_what_is_left)
{
	struct event_source a;

	open_channel(false);
	event_source_init(&a, ch, 0xa);
	event_post(&a, 0);
	ck_assert(!event_channel_is_closed(ch));
	util_close(fd);
	ck_assert(event_channel_is_closed(ch));
	ck_assert(TAILQ_EMPTY(&a.pending));
	event_post(&a, 0);
	ck_assert(TAILQ_EMPTY(&a.pending));
	event_source_fini(&a);
	ck_assert_uint_eq(a.reported, 0);
	event_channel_put(ch);
}
END_TEST

START_TEST(close_leaves_an_epoll_set)
{
	struct epoll_event want = {.events = EPOLLIN}, got;
	int ep = epoll_create1(0);
	struct event_source a;

	open_channel(false);
	event_source_init(&a, ch, 0xa);
	ck_assert_int_eq(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &want), 0);
	event_post(&a, 0);
	util_close(fd);
	/* no private duplicate keeps it in there */
	ck_assert_int_eq(epoll_wait(ep, &got, 1, 0), 0);
	event_source_fini(&a);
	event_channel_put(ch);
}
END_TEST

START_TEST(a_dead_context_ends_its_readers)
{
	struct ib_uverbs_async_event_desc ev;

	open_channel(true);
	event_channel_kill(ch);
	ck_assert(readable());
	ck_assert_int_eq(util_read(fd, &ev, sizeof(ev)), -EIO);
}
END_TEST

/* A program that takes the count of the eventfd itself harms nobody but itself. */
START_TEST(raw_reads_do_not_hang_us)
{
	struct event_source a;
	uint64_t v;

	open_channel(false);
	ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
	event_source_init(&a, ch, 0xa);
	event_post(&a, 0);
	ck_assert_int_eq(read(fd, &v, sizeof(v)), sizeof(v));
	event_source_fini(&a);
}
END_TEST

START_TEST(channels_are_found_by_descriptor)
{
	struct event_channel *found;
	int plain = dup(0);

	open_channel(false);
	found = event_channel_lookup(fd);
	ck_assert_ptr_eq(found, ch);
	event_channel_put(found);
	ck_assert_ptr_null(event_channel_lookup(plain));
	ck_assert_ptr_null(event_channel_lookup(-1));
}
END_TEST

#define EVENTS 20000

static void *poster(void *arg)
{
	for (int i = 0; i < EVENTS; i++)
		event_post(arg, 0);
	return NULL;
}

START_TEST(threads_may_read_and_post_at_once)
{
	struct ib_uverbs_comp_event_desc ev;
	struct event_source s[2];
	pthread_t t[2];
	unsigned int got = 0;
	ssize_t n;

	open_channel(false);
	for (int i = 0; i < 2; i++) {
		event_source_init(&s[i], ch, (uint64_t)i);
		pthread_create(&t[i], NULL, poster, &s[i]);
	}
	while (got < EVENTS) {
		n = util_read(fd, &ev, sizeof(ev));
		if (n == -EAGAIN)
			continue;
		ck_assert_int_eq(n, sizeof(ev));
		got++;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	while (util_read(fd, &ev, sizeof(ev)) > 0)
		got++;
	ck_assert_uint_eq(got, 2 * EVENTS);
	ck_assert_uint_eq(s[0].reported + s[1].reported, got);
	ck_assert(!readable());
}
END_TEST

/*
 * The same where no descriptor can be had outside of the program's limit, and those within are
 * used up: what the program has is another kind of descriptor, which behaves alike.
 */
static void no_outside(void)
{
	const struct rlimit small = {64, 64};
	struct event_channel *first;
	int first_fd;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
	if (!getuid())
		ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
	ck_assert_int_eq(event_channel_open(NULL, false, &first_fd, &first), 0);
	ck_assert(first->bell.inside);
	open_channel(false);
	ck_assert_int_eq(ch->bell.fd, -1);
}

/* It is the program's number that is raised, and another one after a dup */
START_TEST(raised_by_any_descriptor)
{
	struct event_source a;

	event_source_init(&a, ch, 0xa);
	for (int i = 0; i < 3; i++) {
		int copy = dup(fd);

		vfile_dup(fd, copy);
		util_close(fd);
		fd = copy;
		event_post(&a, 0);
		ck_assert(readable());
		event_source_fini(&a);
		ck_assert(!readable());
		event_source_init(&a, ch, 0xa);
	}
	event_source_fini(&a);
}
END_TEST

/* Closed by a bare system call, the number given to something else: that stays as it is. */
START_TEST(touches_nothing_else_under_its_number)
{
	struct event_source a;
	int ends[2];
	char c;

	event_source_init(&a, ch, 0xa);
	ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
	ck_assert_int_eq(dup2(ends[0], fd), fd);
	event_post(&a, 0);
	ck_assert_int_eq(read(fd, &c, 1), -1);
	ck_assert_int_eq(errno, EAGAIN);
	event_source_fini(&a);
}
END_TEST

/* An edge-triggered watch from two epoll sets deep, as event loops have it */
START_TEST(nested_epoll_sees_each)
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLET}, got;
	int outer = epoll_create1(0), inner = epoll_create1(0);
	struct event_source a;

	event_source_init(&a, ch, 0xa);
	ck_assert_int_eq(epoll_ctl(inner, EPOLL_CTL_ADD, fd, &want), 0);
	ck_assert_int_eq(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &want), 0);
	for (int i = 0; i < 3; i++) {
		event_post(&a, 0);
		ck_assert_int_eq(epoll_wait(outer, &got, 1, 0), 1);
		ck_assert_int_eq(epoll_wait(inner, &got, 1, 0), 1);
	}
	event_source_fini(&a);
}
END_TEST

static void add_both(TCase *tc)
{
	tcase_add_test(tc, completion_events_are_read_in_order);
	tcase_add_test(tc, async_events_are_read_in_order);
	tcase_add_test(tc, bad_reads_are_refused);
	tcase_add_test(tc, edge_triggered_epoll_sees_each);
	tcase_add_test(tc, closing_discards_what_is_left);
	tcase_add_test(tc, close_leaves_an_epoll_set);
	tcase_add_test(tc, a_dead_context_ends_its_readers);
	tcase_add_test(tc, channels_are_found_by_descriptor);
	tcase_add_test(tc, threads_may_read_and_post_at_once);
}

static void add(TCase *tc)
{
	add_both(tc);
	tcase_add_test(tc, nonblocking_read_of_a_closed_descriptor);
	tcase_add_test(tc, raw_reads_do_not_hang_us);
}

static void add_no_outside(TCase *tc)
{
	tcase_add_checked_fixture(tc, no_outside, NULL);
	add_both(tc);
	tcase_add_test(tc, raised_by_any_descriptor);
	tcase_add_test(tc, touches_nothing_else_under_its_number);
	tcase_add_test(tc, nested_epoll_sees_each);
}

int main(void)
{
	guard_init(); /* as the engine does when it starts */
	return util_run("event_channel", add) | util_run("no_outside", add_no_outside);
}
