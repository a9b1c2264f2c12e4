/*
 * engine_drive.c - who drives the core: threads that poll, threads that wait, the helper.
 *
 * Theory of operation
 *
 * A packet should be received by the thread that wants it: a wake-up of another thread
 * costs more than everything else on its way. So a thread that polls an empty CQ receives
 * by itself (engine_drive), and one that blocks on a completion channel sleeps on the
 * sockets as well (engine_wait). The helper serves all other cases: a passive target of
 * RDMA, a program that sleeps in epoll on its channel, timers.
 *
 * If the helper always listened, each packet would wake it beside the thread that polls.
 * Therefore it counts the turns that others take (engine.drives). When they are frequent
 * it stops listening (engine.yielding) and looks again every YIELD_NS; when they have
 * become rare, or a CQ is armed (engine_expect_sleep), it listens again. A program that
 * polled hotly and then sleeps without arming a CQ thus waits at most YIELD_NS for the
 * helper.
 *
 * Where more threads poll than there are processors, each turn of one takes packets of others.
 * Who finds nothing for itself after such a turn gives the processor away at once: one of them can go
 * on, while another turn would most likely be in vain.
 *
 * Receive requests are posted without a call, and who asks what a program waits for shall know of
 * them. So the helper looks at the queues, when it is awake anyway or a second later, as long as the
 * program calls, and for a while after its last call. Where nothing happens it sleeps.
 *
 * Locks: the core's lock is taken for each turn and never held while sleeping.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "trace/recorder.h"
#include "verbs/engine/engine_internal.h"

#define BUDGET	     256 /* packets per turn */
#define MAX_FDS	     64
#define YIELD_NS     500000u /* between looks while others drive */
#define YIELD_DRIVES 2u	     /* turns in YIELD_NS that count as "hot" */
#define SHARED_TURNS 64u     /* in a row by one thread, after which it drives alone */
#define IDLE_LOOKS                                                                       \
	20u /* looks without a turn, with a waiter asleep, before sleeping long */
#define WAIT_SPIN_NS   50000u	 /* spin before sleeping: a wake-up costs 25 to 35 us */
#define NEGLECT_NS     200000u	 /* packets that wait and nobody polled for so long */
#define PENALTY_MIN_NS 10000000u /* listening after pollers neglected the sockets */
#define PENALTY_MAX_NS 1000000000u
#define SLICE_NS       100000u	  /* the shortest that Linux gives */
#define LOOK_NS	       100000000u /* between looks at receive queues, at least */
#define NEVER	       UINT64_MAX

static bool is_yielding(const struct engine *e)
{
	return atomic_load_explicit(&e->yielding, memory_order_relaxed);
}

void engine_wake(struct engine *e)
{
	const uint64_t one = 1;
	ssize_t n;

	/* Neither ibv_post_send() nor ibv_poll_cq() is a cancellation point. */
	cancel_defer();
	n = write(e->wake_fd, &one, sizeof(one));
	cancel_restore();
	/* EAGAIN means that it is signalled already. */
	if (n < 0)
		return;
}

void engine_wake_before(struct engine *e, uint64_t deadline)
{
	if (deadline >= atomic_load_explicit(&e->wake_at, memory_order_relaxed))
		return;
	atomic_store_explicit(&e->wake_at, deadline, memory_order_relaxed);
	engine_wake(e);
}

void engine_expect_sleep(struct engine *e)
{
	uint64_t last = atomic_load_explicit(&e->last_wait, memory_order_relaxed);

	/*
	 * A program that slept in engine_wait() lately will do so again, and needs no
	 * helper.
	 */
	if (!atomic_load_explicit(&e->yielding, memory_order_relaxed) ||
	    engine_now() - last < 2 * YIELD_NS)
		return;
	atomic_store_explicit(&e->yielding, false, memory_order_relaxed);
	engine_wake(e);
}

