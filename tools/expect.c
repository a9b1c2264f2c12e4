/*
 * expect.c - see expect.h.
 *
 * What can be said of the whole of a run is read from counters. What is asked for from some
 * moment on is counted from records, of which only the last are kept: where those that are gone
 * could matter, the rule fails and says so, rather than hold by chance.
 */
#include "tools/expect.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/segments.h"
#include "trace/render.h"

/* --- what can be counted ---------------------------------------------------------- */

/* Where a number comes from */
enum source {
	OF_MR,	   /* @index: enum trace_odp_counter */
	OF_NET,	   /* enum trace_net_counter */
	OF_DEVICE, /* enum trace_hw_counter */
	FAULTS,
	RETRANSMISSIONS,
	RNR,
	OUTSTANDING,
	COMPLETIONS,
	FAILED_COMPLETIONS,
	OBJECTS_LEFT,
	NOTES,
};

static const struct subject {
	const char *name;
	enum source source;
	unsigned int index;
} subjects[] = {
#define X(member, name, unit, text) {#name, OF_MR, TRACE_ODP_##member},
    TRACE_ODP_COUNTERS(X)
#undef X
#define X(member, name, unit, text) {#name, OF_NET, TRACE_NET_##member},
	TRACE_NET_COUNTERS(X)
#undef X
#define X(id, name) {name, OF_DEVICE, TRACE_HW_##id},
	    TRACE_HW_COUNTERS(X)
#undef X
		{"faults", FAULTS, 0},
    {"retransmissions", RETRANSMISSIONS, 0},
    {"rnr", RNR, 0},
    {"outstanding", OUTSTANDING, 0},
    {"completions", COMPLETIONS, 0},
    {"failed_completions", FAILED_COMPLETIONS, 0},
    {"objects_left", OBJECTS_LEFT, 0},
    {"mistakes", NOTES, 0},
};
#define N_SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

/* Of which a region has its own */
static bool has_region(const struct subject *s)
{
	return s->source == OF_MR || s->source == FAULTS;
}

/* Which records tell of it one by one: how much this one adds */
static uint64_t in_record(const struct subject *s, const struct trace_record *r)
{
	switch (s->source) {
	case FAULTS:
		return r->kind == TRACE_KIND_fault || r->kind == TRACE_KIND_fault_failed;
	case OF_MR:
		if (s->index == TRACE_ODP_pages_faulted && r->kind == TRACE_KIND_fault)
			return r->u.fault.made;
		if (s->index == TRACE_ODP_failed_faults)
			return r->kind == TRACE_KIND_fault_failed;
		if (s->index == TRACE_ODP_prefetches)
			return r->kind == TRACE_KIND_prefetch;
		if (s->index == TRACE_ODP_invalidations)
			return r->kind == TRACE_KIND_invalidate;
		return 0;
	case RETRANSMISSIONS:
		return r->kind == TRACE_KIND_packet_again;
	case RNR:
		return r->kind == TRACE_KIND_nak_in &&
		       (r->u.nak_in.syndrome & 0x60) == 0x20;
	case FAILED_COMPLETIONS:
		return r->kind == TRACE_KIND_completion_error;
	case OF_NET:
	case OF_DEVICE:
	case OUTSTANDING:
	case COMPLETIONS:
	case OBJECTS_LEFT:
	case NOTES:
		break;
	}
	return 0;
}

static bool has_records(const struct subject *s)
{
	return s->source == FAULTS || s->source == RETRANSMISSIONS || s->source == RNR ||
	       s->source == FAILED_COMPLETIONS ||
	       (s->source == OF_MR && (s->index == TRACE_ODP_pages_faulted ||
				       s->index == TRACE_ODP_failed_faults ||
				       s->index == TRACE_ODP_prefetches ||
				       s->index == TRACE_ODP_invalidations));
}

/* --- the language ----------------------------------------------------------------- */

static __attribute__((format(printf, 3, 4))) int bad(char *err, size_t errlen,
						     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	for (char *p = err; errlen && *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
	return -EINVAL;
}

static bool take_number(const char *s, uint64_t *n, const char **end)
{
	char *e;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*n = strtoull(s, &e, 10);
	*end = e;
	return !errno;
}

/* TIME, or a number of completions */
static bool take_after(const char *s, struct expect_rule *r)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	const char *end;
	uint64_t n;

	if (!take_number(s, &n, &end))
		return false;
	if (!*end)
		r->completions = n;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].unit) && n <= UINT64_MAX / units[i].ns / 4)
			r->after = n * units[i].ns;
	return r->completions || r->after;
}

