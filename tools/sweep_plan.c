/*
 * sweep_plan.c - from points to trials, and their order.
 *
 * Of each place there are a few trials only, however often the program comes there: the first
 * time, the last, one in the middle, and some more by the seed. One of each kind of place goes
 * first, then the others: so a short budget has seen all kinds of failures once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "tools/sweep.h"

#define LEVELS 6 /* trials of one place and action */

/* --- what can go wrong where ------------------------------------------------------ */

/*
 * struct idea - @name: only of points with this name; NULL: of all of the kind
 */
struct idea {
	enum sweep_group group;
	enum inject_kind kind;
	const char *name, *action;
	enum sweep_class class;
};

static const struct idea ideas[] = {
    {SWEEP_GROUP_QP, INJECT_CALL, "ibv_post_send", "qp-error", SWEEP_REFUSE},
    {SWEEP_GROUP_QP, INJECT_CALL, "ibv_post_recv", "qp-error", SWEEP_REFUSE},
    {SWEEP_GROUP_ASYNC, INJECT_CALL, "ibv_post_send", "async:PORT_ERR", SWEEP_REFUSE},
    {SWEEP_GROUP_ASYNC, INJECT_CALL, "ibv_post_send", "async:PORT_ACTIVE", SWEEP_RECOVER},
    {SWEEP_GROUP_ASYNC, INJECT_CALL, "ibv_post_send", "link-down:20ms", SWEEP_REFUSE},
    {SWEEP_GROUP_ASYNC, INJECT_CALL, "ibv_post_send", "async:GID_CHANGE", SWEEP_REFUSE},
    {SWEEP_GROUP_ASYNC, INJECT_CALL, "ibv_post_send", "async:DEVICE_FATAL", SWEEP_REFUSE},
    {SWEEP_GROUP_ASYNC, INJECT_CALL, "ibv_post_srq_recv", "async:SRQ_LIMIT_REACHED",
     SWEEP_RECOVER},
    {SWEEP_GROUP_PROCESS, INJECT_CALL, "ibv_post_send", "kill", SWEEP_END},
    {SWEEP_GROUP_PROCESS, INJECT_CALL, "ibv_post_send", "exit:1", SWEEP_END},
    {SWEEP_GROUP_PROCESS, INJECT_CALL, "ibv_post_send", "stop:100ms", SWEEP_RECOVER},
    {SWEEP_GROUP_PROCESS, INJECT_CALL, "ibv_post_send", "fork", SWEEP_RECOVER},
    {SWEEP_GROUP_PROCESS, INJECT_CALL, "ibv_post_recv", "stop:100ms", SWEEP_RECOVER},
    {SWEEP_GROUP_PROCESS, INJECT_CALL, "rdma_connect", "kill", SWEEP_END},
    {SWEEP_GROUP_PROCESS, INJECT_CALL, "rdma_accept", "kill", SWEEP_END},
    {SWEEP_GROUP_ACCESS, INJECT_ACCESS, NULL, "absent", SWEEP_RECOVER},
    {SWEEP_GROUP_ACCESS, INJECT_ACCESS, NULL, "slow:20ms", SWEEP_RECOVER},
    {SWEEP_GROUP_ACCESS, INJECT_ACCESS, NULL, "rnr", SWEEP_RECOVER},
    {SWEEP_GROUP_ACCESS, INJECT_ACCESS, NULL, "drop", SWEEP_RECOVER},
    {SWEEP_GROUP_ACCESS, INJECT_ACCESS, NULL, "error", SWEEP_REFUSE},
    {SWEEP_GROUP_FAULT, INJECT_FAULT, NULL, "slow:20ms", SWEEP_RECOVER},
    {SWEEP_GROUP_FAULT, INJECT_FAULT, NULL, "rnr", SWEEP_RECOVER},
    {SWEEP_GROUP_FAULT, INJECT_FAULT, NULL, "drop", SWEEP_RECOVER},
    {SWEEP_GROUP_FAULT, INJECT_FAULT, NULL, "error", SWEEP_REFUSE},
    {SWEEP_GROUP_OUT, INJECT_OUT, NULL, "lose", SWEEP_RECOVER},
    {SWEEP_GROUP_OUT, INJECT_OUT, NULL, "double", SWEEP_RECOVER},
    {SWEEP_GROUP_OUT, INJECT_OUT, NULL, "delay:20ms", SWEEP_RECOVER},
    {SWEEP_GROUP_OUT, INJECT_OUT, NULL, "damage", SWEEP_RECOVER},
    {SWEEP_GROUP_IN, INJECT_IN, NULL, "lose", SWEEP_RECOVER},
    {SWEEP_GROUP_IN, INJECT_IN, NULL, "double", SWEEP_RECOVER},
    {SWEEP_GROUP_IN, INJECT_IN, NULL, "delay:20ms", SWEEP_RECOVER},
    {SWEEP_GROUP_EVENT, INJECT_EVENT, "ADDR_RESOLVED", "error", SWEEP_REFUSE},
    {SWEEP_GROUP_EVENT, INJECT_EVENT, "ROUTE_RESOLVED", "error", SWEEP_REFUSE},
    {SWEEP_GROUP_EVENT, INJECT_EVENT, "CONNECT_REQUEST", "reject", SWEEP_REFUSE},
    {SWEEP_GROUP_EVENT, INJECT_EVENT, "CONNECT_RESPONSE", "error", SWEEP_REFUSE},
    {SWEEP_GROUP_EVENT, INJECT_EVENT, "ESTABLISHED", "error", SWEEP_REFUSE},
    {SWEEP_GROUP_EVENT, INJECT_EVENT, "ESTABLISHED", "disconnect", SWEEP_REFUSE},
    {SWEEP_GROUP_EVENT, INJECT_EVENT, "MULTICAST_JOIN", "error", SWEEP_REFUSE},
    {SWEEP_GROUP_COMPLETION, INJECT_COMPLETION, NULL, "RETRY_EXC_ERR", SWEEP_REFUSE},
};