/* Do several threads of the program drive? With the lock held */
static bool is_shared(struct engine *e)
{
	pthread_t self = pthread_self();

	if (!pthread_equal(e->driver, self))
		e->shared = SHARED_TURNS;
	else if (e->shared)
		e->shared--;
	e->driver = self;
	return e->shared;
}

/*
 * One turn if the lock is free. The number of packets, and whether others take turns, too; or -EBUSY
 *
 * A thread that polls hotly comes again at once, after it has dealt with what it finds
 * now. Its turn sends first and receives last, so that acknowledges go out after its own
 * answer, by the same system call. The turn of another must not leave anything behind.
 */
static int try_turn(struct engine *e, uint64_t *deadline, bool *shared)
{
	int n;

	if (atomic_load_explicit(&e->wanted, memory_order_relaxed) ||
	    !engine_trylock_bare(e))
		return -EBUSY;
	*shared = is_shared(e);
	e->sent = false;
	if (is_yielding(e)) {
		e->last_drive = engine_set_time(e);
		*deadline = engine_run(e);
		n = net_port_poll(e->port, BUDGET);
		engine_show(e);
	} else {
		n = engine_receive(e, BUDGET, deadline);
	}
	*deadline = engine_look_by(e, *deadline);
	engine_unlock_bare(e);
	atomic_fetch_add_explicit(&e->drives, 1, memory_order_relaxed);
	return n;
}

/*
 * What a turn left for later. What it left for now is for the next turn of a hot poller.
 */
static void leave(struct engine *e, uint64_t deadline)
{
	if (deadline || !is_yielding(e))
		engine_wake_before(e, deadline);
}

bool engine_drive(struct engine *e)
{
	uint64_t deadline = NEVER;
	int err = errno; /* a poll of a CQ leaves it as it was */
	bool shared;
	int n = try_turn(e, &deadline, &shared);

	leave(e, deadline);
	/* Both ends of a ping-pong may share one core: an empty turn gives it away. */
	if (n <= 0)
		sched_yield();
	errno = err;
	return n > 0 && shared;
}

