/*
 * rule.c - parser of the rules; see rule.h.
 *
 * Each complaint is one line with the number of the rule, the word and where it begins in the
 * text, so that it can be found in a long list.
 */
#include "inject/rule.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/names.h"

#define HOUR_NS (3600ull * 1000000000u)

#define X(name, word, what) word,
static const char *const kind_words[] = {INJECT_KINDS(X)};
#undef X

/* struct action - a row of INJECT_ACTIONS */
struct action {
	const char *word;
	uint32_t kinds;
	enum inject_arg arg;
};
#define X(name, word, kinds, arg, what) {word, kinds, INJECT_ARG_##arg},
static const struct action actions[] = {INJECT_ACTIONS(X)};
#undef X

const char *inject_kind_word(enum inject_kind kind)
{
	return (unsigned int)kind < INJECT_N_KINDS ? kind_words[kind] : "?";
}

/*
 * struct parser
 * @text:	all of it; @word: the word that is being read
 * @number:	of the rule, from 1
 * @has:	words that it has had, a bit for each of struct word
 */
struct parser {
	const char *text, *word;
	int number;
	uint32_t has;
	char *err;
	size_t errlen;
};

static __attribute__((format(printf, 2, 3))) int complain(struct parser *p,
							  const char *fmt, ...)
{
	size_t len = strcspn(p->word, ",;\n#");
	char what[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (!p->err || !p->errlen)
		return -EINVAL;
	snprintf(p->err, p->errlen, "rule %d, byte %zu, '%.*s': %s", p->number,
		 (size_t)(p->word - p->text) + 1, len < 40 ? (int)len : 40, p->word,
		 what);
	for (char *c = p->err; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	return -EINVAL;
}

/* --- values ----------------------------------------------------------------------- */

static bool take_number(const char *s, int base, uint64_t max, uint64_t *out)
{
	char *end;

	if (base == 16 ? !isxdigit((unsigned char)*s) : !isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*out = strtoull(s, &end, base);
	return !errno && !*end && *out <= max;
}

static bool take_time(const char *s, uint64_t *ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*ns = strtoull(s, &end, 10);
	for (size_t i = 0; !errno && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) || *ns > HOUR_NS / units[i].ns)
			continue;
		*ns *= units[i].ns;
		return true;
	}
	return false;
}

static int take_name(struct parser *p, char to[INJECT_NAME], const char *v)
{
	if (!*v || strlen(v) >= INJECT_NAME)
		return complain(p, "a name has 1 to %d bytes", INJECT_NAME - 1);
	strcpy(to, v);
	return 0;
}

/* The number by which @unit calls the word @v; -1: none */
static int named(enum trace_unit unit, const char *v)
{
	for (int i = 0; i < 256; i++) {
		const char *name = trace_name(unit, (uint64_t)i);

		if (name && !strcmp(name, v))
			return i;
	}
	return -1;
}

/* --- places ----------------------------------------------------------------------- */

static bool is_packet(const char *v)
{
	return named(TRACE_OPCODE, v) >= 0 ||
	       (!strncmp(v, "CM_", 3) && named(TRACE_CM_MSG, v + 3) >= 0);
}

/* What the kind's own word may be: a name that exists, so that no rule waits in vain */
static int check_name(struct parser *p, const struct inject_rule *r)
{
	switch (r->kind) {
	case INJECT_CALL:
		return inject_call_named(r->name)
			   ? 0
			   : complain(p, "no function that can be made to fail "
					 "(urxe-inject(7) lists them)");
	case INJECT_OUT:
	case INJECT_IN:
		return is_packet(r->name)
			   ? 0
			   : complain(p, "no opcode of a packet, and no message of CM");
	case INJECT_EVENT:
		return named(TRACE_CM_EVENT, r->name) >= 0
			   ? 0
			   : complain(p, "no event of rdma_cm");
	case INJECT_COMPLETION:
		return named(TRACE_WR, r->name) >= 0
			   ? 0
			   : complain(p, "no opcode of a send request");
	case INJECT_ACCESS:
	case INJECT_FAULT:
		if (!strcmp(r->name, "read") || !strcmp(r->name, "write"))
			return 0;
		break;
	case INJECT_N_KINDS:
		break;
	}
	return complain(p, "neither read nor write");
}

static int set_kind(struct parser *p, struct inject_rule *r, const char *word,
		    const char *v)
{
	unsigned int i = 0;
	int ret;

	while (strcmp(kind_words[i], word))
		i++;
	r->kind = (enum inject_kind)i;
	if (!v)
		return 0;
	ret = take_name(p, r->name, v);
	return ret ? ret : check_name(p, r);
}

/* N, or PROGRAM[:ARGS][.NTH] */
static int set_process(struct parser *p, struct inject_rule *r, const char *v)
{
	char copy[64], *dot, *colon;
	uint64_t n;

	if (take_number(v, 10, UINT32_MAX, &n)) {
		r->start = (uint32_t)n;
		return n ? 0 : complain(p, "1 is the first process");
	}
	if (strlen(v) >= sizeof(copy))
		return complain(p, "the name is too long");
	strcpy(copy, v);
	dot = strrchr(copy, '.');
	if (dot && take_number(dot + 1, 10, UINT32_MAX, &n)) {
		*dot = '\0';
		r->nth = (uint32_t)n;
		if (!n)
			return complain(p, "1 is the first of a program's processes");
	}
	colon = strrchr(copy, ':');
	if (colon && take_number(colon + 1, 16, UINT16_MAX, &n)) {
		*colon = '\0';
		r->args = (uint32_t)n;
		r->by_args = true;
	}
	return take_name(p, r->process, copy);
}

static int set_rank(struct parser *p, struct inject_rule *r, const char *v)
{
	uint64_t n;

	if (!take_number(v, 10, INT32_MAX, &n))
		return complain(p, "no rank");
	r->rank = (int)n;
	return 0;
}

static int set_mr(struct parser *p, struct inject_rule *r, const char *v)
{
	uint64_t n;

	if (!strcmp(v, "*"))
		return 0;
	if (strncmp(v, "0x", 2))
		return take_name(p, r->object, v);
	if (!take_number(v + 2, 16, UINT32_MAX, &n))
		return complain(p, "no key of an MR");
	r->key = (uint32_t)n;
	r->by_key = true;
	return 0;
}

static int set_page(struct parser *p, struct inject_rule *r, const char *v)
{
	r->by_page = true;
	return take_number(v, 10, UINT64_MAX >> 12, &r->page)
		   ? 0
		   : complain(p, "no number of a page (0 is the first)");
}

static int set_at(struct parser *p, struct inject_rule *r, const char *v)
{
	return take_number(v, 16, UINT64_MAX, &r->stack) && r->stack
		   ? 0
		   : complain(p, "no call stack, which is a hexadecimal number");
}

static int set_thread(struct parser *p, struct inject_rule *r, const char *v)
{
	uint64_t n = 0;

	if (!take_number(v, 10, UINT32_MAX, &n) || !n)
		return complain(p, "no thread (1 is the first that makes a call)");
	r->thread = (uint32_t)n;
	return 0;
}

static int set_times(struct parser *p, struct inject_rule *r, enum inject_times times,
		     const char *v)
{
	r->times = times;
	return take_number(v, 10, UINT64_MAX, &r->n) && r->n
		   ? 0
		   : complain(p, "no count (1 is the first)");
}

static int set_n(struct parser *p, struct inject_rule *r, const char *v)
{
	return set_times(p, r, INJECT_ONCE, v);
}

static int set_from(struct parser *p, struct inject_rule *r, const char *v)
{
	return set_times(p, r, INJECT_FROM, v);
}

static int set_every(struct parser *p, struct inject_rule *r, const char *v)
{
	return set_times(p, r, INJECT_EVERY, v);
}

/* --- actions ---------------------------------------------------------------------- */

static int set_arg(struct parser *p, struct inject_rule *r, enum inject_arg arg,
		   const char *v)
{
	uint64_t n = 0;
	int e;

	switch (arg) {
	case INJECT_ARG_NONE:
		return v ? complain(p, "this action takes no value") : 0;
	case INJECT_ARG_TIME:
		return v && take_time(v, &r->time)
			   ? 0
			   : complain(p, "wants a time, at most an hour: %s:50us",
				      actions[r->action].word);
	case INJECT_ARG_NUMBER:
		if (v && !take_number(v, 10, 255, &n))
			return complain(p, "no exit code");
		r->value = (uint32_t)n;
		return 0;
	case INJECT_ARG_ASYNC:
		e = v ? named(TRACE_EVENT, v) : -1;
		r->value = (uint32_t)e;
		return e >= 0 ? 0 : complain(p, "wants an event: async:PORT_ERR");
	}
	return 0;
}

/* An error or a status, which are actions by themselves */
static bool take_word(struct inject_rule *r, const char *v)
{
	int status = named(TRACE_STATUS, v);

	r->error = inject_errno(v);
	if (r->error)
		r->action = INJECT_DO_ERRNO;
	else if (status > 0)
		r->action = INJECT_DO_STATUS;
	r->value = (uint32_t)status;
	return r->error || status > 0;
}

static int set_do(struct parser *p, struct inject_rule *r, const char *v)
{
	size_t len = strcspn(v, ":");

	if (take_word(r, v))
		return 0;
	for (unsigned int i = 0; i < INJECT_N_ACTIONS; i++) {
		if (i == INJECT_DO_ERRNO || i == INJECT_DO_STATUS ||
		    strlen(actions[i].word) != len ||
		    strncmp(actions[i].word, v, len) != 0)
			continue;
		r->action = (enum inject_do)i;
		return set_arg(p, r, actions[i].arg, v[len] ? v + len + 1 : NULL);
	}
	return complain(p, "unknown action");
}

/* --- a rule ----------------------------------------------------------------------- */

/* struct word - @group: words of one group exclude each other; @kind: may be without value */
struct word {
	const char *word;
	int (*set)(struct parser *p, struct inject_rule *r, const char *v);
	uint32_t group;
};

enum {
	G_KIND = 1,
	G_DO = 2,
	G_TIMES = 4,
	G_PROCESS = 8,
	G_RANK = 16,
	G_MR = 32,
	G_PAGE = 64,
	G_AT = 128,
	G_THREAD = 256
};

static const struct word words[] = {
    {"process", set_process, G_PROCESS},
    {"rank", set_rank, G_RANK},
    {"mr", set_mr, G_MR},
    {"page", set_page, G_PAGE},
    {"at", set_at, G_AT},
    {"thread", set_thread, G_THREAD},
    {"n", set_n, G_TIMES},
    {"from", set_from, G_TIMES},
    {"every", set_every, G_TIMES},
    {"do", set_do, G_DO},
};

static int once(struct parser *p, uint32_t group)
{
	if (p->has & group)
		return complain(p, "given twice, or against an earlier word");
	p->has |= group;
	return 0;
}

static bool is_kind(const char *word)
{
	for (unsigned int i = 0; i < INJECT_N_KINDS; i++)
		if (!strcmp(kind_words[i], word))
			return true;
	return false;
}

static int take_member(struct parser *p, struct inject_rule *r, char *member)
{
	char *v = strchr(member, '=');
	int ret;

	r->learn = !strcmp(member, "learn");
	r->reach = !strcmp(member, "packets");
	if (r->learn || r->reach)
		return p->has ? complain(p, "stands alone") : once(p, ~0u);
	if (v)
		*v++ = '\0';
	if (is_kind(member)) {
		ret = once(p, G_KIND);
		return ret ? ret : set_kind(p, r, member, v);
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].word, member))
			continue;
		ret = once(p, words[i].group);
		if (!ret && !v)
			ret = complain(p, "has no value");
		return ret ? ret : words[i].set(p, r, v);
	}
	return complain(p, "unknown word");
}