int sweep_groups(const char *list, uint32_t *groups, char *err, size_t errlen)
{
#define X(name, word) word,
	static const char *const words[] = {SWEEP_GROUPS(X)};
#undef X
	*groups = 0;
	for (const char *p = list;; p++) {
		size_t len = strcspn(p, ","), i = 0;

		while (i < SWEEP_N_GROUPS &&
		       (strlen(words[i]) != len || strncmp(words[i], p, len) != 0))
			i++;
		if (i == SWEEP_N_GROUPS) {
			snprintf(err, errlen,
				 "'%.*s' is none of call, qp, async, process, access, "
				 "fault, out, in, event, completion",
				 len < 40 ? (int)len : 40, p);
			return -EINVAL;
		}
		*groups |= 1u << i;
		p += len;
		if (!*p)
			return 0;
	}
}

/* --- trials ----------------------------------------------------------------------- */

/*
 * struct maker
 * @learnt, @other: what two runs have learnt
 * @in, @at:	the point that trials are made of; @count: how often it was come to in both
 */
struct maker {
	struct plan *plan;
	const struct sweep_learnt *learnt, *other;
	uint32_t groups;
	uint64_t seed;
	const struct points *in;
	const struct point *at;
	uint64_t count;
	bool failed;
};

static struct trial *new_trial(struct plan *p)
{
	if (p->n == p->room) {
		size_t room = p->room ? 2 * p->room : 256;
		struct trial *t = realloc(p->trial, room * sizeof(*t));

		if (!t)
			return NULL;
		p->trial = t;
		p->room = room;
	}
	p->trial[p->n] = (struct trial){0};
	return &p->trial[p->n++];
}

/* The process in words that choose it alone, as few as that takes */
static void say_process(const struct sweep_learnt *l, const struct points *us, char *text,
			size_t size)
{
	unsigned int all = l->n, named = 0, alike = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct points_who *who = &l->process[i].who;
		bool same = !strcmp(who->program, us->who.program);

		named += same;
		alike += same && who->args == us->who.args;
	}
	*text = '\0';
	if (us->who.rank >= 0)
		snprintf(text, size, ",rank=%d", us->who.rank);
	else if (all > 1 && named == 1)
		snprintf(text, size, ",process=%s", us->who.program);
	else if (all > 1 && alike == 1)
		snprintf(text, size, ",process=%s:%04x", us->who.program, us->who.args);
	else if (all > 1)
		snprintf(text, size, ",process=%s:%04x.%u", us->who.program, us->who.args,
			 us->who.nth);
}