void engine_give_way(void)
{
	int err = errno;

	sched_yield();
	errno = err;
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static void timespec_until(uint64_t when, struct timespec *ts)
{
	uint64_t now = engine_now();
	uint64_t left = when > now ? when - now : 0;

	ts->tv_sec = (time_t)(left / 1000000000u);
	ts->tv_nsec = (long)(left % 1000000000u);
}

/* False: what may be slept for is there already */
static bool arm(struct engine *e)
{
	bool quiet;

	engine_lock_bare(e);
	quiet = net_port_arm(e->port);
	engine_unlock_bare(e);
	return quiet;
}

static void sleep_is_over(void *arg)
{
	net_port_awake(arg);
}

/* ppoll(2) after arm() */
static int armed_ppoll(struct engine *e, struct pollfd *p, int n,
		       const struct timespec *limit)
{
	int ret;

	pthread_cleanup_push(sleep_is_over, e->port);
	ret = ppoll(p, (nfds_t)n, limit, NULL);
	pthread_cleanup_pop(1);
	return ret;
}

/* The port's descriptors, at @p; how many */
static int add_sockets(struct engine *e, struct pollfd *p, int max)
{
	uint32_t generation;
	int fds[MAX_FDS];
	int n = net_port_wait_fds(e->port, fds, max, &generation), i;

	if (n > max)
		n = max;
	for (i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return n;
}

/* Sleep on the sockets, @extra descriptors in front of them; until @when */
static int sleep_on(struct engine *e, struct pollfd *p, int extra, bool sockets,
		    uint64_t when)
{
	struct timespec ts, *limit = when == NEVER ? NULL : &ts;
	int ret;

	if (sockets && !arm(e))
		return 0;
	timespec_until(when, &ts);
	if (sockets)
		ret = armed_ppoll(
		    e, p, extra + add_sockets(e, p + extra, MAX_FDS - extra), limit);
	else
		ret = ppoll(p, (nfds_t)extra, limit, NULL);
	return ret < 0 ? -errno : 0;
}

static void waiter_leaves(void *arg)
{
	struct engine *e = arg;

	atomic_fetch_sub_explicit(&e->waiters, 1, memory_order_relaxed);
	if (atomic_exchange_explicit(&e->parked, false, memory_order_relaxed))
		engine_wake(e);
}

/* As read(2) is, a thread may be cancelled here; then the helper must not count on it */
static int sleep_as_waiter(struct engine *e, int fd)
{
	struct pollfd p[MAX_FDS];
	int ret;

	p[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	atomic_fetch_add_explicit(&e->waiters, 1, memory_order_relaxed);
	pthread_cleanup_push(waiter_leaves, e);
	ret = sleep_on(e, p, 1, true, NEVER);
	pthread_cleanup_pop(1);
	return ret;
}

int engine_wait(struct engine *e, int fd)
{
	uint64_t spin_until = engine_now() + WAIT_SPIN_NS;
	uint64_t deadline = NEVER;
	bool shared;

	while (!readable(fd)) {
		int n = try_turn(e, &deadline, &shared);

		leave(e, deadline);
		if (n > 0)
			continue;
		if (engine_now() < spin_until) {
			sched_yield();
			continue;
		}
		if (sleep_as_waiter(e, fd) == -EINTR)
			return -EINTR;
	}
	atomic_store_explicit(&e->last_wait, engine_now(), memory_order_relaxed);
	return 0;
}

/* --- the helper ------------------------------------------------------------------- */

/*
 * struct helper - what the helper remembers between two looks
 * @since:	when the last look was (ns)
 * @seen:	engine.drives then
 * @listen_until: pollers neglected the sockets: listen beside them until then
 * @penalty:	how long that was
 * @idle:	looks in a row without a turn of others, while a waiter sleeps on the
 * sockets
 * @looked:	when receive queues were looked at (ns)
 */
struct helper {
	uint64_t since;
	uint64_t listen_until;
	uint64_t penalty;
	uint32_t seen;
	uint32_t idle;
	uint64_t looked;
};

static void set_yielding(struct engine *e, bool yielding)
{
	atomic_store_explicit(&e->yielding, yielding, memory_order_relaxed);
}

/*
 * A program may poll often and yet spin on its memory in between, waiting for an RDMA
 * WRITE that nobody receives. It is told by packets that the helper finds though no
 * poller came for long.
 */
static void neglected(struct engine *e, struct helper *h, uint64_t now)
{
	set_yielding(e, false);
	h->penalty *= 2;
	if (h->penalty < PENALTY_MIN_NS)
		h->penalty = PENALTY_MIN_NS;
	if (h->penalty > PENALTY_MAX_NS)
		h->penalty = PENALTY_MAX_NS;
	h->listen_until = now + h->penalty;
}

/*
 * Decide whether others drive, from the turns they took since the last look. Returns
 * until when to sleep at the most.
 */
static uint64_t look(struct engine *e, struct helper *h, uint64_t now)
{
	bool yielding = is_yielding(e);
	bool waiting = atomic_load_explicit(&e->waiters, memory_order_relaxed) > 0;
	uint32_t drives = atomic_load_explicit(&e->drives, memory_order_relaxed);
	uint32_t grown = drives - h->seen;
	uint64_t elapsed = now - h->since;

	if (elapsed < YIELD_NS && !(waiting && !yielding))
		return yielding ? h->since + YIELD_NS : NEVER;
	h->since = now;
	h->seen = drives;
	h->idle = grown ? 0 : h->idle + 1;
	yielding = waiting || (now >= h->listen_until &&
			       (uint64_t)grown * YIELD_NS > YIELD_DRIVES * elapsed);
	set_yielding(e, yielding);
	if (yielding)
		h->penalty -= h->penalty / 4; /* trust comes back */
	atomic_store_explicit(&e->parked, waiting && h->idle > IDLE_LOOKS,
			      memory_order_relaxed);
	if (!yielding || (waiting && h->idle > IDLE_LOOKS))
		return NEVER;
	return now + YIELD_NS;
}

static void drain(int fd)
{
	uint64_t v;

	while (read(fd, &v, sizeof(v)) > 0)
		;
}

/* With the lock. Of many queues the rest is for the next time */
static void look_at_queues(struct engine *e, struct helper *h, uint64_t now)
{
	bool more = false;

	if (now - h->looked < LOOK_NS)
		return;
	h->looked = now;
	if (e->rec)
		recorder_expire(e->rec, now);
	if (!e->looks_due)
		return;
	for (unsigned int i = 0; i < e->n_dev; i++)
		more |= emu_hca_look(e->dev[i].hca);
	if (!more)
		e->looks_due--;
}

/* When there is something to look at, or a trace may end because nobody watches it; not before that */
static uint64_t look_again(const struct engine *e, const struct helper *h)
{
	bool watched = e->rec && e->rec->hdr->lease;

	return e->looks_due || watched ? h->looked + ENGINE_LOOK_NS : NEVER;
}

/*
 * One turn of the helper: receive until nothing comes any more, run timers. The next deadline
 */
static uint64_t helper_turn(struct engine *e, struct helper *h, bool links)
{
	uint64_t deadline, tick, again, now, last, spin_until = 0;
	int n;

	do {
		lock_take(&e->lock);
		if (links)
			engine_links_changed(e);
		links = false;
		last = e->last_drive;
		n = engine_receive(e, BUDGET, &deadline);
		now = engine_now();
		if (n > 0 && now - last > NEGLECT_NS && is_yielding(e) &&
		    !atomic_load_explicit(&e->waiters, memory_order_relaxed))
			neglected(e, h, now);
		tick = net_port_tick(e->port, now);
		look_at_queues(e, h, now);
		again = look_again(e, h);
		/*
		 * Published under the lock, so that a later deadline of another thread is
		 * seen.
		 */
		if (tick < deadline)
			deadline = tick;
		if (again < deadline)
			deadline = again;
		atomic_store_explicit(&e->wake_at, deadline, memory_order_relaxed);
		lock_release(&e->lock);
		if (n > 0)
			spin_until = now + WAIT_SPIN_NS;
		else if (now < spin_until)
			sched_yield();
	} while (now < spin_until && !is_yielding(e));
	return deadline;
}

/* struct slice - the sched_attr of sched_setattr(2), which libc has or has not */
struct slice {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * With a short time slice the helper runs as soon as it wakes, also beside threads that
 * never sleep: those of programs that poll memory for an RDMA WRITE, or of other programs
 * on a busy machine. From Linux 6.12 on; without, it waits for its turn.
 */
static void shorten_slice(void)
{
	struct slice s = {.size = sizeof(s)};

	if (syscall(SYS_sched_getattr, 0, &s, sizeof(s), 0) || s.policy != SCHED_OTHER)
		return;
	s.runtime = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &s, 0);
}

static void *helper_main(void *arg)
{
	struct engine *e = arg;
	struct helper h = {0};
	bool links = false;
	struct pollfd p[MAX_FDS];

	shorten_slice();
	for (;;) {
		uint64_t deadline = helper_turn(e, &h, links);
		uint64_t now = engine_now();
		uint64_t until = look(e, &h, now);

		p[0] = (struct pollfd){.fd = e->wake_fd, .events = POLLIN};
		p[1] = (struct pollfd){.fd = e->link_fd, .events = POLLIN};
		sleep_on(e, p, 2, !is_yielding(e), until < deadline ? until : deadline);
		links = p[1].revents & POLLIN;
		if (p[0].revents & POLLIN)
			drain(e->wake_fd);
	}
	return NULL;
}

int engine_helper_start(struct engine *e)
{
	sigset_t all, old;
	int ret;

	/* The application's signals are for its own threads; faults are the guard's. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&e->helper, NULL, helper_main, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return -ret;
	pthread_setname_np(e->helper, "urxe");
	pthread_detach(e->helper);
	return 0;
}