/* NAME, one of = == != < <= > >=, NUMBER */
static int take_comparison(char *word, struct expect_rule *r, char *err, size_t errlen)
{
	static const struct {
		const char *op;
		enum expect_op code;
	} ops[] = {{"==", EXPECT_EQ}, {"!=", EXPECT_NE}, {"<=", EXPECT_LE},
		   {">=", EXPECT_GE}, {"=", EXPECT_EQ},	 {"<", EXPECT_LT},
		   {">", EXPECT_GT}};
	size_t len = strcspn(word, "=!<> "), i;
	const char *op = word + len + strspn(word + len, " "), *end;

	for (i = 0; i < N_SUBJECTS && (strlen(subjects[i].name) != len ||
				       strncmp(subjects[i].name, word, len) != 0);
	     i++)
		;
	if (i == N_SUBJECTS)
		return bad(err, errlen,
			   "'%.*s' is nothing that is counted (urxe(1) lists it)",
			   (int)(len < 60 ? len : 60), word);
	r->subject = (unsigned int)i;
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strncmp(op, ops[i].op, strlen(ops[i].op)))
			break;
	if (i == sizeof(ops) / sizeof(ops[0]))
		return bad(err, errlen, "'%.60s' is no comparison like page_faults<=7",
			   word);
	r->op = ops[i].code;
	op += strlen(ops[i].op);
	if (!take_number(op + strspn(op, " "), &r->value, &end) || *end)
		return bad(err, errlen, "'%.60s' is no comparison like page_faults<=7",
			   word);
	return 0;
}

static int take_text(char *to, size_t size, const char *v, char *err, size_t errlen)
{
	if (!*v || strlen(v) >= size)
		return bad(err, errlen, "'%.60s': a name has 1 to %zu bytes", v,
			   size - 1);
	strcpy(to, v);
	return 0;
}

static int take_word(char *word, struct expect_rule *r, char *err, size_t errlen)
{
	if (!strncmp(word, "process=", 8))
		return take_text(r->process, sizeof(r->process), word + 8, err, errlen);
	if (!strncmp(word, "mr=", 3))
		return take_text(r->mr, sizeof(r->mr), word + 3, err, errlen);
	if (!strncmp(word, "after=", 6))
		return take_after(word + 6, r)
			   ? 0
			   : bad(err, errlen,
				 "'%.60s' is neither a time like after=1s nor a "
				 "number of completions",
				 word);
	return bad(err, errlen, "'%.60s' is none of process=, mr=, after=", word);
}

static int check(const struct expect_rule *r, char *err, size_t errlen)
{
	const struct subject *s = &subjects[r->subject];

	if (r->mr[0] && !has_region(s))
		return bad(err, errlen, "%s are not counted by region", s->name);
	if ((r->after || r->completions) && !has_records(s))
		return bad(err, errlen, "%s cannot be told from some moment on", s->name);
	return 0;
}

static int parse_rule(const char *text, size_t len, struct expect_rule *r, char *err,
		      size_t errlen)
{
	char copy[sizeof(r->text)], *save = NULL, *word;
	int ret;

	*r = (struct expect_rule){0};
	while (len && isspace((unsigned char)text[len - 1]))
		len--;
	if (len >= sizeof(copy))
		return bad(err, errlen, "'%.40s...' is too long", text);
	memcpy(r->text, text, len);
	strcpy(copy, r->text);
	word = strtok_r(copy, ",", &save);
	ret = take_comparison(word ? word : copy, r, err, errlen);
	while (!ret && (word = strtok_r(NULL, ",", &save)))
		ret = take_word(word + strspn(word, " "), r, err, errlen);
	return ret ? ret : check(r, err, errlen);
}

int expect_parse(const char *text, struct expect_rule *rule, int max, char *err,
		 size_t errlen)
{
	int n = 0, ret = 0;

	while (*text && !ret) {
		size_t len;

		text += strspn(text, " \t");
		len = strcspn(text, ";\n#");
		if (len && n == max)
			return bad(err, errlen, "more than %d rules", max);
		if (len)
			ret = parse_rule(text, len, &rule[n++], err, errlen);
		text += len;
		text += *text == '#' ? strcspn(text, "\n") : *text != '\0';
	}
	return ret ? ret : n;
}