/* Is there another place in the process from which the call is made? */
static bool has_stacks(const struct maker *m)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < m->in->n_points; i++)
		n += m->in->point[i].kind == m->at->kind &&
		     !strcmp(m->in->point[i].name, m->at->name);
	return m->at->stack && n > 1;
}

/* Does another thread make the same call from the same place? */
static bool has_threads(const struct maker *m)
{
	for (uint32_t i = 0; i < m->in->n_points; i++) {
		const struct point *o = &m->in->point[i];

		if (o->kind == m->at->kind && o->stack == m->at->stack &&
		    o->thread != m->at->thread && !strcmp(o->name, m->at->name))
			return true;
	}
	return false;
}

static void write_rule(const struct maker *m, const char *action, struct trial *t)
{
	char process[80], stack[32] = "", thread[24] = "", mr[48] = "",
			  name[INJECT_NAME + 1] = "";

	say_process(m->learnt, m->in, process, sizeof(process));
	if (m->at->name[0])
		snprintf(name, sizeof(name), "=%s", m->at->name);
	if (has_stacks(m))
		snprintf(stack, sizeof(stack), ",at=%" PRIx64, m->at->stack);
	if (has_threads(m))
		snprintf(thread, sizeof(thread), ",thread=%u", m->at->thread);
	if (m->at->object[0])
		snprintf(mr, sizeof(mr), ",mr=%s", m->at->object);
	snprintf(t->rule, sizeof(t->rule), "%s%s%s%s%s%s,n=%" PRIu64 ",do=%s",
		 inject_kind_word((enum inject_kind)m->at->kind), name, process, mr,
		 stack, thread, t->n, action);
}

static uint64_t hash_text(const char *s, uint64_t seed)
{
	uint64_t state = seed;

	for (; *s; s++)
		state = (state ^ (unsigned char)*s) * SPLITMIX_STEP;
	return splitmix_next(&state);
}

/* Which of @count times is tried at a level; 0: none that is new */
static uint64_t time_at(uint64_t count, uint32_t level, uint64_t key)
{
	uint64_t n;

	if (level == 0)
		return 1;
	if (level == 1)
		return count > 1 ? count : 0;
	if (level == 2)
		return count > 2 ? count / 2 + 1 : 0;
	n = count > 3 ? 2 + (key + level * 7) % (count - 2) : 0;
	return n == count / 2 + 1 ? 0 : n;
}

static void make_trials(struct maker *m, const char *action, enum sweep_class class)
{
	for (uint32_t level = 0; level < LEVELS; level++) {
		uint64_t n = time_at(m->count, level, m->seed + m->at->stack);
		struct trial *t = n ? new_trial(m->plan) : NULL;

		if (n && !t)
			m->failed = true;
		if (!t)
			continue;
		t->kind = (enum inject_kind)m->at->kind;
		t->class = class;
		t->at = m->at;
		t->in = m->in;
		t->n = n;
		t->level = level;
		strcpy(t->name, m->at->name);
		snprintf(t->action, sizeof(t->action), "%s", action);
		write_rule(m, action, t);
		t->key = hash_text(t->rule, m->seed);
	}
}

/* Each error that a call can fail with */
static void make_errors(struct maker *m)
{
	const struct inject_call *c = inject_call_named(m->at->name);

	if (!(m->groups & 1u << SWEEP_GROUP_CALL))
		return;
	for (int i = 0; c && i < 4 && c->error[i]; i++)
		make_trials(m, inject_errno_name(c->error[i]),
			    c->hint ? SWEEP_HINT : SWEEP_REFUSE);
}

static void make_of_point(struct maker *m)
{
	for (size_t i = 0; i < sizeof(ideas) / sizeof(ideas[0]); i++)
		if (m->groups & 1u << ideas[i].group && ideas[i].kind == m->at->kind &&
		    (!ideas[i].name || !strcmp(ideas[i].name, m->at->name)))
			make_trials(m, ideas[i].action, ideas[i].class);
	if (m->at->kind == INJECT_CALL)
		make_errors(m);
}

/* --- are runs alike? -------------------------------------------------------------- */

static const struct points *same_process(const struct sweep_learnt *l,
					 const struct points_who *who)
{
	for (uint32_t i = 0; i < l->n; i++) {
		const struct points_who *w = &l->process[i].who;

		if (!strcmp(w->program, who->program) && w->args == who->args &&
		    w->nth == who->nth)
			return &l->process[i];
	}
	return NULL;
}

