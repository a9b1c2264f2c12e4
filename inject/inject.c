/*
 * inject.c - see inject.h.
 *
 * Theory of operation
 *
 * The process has one list of rules, each with a count of the points that it fits. A point
 * takes the lock, goes through the list and counts; the first rule whose turn it is acts. So
 * what happens depends on what the program did before, and on no time.
 *
 * Who a process is, is told by its program, a hash of its arguments, and its order among the
 * processes of the run that have both alike: two processes that start at the same time are
 * told apart as long as they are called differently. The order is settled by making the file
 * of points (points.h): the first free number is ours, whole and at once, by link(2).
 *
 * Locks: @lock is the innermost. What is done to the process happens without it.
 */
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "inject/stack.h"

#define MAX_PROCESSES 100000
#define PATH_ROOM     300

_Atomic uint32_t inject_kinds;

/*
 * struct rules - those of the process
 * @seen:	points that a rule fits, by rule
 * @points:	what others read; memory of ours where there is no file
 * @learning:	all points are noted
 * @stacks:	a rule or the notes want call stacks
 * @threads:	that have made calls in this @life, which a fork ends
 */
static struct {
	struct lock lock;
	struct inject_rule rule[INJECT_MAX_RULES];
	uint64_t seen[INJECT_MAX_RULES];
	int n;
	struct points *points;
	bool learning, stacks;
	uint32_t threads, life;
} rules = {.lock = LOCK_INITIALIZER};

/* --- who we are ------------------------------------------------------------------- */

/* Of all arguments but the first, folded to 16 bits */
static uint32_t hash_arguments(void)
{
	uint32_t hash = 0x811c9dc5u;
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	bool first = true;
	char buf[512];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (!first)
				hash = (hash ^ (unsigned char)buf[i]) * 0x01000193u;
			first = first && buf[i];
		}
	}
	if (fd >= 0)
		close(fd);
	return (hash ^ hash >> 16) & UINT16_MAX;
}

static int own_rank(void)
{
	static const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK",
					    "PMI_RANK", "SLURM_PROCID"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *v = getenv(names[i]);

		if (v && *v >= '0' && *v <= '9')
			return atoi(v);
	}
	return -1;
}

static void describe(struct points_who *p)
{
	memcpy(p->magic, POINTS_MAGIC, sizeof(p->magic));
	p->version = POINTS_VERSION;
	p->size = sizeof(struct points);
	p->pid = getpid();
	p->rank = own_rank();
	p->args = hash_arguments();
	p->number = p->nth = p->of_program = 1;
	snprintf(p->program, sizeof(p->program), "%s", program_invocation_short_name);
}

/* Count the process of file @number if it is called as @p is */
static void count_alike(int dir, uint32_t number, struct points_who *p)
{
	struct points_who other;
	char name[16];
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "%u", number);
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	n = fd < 0 ? -1 : pread(fd, &other, sizeof(other), 0);
	if (fd >= 0)
		close(fd);
	if (n != sizeof(other) ||
	    strncmp(other.program, p->program, sizeof(p->program)) != 0)
		return;
	p->of_program++;
	p->nth += other.args == p->args;
}

/* Our place in the order of processes: the file @temp gets the first free number. 0, -errno */
static int take_number(int dir, const char *temp, struct points_who *p)
{
	char name[16];

	for (; p->number < MAX_PROCESSES; p->number++) {
		snprintf(name, sizeof(name), "%u", p->number);
		if (!linkat(dir, temp, dir, name, 0))
			return 0;
		if (errno != EEXIST)
			return -errno;
		count_alike(dir, p->number, p);
	}
	return -ENOSPC;
}

/* The file in the directory @dir; NULL: it cannot be had */
static struct points *make_file(int dir, const struct points *us)
{
	void *p = MAP_FAILED;
	char temp[32];
	int fd, ret = 0;

	snprintf(temp, sizeof(temp), ".%d", (int)getpid());
	fd = openat(dir, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, sizeof(*us)))
		p = mmap(NULL, sizeof(*us), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED) {
		memcpy(p, &us->who, sizeof(us->who));
		ret = take_number(dir, temp, p);
	}
	unlinkat(dir, temp, 0);
	if (p != MAP_FAILED && ret) {
		munmap(p, sizeof(*us));
		p = MAP_FAILED;
	}
	return p == MAP_FAILED ? NULL : p;
}

static struct points *make_points(const char *session)
{
	struct points *us = calloc(1, sizeof(*us)), *file = NULL;
	char path[PATH_ROOM];
	int dir;

	if (!us)
		return NULL;
	describe(&us->who);
	if (!*session)
		return us;
	snprintf(path, sizeof(path), "%s/" POINTS_DIR, session);
	if (!mkdir(path, 0700) || errno == EEXIST) {
		dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0) {
			file = make_file(dir, us);
			close(dir);
		}
	}
	if (!file)
		return us;
	free(us);
	return file;
}