bool expect_wants_completions(const struct expect_rule *rule, int n)
{
	for (int i = 0; i < n; i++)
		if (rule[i].completions)
			return true;
	return false;
}

/* --- judging ---------------------------------------------------------------------- */

/*
 * struct court
 * @sum:	of all processes so far, @processes of them
 * @unknown:	records that could matter are gone
 * @more:	lines of processes
 */
struct court {
	const struct expect_rule *rule;
	uint64_t sum;
	unsigned int processes;
	bool unknown;
	char *more;
	size_t room;
};

static uint64_t of_object(const struct court *c, const struct trace_object *o)
{
	const struct subject *s = &subjects[c->rule->subject];

	if (o->kind == TRACE_OBJ_MR && s->source == OF_MR)
		return o->mr.counter[s->index];
	if (o->kind == TRACE_OBJ_MR && s->source == FAULTS)
		return o->mr.counter[TRACE_ODP_read_faults] +
		       o->mr.counter[TRACE_ODP_write_faults];
	if (o->kind == TRACE_OBJ_CQ && s->source == COMPLETIONS)
		return o->cq.produced;
	if (o->kind == TRACE_OBJ_NOTE && s->source == NOTES)
		return o->note.count;
	if (o->kind == TRACE_OBJ_CM_ID && s->source == OBJECTS_LEFT)
		return 1;
	if (o->kind != TRACE_OBJ_DEVICE)
		return 0;
	if (s->source == OF_DEVICE)
		return o->dev.counter[s->index];
	if (s->source == RETRANSMISSIONS)
		return o->dev.counter[TRACE_HW_COMP_RETRY];
	return s->source == RNR
		   ? o->dev.counter[TRACE_HW_RCV_RNR] + o->dev.counter[TRACE_HW_SND_RNR]
		   : 0;
}

/* Of a region by name, also of those with that name that are gone, as far as they are known */
static uint64_t of_region(const struct court *c, const struct trace_reader *t)
{
	const struct trace_object *o;
	uint64_t sum = 0;

	for (size_t i = 0; (o = trace_object(t, i)); i++)
		if (o->kind == TRACE_OBJ_MR && !strcmp(o->name, c->rule->mr))
			sum += of_object(c, o);
	return sum;
}

static uint64_t most_outstanding(const struct trace_reader *t)
{
	const struct trace_object *o;
	uint64_t most = trace_info(t)->most;

	for (size_t i = 0; (o = trace_object(t, i)); i++)
		if (o->kind == TRACE_OBJ_QP && o->qp.sq.most > most)
			most = o->qp.sq.most;
	return most;
}

static uint64_t from_counters(const struct court *c, struct trace_reader *t)
{
	const struct subject *s = &subjects[c->rule->subject];
	const struct trace_info *i = trace_info(t);
	uint64_t sum = 0, total[TRACE_N_ODP];
	const struct trace_object *o;

	if (c->rule->mr[0])
		return of_region(c, t);
	trace_odp_total(t, total);
	if (s->source == OF_MR)
		return total[s->index];
	if (s->source == FAULTS)
		return total[TRACE_ODP_read_faults] + total[TRACE_ODP_write_faults];
	if (s->source == OF_NET)
		return i->net[s->index];
	if (s->source == OUTSTANDING)
		return most_outstanding(t);
	for (size_t k = 0; s->source == OBJECTS_LEFT && k < TRACE_N_OBJECTS; k++)
		sum += i->left[k];
	if (s->source == COMPLETIONS)
		sum = i->completions;
	for (size_t k = 0; (o = trace_object(t, k)); k++)
		sum += of_object(c, o);
	return sum;
}

/* Is the record about the region of the rule? */
static bool of_rule(const struct court *c, const struct trace_reader *t,
		    const struct trace_record *r)
{
	const struct trace_field_desc *f;
	const struct trace_object *o;

	if (!c->rule->mr[0])
		return true;
	f = trace_field_named(trace_kind(r->kind), "mr");
	o = f ? trace_find(t, TRACE_OBJ_MR, (uint32_t)trace_field(r, f)) : NULL;
	return o && !strcmp(o->name, c->rule->mr);
}