/* How often another run came to the point */
static uint64_t count_in(const struct points *p, const struct point *at)
{
	for (uint32_t i = 0; p && i < p->n_points; i++)
		if (p->point[i].kind == at->kind && p->point[i].stack == at->stack &&
		    p->point[i].thread == at->thread &&
		    !strcmp(p->point[i].name, at->name) &&
		    !strcmp(p->point[i].object, at->object))
			return p->point[i].count;
	return 0;
}

/* --- the order -------------------------------------------------------------------- */

/* One kind of place and action: which trials are the first of theirs, the second, ... */
static bool is_same_kind(const struct trial *a, const struct trial *b)
{
	return a->kind == b->kind && a->level == b->level && !strcmp(a->name, b->name) &&
	       !strcmp(a->action, b->action);
}

static int by_key(const void *x, const void *y)
{
	const struct trial *a = x, *b = y;

	return a->key < b->key ? -1 : a->key > b->key;
}

static int by_turn(const void *x, const void *y)
{
	const struct trial *a = x, *b = y;
	uint32_t ra = a->level * 4 + (a->turn < 3 ? a->turn : 3);
	uint32_t rb = b->level * 4 + (b->turn < 3 ? b->turn : 3);

	if (ra != rb)
		return ra < rb ? -1 : 1;
	if (a->turn != b->turn)
		return a->turn < b->turn ? -1 : 1;
	return by_key(x, y);
}

static void put_in_order(struct plan *p, size_t from)
{
	if (p->n == from)
		return;
	qsort(p->trial + from, p->n - from, sizeof(*p->trial), by_key);
	for (size_t i = from; i < p->n; i++) {
		p->trial[i].turn = 0;
		for (size_t k = from; k < i; k++)
			p->trial[i].turn += is_same_kind(&p->trial[k], &p->trial[i]);
	}
	qsort(p->trial + from, p->n - from, sizeof(*p->trial), by_turn);
}

int sweep_plan_make(struct plan *p, const struct sweep_learnt *a,
		    const struct sweep_learnt *b, uint32_t groups, uint64_t seed)
{
	struct maker m = {
	    .plan = p, .learnt = a, .other = b, .groups = groups, .seed = seed};

	for (uint32_t i = 0; i < a->n; i++) {
		const struct points *twin = same_process(b, &a->process[i].who);

		m.in = &a->process[i];
		for (uint32_t k = 0; k < m.in->n_points; k++) {
			uint64_t other;

			m.at = &m.in->point[k];
			other = count_in(twin, m.at);
			p->points++;
			p->alike += other == m.at->count;
			m.count = other < m.at->count ? other : m.at->count;
			m.count += !m.count;
			make_of_point(&m);
		}
	}
	put_in_order(p, 0);
	return m.failed ? -ENOMEM : 0;
}

/* Two trials, of which neither is there alone */
static int add_pair(struct plan *p, size_t i, size_t k, uint64_t seed)
{
	struct trial *t = new_trial(p), *a, *b;

	if (!t)
		return -ENOMEM;
	a = &p->trial[i];
	b = &p->trial[k];
	*t = *a;
	if (snprintf(t->rule, sizeof(t->rule), "%s;%s", a->rule, b->rule) >=
	    (int)sizeof(t->rule)) {
		p->n--;
		return 0;
	}
	t->class = a->class > b->class ? a->class : b->class;
	t->verdict = SWEEP_UNTRIED;
	t->level = LEVELS;
	t->key = hash_text(t->rule, seed);
	return 0;
}

int sweep_plan_pairs(struct plan *p, uint64_t seed)
{
	size_t n = p->n;
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		for (size_t k = i + 1; k < n && !ret; k++)
			if (!p->trial[i].level && !p->trial[i].turn &&
			    !p->trial[k].level && !p->trial[k].turn &&
			    p->trial[i].class != SWEEP_END &&
			    p->trial[k].class != SWEEP_END &&
			    strcmp(p->trial[i].name, p->trial[k].name) != 0)
				ret = add_pair(p, i, k, seed);
	put_in_order(p, n);
	return ret;
}

void sweep_plan_free(struct plan *p)
{
	free(p->trial);
	*p = (struct plan){0};
}