/* --- rules of this process -------------------------------------------------------- */

static bool is_ours(const struct inject_rule *r, const struct points_who *us)
{
	if (r->start && r->start != us->number)
		return false;
	if (r->rank >= 0 && r->rank != us->rank)
		return false;
	if (r->process[0] && strcmp(r->process, us->program) != 0)
		return false;
	if (r->by_args && r->args != us->args)
		return false;
	return !r->nth || r->nth == (r->by_args ? us->nth : us->of_program);
}

/* With the lock: kinds that points have to ask about */
static void settle(void)
{
	uint32_t kinds = 0;

	rules.learning = rules.stacks = false;
	for (int i = 0; i < rules.n; i++) {
		const struct inject_rule *r = &rules.rule[i];

		rules.seen[i] = 0;
		if (r->learn)
			kinds |= INJECT_EVERYWHERE_;
		else if (r->reach)
			kinds |= INJECT_PACKETS;
		else if (is_ours(r, &rules.points->who))
			kinds |= 1u << r->kind;
		rules.learning |= r->learn;
		rules.stacks |= r->learn || r->kind == INJECT_CALL;
	}
	if (rules.stacks)
		stack_prepare();
	atomic_store_explicit(&inject_kinds, kinds, memory_order_relaxed);
}

int inject_start(const char *dir, const char *text, char *err, size_t errlen)
{
	int n = 0;

	if (!*text)
		return 0;
	lock_take(&rules.lock);
	if (!rules.points)
		rules.points = make_points(dir);
	if (rules.points)
		n = inject_parse(text, rules.rule, INJECT_MAX_RULES, err, errlen);
	rules.n = n > 0 ? n : 0;
	if (rules.points)
		settle();
	else
		n = -ENOMEM;
	lock_release(&rules.lock);
	return n < 0 ? n : 0;
}

static bool wants_packets(const struct inject_rule *rule, int n)
{
	for (int i = 0; i < n; i++)
		if (!rule[i].learn && !rule[i].reach &&
		    INJECT_PACKETS & 1u << rule[i].kind)
			return true;
	return false;
}

int inject_replace(const char *text, bool packets, char *err, size_t errlen)
{
	struct inject_rule *rule = calloc(INJECT_MAX_RULES, sizeof(*rule));
	int n;

	if (!rule)
		return -ENOMEM;
	n = inject_parse(text, rule, INJECT_MAX_RULES, err, errlen);
	if (!packets && wants_packets(rule, n))
		n = -EOPNOTSUPP;
	lock_take(&rules.lock);
	if (n >= 0 && !rules.points)
		rules.points = make_points("");
	if (n >= 0 && !rules.points)
		n = -ENOMEM;
	if (n >= 0) {
		memcpy(rules.rule, rule, sizeof(*rule) * (size_t)n);
		memset(rules.points->hit, 0, sizeof(rules.points->hit));
		rules.n = n;
		settle();
	}
	lock_release(&rules.lock);
	free(rule);
	return n < 0 ? n : 0;
}

/* The file stays the parent's; the child leaves its memory of it. */
void inject_forked(void)
{
	lock_init(&rules.lock);
	rules.points = NULL;
	rules.n = 0;
	rules.threads = 0;
	rules.life++;
	atomic_store_explicit(&inject_kinds, 0, memory_order_relaxed);
}

/* The number of the thread that calls; with the lock */
static uint32_t own_thread(void)
{
	static __thread struct {
		uint32_t life, number;
	} own;

	if (own.life != rules.life + 1) {
		own.life = rules.life + 1;
		own.number = ++rules.threads;
	}
	return own.number;
}

/* --- a point ---------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool fits(const struct inject_rule *r, const struct inject_point *p,
		 const struct stack *s)
{
	if (r->learn || r->reach || r->kind != p->kind || !is_ours(r, &rules.points->who))
		return false;
	if (r->name[0] && strcmp(r->name, p->name) != 0)
		return false;
	if (r->object[0] && strcmp(r->object, p->object) != 0)
		return false;
	if (r->by_key && r->key != p->key)
		return false;
	if (r->by_page && (r->page < p->page || r->page - p->page >= p->n))
		return false;
	if (r->thread && r->thread != s->thread)
		return false;
	return !r->stack || r->stack == s->hash;
}

/* Calls fail only with errors that they give, also by a rule for all of them. */
static bool applies(const struct inject_rule *r, const struct inject_point *p)
{
	const struct inject_call *c;

	if (r->kind == INJECT_EVENT && r->action == INJECT_DO_REJECT)
		return !strcmp(p->name, "CONNECT_REQUEST");
	if (r->kind == INJECT_EVENT && r->action == INJECT_DO_DISCONNECT)
		return !strcmp(p->name, "ESTABLISHED");
	if (r->kind != INJECT_CALL || r->name[0])
		return true;
	c = inject_call_named(p->name);
	if (r->action == INJECT_DO_QP_ERROR)
		return c && c->qp;
	if (r->action != INJECT_DO_ERRNO)
		return true;
	for (int i = 0; c && i < 4; i++)
		if (c->error[i] == r->error)
			return true;
	return false;
}