static bool gives(const struct inject_call *c, int error)
{
	for (size_t i = 0; i < sizeof(c->error) / sizeof(c->error[0]); i++)
		if (c->error[i] == error)
			return true;
	return false;
}

/* The errors that a call gives, for the complaint about another */
static int not_given(struct parser *p, const struct inject_call *c, int error)
{
	char list[80] = "";
	size_t n = 0;

	for (int i = 0; i < 4 && c->error[i] && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
				      inject_errno_name(c->error[i]));
	return complain(p, "%s does not fail with %s, only with %s", c->name,
			inject_errno_name(error), *list ? list : "nothing");
}

static bool is_of_qp(const char *event)
{
	return !strncmp(event, "QP_", 3) || !strncmp(event, "PATH_", 5) ||
	       !strcmp(event, "COMM_EST") || !strcmp(event, "SQ_DRAINED");
}

/* An event is of the device, or of the object that the call posts to. */
static int check_async(struct parser *p, const struct inject_rule *r)
{
	const char *event = trace_name(TRACE_EVENT, r->value);
	bool srq = !strncmp(event, "SRQ_", 4);
	const struct inject_call *c = inject_call_named(r->name);

	if (!strncmp(event, "CQ_", 3) || !strncmp(event, "WQ_", 3))
		return complain(p, "an event %s cannot be had", event);
	if (srq && strcmp(r->name, "ibv_post_srq_recv") != 0)
		return complain(p, "the call is about no SRQ: ibv_post_srq_recv is");
	if (is_of_qp(event) && !(c && c->qp))
		return complain(p, "the call is about no QP: ibv_post_send is");
	return 0;
}