/* From the moment on that the rule says; @first: text of the first record that counts */
static uint64_t from_records(struct court *c, struct trace_reader *t, char first[200])
{
	const struct expect_rule *rule = c->rule;
	const struct trace_info *i = trace_info(t);
	uint64_t sum = 0, done = 0, oldest = 0;
	struct trace_record r;

	trace_rewind(t);
	while (trace_next(t, &r)) {
		uint64_t since = r.time > i->mono ? r.time - i->mono : 0;
		uint64_t n = in_record(&subjects[rule->subject], &r);

		oldest = oldest ? oldest : r.time;
		done += r.kind == TRACE_KIND_completion ||
			r.kind == TRACE_KIND_completion_error;
		if (!n || since < rule->after || done < rule->completions ||
		    !of_rule(c, t, &r))
			continue;
		if (!sum) {
			char when[32];
			int len =
			    snprintf(first, 200,
				     ", first after %s: ", trace_time_text(since, when));

			trace_text(&r, first + len, 200 - (size_t)len);
		}
		sum += n;
	}
	/* what was overwritten is older than what is left */
	c->unknown |= i->overwritten && (rule->completions || !rule->after ||
					 oldest > i->mono + rule->after);
	return sum;
}

/* What is left, by kind, for the line of a process */
static void say_left(const struct trace_info *i, char *text, size_t size)
{
	size_t len = 0;

	for (unsigned int k = 0; k < TRACE_N_OBJECTS && len < size; k++)
		if (i->left[k])
			len += (size_t)snprintf(text + len, size - len,
						"%s%" PRIu64 " %s", len ? ", " : " (",
						i->left[k], trace_name(TRACE_OBJECT, k));
	if (len && len < size)
		snprintf(text + len, size - len, ")");
}

static void hear(void *arg, const struct segment *s)
{
	struct court *c = arg;
	const struct expect_rule *rule = c->rule;
	const struct subject *subject = &subjects[rule->subject];
	const struct trace_info *i = trace_info(s->t);
	char first[200] = "";
	uint64_t n;

	if (rule->process[0] && strcmp(rule->process, i->program) != 0)
		return;
	c->processes++;
	if (rule->after || rule->completions || subject->source == FAILED_COMPLETIONS)
		n = from_records(c, s->t, first);
	else
		n = from_counters(c, s->t);
	if (subject->source == OBJECTS_LEFT)
		say_left(i, first, sizeof(first));
	if (subject->source == OUTSTANDING)
		c->sum = n > c->sum ? n : c->sum;
	else
		c->sum += n;
	if (c->room > 1) {
		int len = snprintf(c->more, c->room, "%s (pid %d): %" PRIu64 "%s\n",
				   i->program, i->pid, n, first);
		size_t used = (size_t)len < c->room ? (size_t)len : c->room - 1;

		c->more += used;
		c->room -= used;
	}
}

static bool holds(const struct expect_rule *r, uint64_t n)
{
	switch (r->op) {
	case EXPECT_EQ:
		return n == r->value;
	case EXPECT_NE:
		return n != r->value;
	case EXPECT_LT:
		return n < r->value;
	case EXPECT_LE:
		return n <= r->value;
	case EXPECT_GT:
		return n > r->value;
	case EXPECT_GE:
		return n >= r->value;
	}
	return false;
}

/* More of it, that nobody knows of, would not change the judgement */
static bool is_settled(const struct expect_rule *r, uint64_t n)
{
	bool at_least = r->op == EXPECT_GT || r->op == EXPECT_GE || r->op == EXPECT_NE;

	return at_least ? holds(r, n) && r->op != EXPECT_NE : n > r->value;
}

void expect_judge(const char *dir, const struct expect_rule *rule, struct verdict *v)
{
	struct court c = {.rule = rule, .more = v->more, .room = sizeof(v->more)};
	const char *name = subjects[rule->subject].name;

	*v = (struct verdict){0};
	segments_of(dir, hear, &c);
	if (!c.processes)
		snprintf(v->failed, sizeof(v->failed),
			 "%s: no process%s%s opened a device", rule->text,
			 rule->process[0] ? " " : "", rule->process);
	else if (c.unknown && !is_settled(rule, c.sum))
		snprintf(v->failed, sizeof(v->failed),
			 "%s: cannot be judged: older records were overwritten (a larger "
			 "--trace has room for them)",
			 rule->text);
	else if (!holds(rule, c.sum))
		snprintf(v->failed, sizeof(v->failed), "%s: %s is %" PRIu64, rule->text,
			 name, c.sum);
}