static bool is_due(const struct inject_rule *r, uint64_t seen)
{
	switch (r->times) {
	case INJECT_ONCE:
		return seen == r->n;
	case INJECT_FROM:
		return seen >= r->n;
	case INJECT_EVERY:
		return seen % r->n == 0;
	}
	return false;
}

static void fill(struct point *to, const struct inject_point *p, const struct stack *s)
{
	to->kind = p->kind;
	snprintf(to->name, sizeof(to->name), "%s", p->name);
	snprintf(to->object, sizeof(to->object), "%s", p->object);
	to->thread = s->thread;
	if (s->hash)
		stack_note(s, rules.points, to);
}

/* One more at this place. With the lock */
static void note(const struct inject_point *p, const struct stack *s)
{
	struct points *pts = rules.points;
	uint32_t n = pts->n_points;
	struct point *at = pts->point;

	while (at < pts->point + n &&
	       (at->kind != p->kind || at->stack != s->hash || at->thread != s->thread ||
		strcmp(at->name, p->name) != 0 || strcmp(at->object, p->object) != 0))
		at++;
	if (at == pts->point + POINTS_MAX) {
		pts->lost++;
		return;
	}
	if (at == pts->point + n) {
		fill(at, p, s);
		pts->n_points = n + 1;
	}
	at->count++;
}

static void note_hit(struct point_hit *hit, const struct inject_point *p,
		     const struct stack *s)
{
	if (!hit->count) {
		hit->time = now_ns();
		fill(&hit->at, p, s);
	}
	hit->count++;
}

/* With the lock: the rule that acts; NULL */
static const struct inject_rule *find(const struct inject_point *p, const struct stack *s)
{
	const struct inject_rule *found = NULL;

	for (int i = 0; i < rules.n; i++) {
		const struct inject_rule *r = &rules.rule[i];

		if (!fits(r, p, s) || !applies(r, p) || !is_due(r, ++rules.seen[i]) ||
		    found)
			continue;
		found = r;
		note_hit(&rules.points->hit[i], p, s);
	}
	return found;
}

/* --- what is done to the process -------------------------------------------------- */

/*
 * A process beside this one waits and has it go on: one that no handler of fork, no wait(2)
 * and no SIGCHLD of the program meets.
 */
static void stop_for(uint64_t ns)
{
	const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
				   .tv_nsec = (long)(ns % 1000000000u)};
	pid_t self = getpid();
	long child = syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);

	if (!child) {
		syscall(SYS_nanosleep, &t, NULL);
		syscall(SYS_kill, self, SIGCONT);
		syscall(SYS_exit_group, 0);
	}
	if (child < 0)
		return;
	kill(self, SIGSTOP);
	waitpid((pid_t)child, NULL, __WCLONE);
}

/* The program must not see that there was a child. */
static void fork_for_nothing(void)
{
	const struct timespec none = {0};
	sigset_t chld, was, pending;
	pid_t child;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &chld, &was);
	sigpending(&pending);
	child = fork();
	if (!child)
		_exit(0);
	if (child > 0) {
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		if (!sigismember(&pending, SIGCHLD))
			sigtimedwait(&chld, NULL, &none);
	}
	pthread_sigmask(SIG_SETMASK, &was, NULL);
}

/* True: the point has something to do itself */
static bool do_to_process(const struct inject_rule *r)
{
	if (r->action == INJECT_DO_KILL)
		kill(getpid(), SIGKILL);
	else if (r->action == INJECT_DO_STOP)
		stop_for(r->time);
	else if (r->action == INJECT_DO_EXIT)
		exit((int)r->value);
	else if (r->action == INJECT_DO_FORK)
		fork_for_nothing();
	else
		return true;
	return false;
}

bool inject_ask(const struct inject_point *p, struct inject_what *what)
{
	struct stack s = {0};
	const struct inject_rule *found;
	struct inject_rule r;

	if (p->kind == INJECT_CALL && rules.stacks)
		stack_take(&s);
	lock_take(&rules.lock);
	if (!rules.points) {
		lock_release(&rules.lock);
		return false;
	}
	if (p->kind == INJECT_CALL)
		s.thread = own_thread();
	if (rules.learning)
		note(p, &s);
	found = find(p, &s);
	if (found)
		r = *found;
	lock_release(&rules.lock);
	if (!found || !do_to_process(&r))
		return false;
	*what = (struct inject_what){.action = r.action,
				     .error = r.error,
				     .time = r.time,
				     .value = r.value,
				     .by_page = r.by_page,
				     .page = r.page};
	return true;
}