static int check_call(struct parser *p, const struct inject_rule *r)
{
	const struct inject_call *c = r->name[0] ? inject_call_named(r->name) : NULL;

	if (c && r->action == INJECT_DO_ERRNO && !gives(c, r->error))
		return not_given(p, c, r->error);
	if (c && r->action == INJECT_DO_QP_ERROR && !c->qp)
		return complain(p, "%s is about no QP that has work", c->name);
	if ((r->action == INJECT_DO_ASYNC || r->action == INJECT_DO_LINK_DOWN) &&
	    !strncmp(r->name, "rdma_", 5))
		return complain(p, "%s is a call of no device", r->name);
	return r->action == INJECT_DO_ASYNC ? check_async(p, r) : 0;
}

static int check_event(struct parser *p, const struct inject_rule *r)
{
	bool request = !strcmp(r->name, "CONNECT_REQUEST");

	if (r->action == INJECT_DO_REJECT && r->name[0] && !request)
		return complain(p, "only a CONNECT_REQUEST can be rejected");
	if (r->action == INJECT_DO_DISCONNECT && r->name[0] &&
	    strcmp(r->name, "ESTABLISHED") != 0)
		return complain(p, "only what is ESTABLISHED can be disconnected");
	return 0;
}

/* Does it fit together? */
static int check(struct parser *p, const struct inject_rule *r)
{
	uint32_t places = p->has & (G_MR | G_PAGE);

	if (r->learn || r->reach)
		return 0;
	if (!(p->has & G_KIND))
		return complain(p, "the rule has no kind (call, access, fault, out, in, "
				   "event, completion)");
	if (!(p->has & G_DO))
		return complain(p, "the rule has no do=");
	if (!(actions[r->action].kinds & 1u << r->kind))
		/* a rule with G_KIND has one of the table */
		/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
		return complain(p, "the action does not fit the kind '%s'",
				kind_words[r->kind]);
	if (places && !(INJECT_MEMORY & 1u << r->kind))
		return complain(p, "mr= and page= are of accesses and faults");
	if ((p->has & G_AT) && r->kind != INJECT_CALL)
		return complain(p, "at= is of calls");
	if ((p->has & G_THREAD) && r->kind != INJECT_CALL)
		return complain(p, "thread= is of calls");
	if (r->kind == INJECT_CALL)
		return check_call(p, r);
	return r->kind == INJECT_EVENT ? check_event(p, r) : 0;
}

/* Blanks at the end of a word, before a comment or the end of a line */
static size_t trailing_blanks(const char *s, size_t n)
{
	size_t blanks = 0;

	while (blanks < n && isspace((unsigned char)s[n - 1 - blanks]))
		blanks++;
	return blanks;
}

static int parse_rule(struct parser *p, struct inject_rule *r, const char *text,
		      size_t len)
{
	char member[96];
	int ret = 0;

	*r = (struct inject_rule){.rank = -1, .n = 1};
	p->has = 0;
	for (const char *at = text; at < text + len && !ret;) {
		size_t n = strcspn(at, ",;\n#");

		p->word = at;
		if (n >= sizeof(member))
			return complain(p, "the word is too long");
		memcpy(member, at, n);
		member[n] = '\0';
		member[n - trailing_blanks(member, n)] = '\0';
		ret = take_member(p, r, member);
		at += n + (at[n] == ',');
	}
	p->word = ret ? p->word : text;
	return ret ? ret : check(p, r);
}

int inject_parse(const char *text, struct inject_rule *rule, int max, char *err,
		 size_t errlen)
{
	struct parser p = {.text = text, .word = text, .err = err, .errlen = errlen};
	struct inject_rule one;
	int n = 0, ret = 0;

	if (strlen(text) >= INJECT_TEXT_MAX) {
		p.word = "";
		return complain(&p, "all rules have more than %d bytes", INJECT_TEXT_MAX);
	}
	while (*text && !ret) {
		size_t len;

		text += strspn(text, " \t");
		len = strcspn(text, ";\n#");
		p.word = text;
		p.number = n + 1;
		if (len && n == max)
			return complain(&p, "more than %d rules", max);
		if (len) {
			ret = parse_rule(&p, rule ? &rule[n] : &one, text, len);
			n++;
		}
		text += len;
		text += *text == '#' ? strcspn(text, "\n") : *text != '\0';
	}
	return ret ? ret : n;
}
