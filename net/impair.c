/*
 * impair.c - a bad network on purpose; see impair.h.
 *
 * Theory of operation
 *
 * Each direction draws from its own generator, always the same number of times for a
 * packet, so that what one direction or one setting does leaves the others' choices
 * alone. A packet gets a time of release: now, plus delay and jitter, behind what the
 * rate still has to send. Packets wait in a list ordered by that time; jitter never lets
 * one pass its predecessor. One that is to be reordered is held back until a number of
 * successors went by; where nothing follows, a short time frees it.
 *
 * The rules of inject/ are asked first, and draw nothing. A packet that they delay waits in a
 * list of its own (late), so that others pass it.
 */
#include "base/text.h"
#include "net/impair.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/splitmix.h"
#include "inject/inject.h"
#include "net/rocev2.h"
#include "trace/names.h"

#define HELD_NS	    1000000ull /* a reordered packet without successors comes anyway */
#define HELD_PASSES 3	       /* at most so many successors pass it */
#define QUEUE_MAX   65536      /* packets that wait; more are lost, like in any queue */

/* A probability of 1, as the generator's numbers are compared with it */
#define ONE (1ull << 32)

/*
 * struct rules - the settings of one direction
 * @loss, @dup, @reorder, @corrupt: probability times ONE
 * @delay, @jitter: ns; @rate: bits per second, 0: no limit
 */
struct rules {
	uint64_t loss, dup, reorder, corrupt;
	uint64_t delay, jitter;
	uint64_t rate;
};

struct config {
	struct rules dir[2];
	uint64_t seed;
};

/* struct waiting - a packet until its time; its bytes are behind it */
struct waiting {
	struct waiting *next;
	uint64_t due;
	struct impair_pkt pkt;
	uint8_t bytes[];
};

/*
 * struct line - one direction at work
 * @first, @last: waiting packets by @due
 * @held:	the packet that others pass, and how many may still do so
 * @busy:	the rate's line is busy until then
 * @latest:	due of the last packet: jitter keeps the order
 * @late:	packets that rules delay, by @due
 * @lost:	packets that vanished
 */
struct line {
	bool active;
	struct rules rules;
	uint64_t rng;
	struct waiting *first, **last;
	unsigned int queued;
	struct waiting *held;
	unsigned int passes;
	uint64_t busy;
	uint64_t latest;
	struct waiting *late;
	uint64_t lost;
};

/* struct impair - @ruled: there are rules for packets */
struct impair {
	impair_out out;
	void *arg;
	bool ruled;
	struct line line[2];
};

/* --- the settings ----------------------------------------------------------------- */

static int complain(char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err && errlen) {
		vsnprintf(err, errlen, fmt, ap);
		text_make_line(err);
	}
	va_end(ap);
	return -EINVAL;
}

/* struct unit - a suffix and what it multiplies by */
struct unit {
	const char *suffix;
	double factor;
};

static const struct unit percent[] = {{"%", (double)ONE / 100}, {NULL, 0}};
static const struct unit times[] = {
    {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const struct unit rates[] = {
    {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {NULL, 0}};
static const struct unit numbers[] = {{"", 1}, {NULL, 0}};

/* struct setting - @field: offset in struct rules, or -1 for the seed */
static const struct setting {
	const char *name;
	int field;
	const struct unit *units;
	double max;
	const char *like;
} settings[] = {
    {"loss", offsetof(struct rules, loss), percent, (double)ONE, "1%"},
    {"dup", offsetof(struct rules, dup), percent, (double)ONE, "1%"},
    {"reorder", offsetof(struct rules, reorder), percent, (double)ONE, "1%"},
    {"corrupt", offsetof(struct rules, corrupt), percent, (double)ONE, "1%"},
    {"delay", offsetof(struct rules, delay), times, 60e9, "50us"},
    {"jitter", offsetof(struct rules, jitter), times, 60e9, "50us"},
    {"rate", offsetof(struct rules, rate), rates, 1e15, "1gbit"},
    {"seed", -1, numbers, 9e15, "7"},
};

static bool to_number(const char *text, const struct setting *s, uint64_t *out)
{
	const struct unit *u;
	double v = 0, place = 1;

	if (*text < '0' || *text > '9')
		return false;
	/* not strtod(), which has signs, hexadecimals, infinities and a locale */
	for (; *text >= '0' && *text <= '9'; text++)
		v = v * 10 + (*text - '0');
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++)
			v += (*text - '0') * (place /= 10);
	for (u = s->units; u->suffix; u++)
		if (!strcmp(text, u->suffix)) {
			v *= u->factor;
			*out = (uint64_t)v;
			return v <= s->max;
		}
	return false;
}

static const struct setting *find_setting(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (!strcmp(settings[i].name, name))
			return &settings[i];
	return NULL;
}

static void set_rule(struct config *c, const struct setting *s, int dirs, uint64_t value)
{
	int d;

	if (s->field < 0)
		c->seed = value;
	for (d = 0; s->field >= 0 && d < 2; d++)
		if (dirs >> d & 1)
			*(uint64_t *)((char *)&c->dir[d] + s->field) = value;
}

static int parse_setting(struct config *c, char *item, char *err, size_t errlen)
{
	char *value = strchr(item, '='), *name = item;
	const struct setting *s;
	int dirs = 3;
	uint64_t v;

	if (!value)
		return complain(err, errlen,
				"impairment \"%s\" is not of the form name=value", item);
	*value++ = 0;
	if (!strncmp(name, "tx.", 3) || !strncmp(name, "rx.", 3)) {
		dirs = name[0] == 't' ? 1 << IMPAIR_TX : 1 << IMPAIR_RX;
		name += 3;
	}
	s = find_setting(name);
	if (!s || (s->field < 0 && dirs != 3))
		return complain(
		    err, errlen,
		    "unknown impairment \"%s\" (known: loss, dup, reorder, corrupt, "
		    "delay, jitter, rate, seed; tx. or rx. in front)",
		    item);
	if (!to_number(value, s, &v) || (s->units == rates && !v))
		return complain(err, errlen, "impairment %s=%s: want a value like %s",
				item, value, s->like);
	set_rule(c, s, dirs, v);
	return 0;
}

static int parse(const char *text, struct config *c, char *err, size_t errlen)
{
	char copy[1024], *save = NULL, *item;
	int ret = 0;

	*c = (struct config){.seed = 1};
	if (!*text)
		return complain(err, errlen, "the impairment is empty");
	if (strlen(text) >= sizeof(copy))
		return complain(err, errlen, "the impairment is too long");
	strcpy(copy, text);
	for (item = strtok_r(copy, ",", &save); item && !ret;
	     item = strtok_r(NULL, ",", &save))
		ret = parse_setting(c, item, err, errlen);
	return ret;
}

int impair_check(const char *text, char *err, size_t errlen)
{
	struct config c;

	return parse(text, &c, err, errlen);
}

/* --- at work ---------------------------------------------------------------------- */

static bool chance(struct line *l, uint64_t probability)
{
	return splitmix_next(&l->rng) >> 32 < probability;
}

int impair_open(const char *text, impair_out out, void *arg, struct impair **pim)
{
	struct impair *im;
	struct config c;
	int d, ret;

	c = (struct config){.seed = 1};
	ret = text ? parse(text, &c, NULL, 0) : 0;
	if (ret)
		return ret;
	im = calloc(1, sizeof(*im));
	if (!im)
		return -ENOMEM;
	im->out = out;
	im->arg = arg;
	im->ruled = inject_on_any(INJECT_PACKETS);
	for (d = 0; d < 2; d++) {
		im->line[d].rules = c.dir[d];
		im->line[d].rng = c.seed * 2 + (uint64_t)d;
		im->line[d].last = &im->line[d].first;
		im->line[d].active = im->ruled || memcmp(&c.dir[d], &(struct rules){0},
							 sizeof(struct rules)) != 0;
	}
	*pim = im;
	return 0;
}

void impair_close(struct impair *im)
{
	struct waiting *w;
	int d;

	if (!im)
		return;
	for (d = 0; d < 2; d++) {
		free(im->line[d].held);
		while ((w = im->line[d].first)) {
			im->line[d].first = w->next;
			free(w);
		}
		while ((w = im->line[d].late)) {
			im->line[d].late = w->next;
			free(w);
		}
	}
	free(im);
}

bool impair_is_ruled(const struct impair *im)
{
	return im && im->ruled;
}

bool impair_has(const struct impair *im, enum impair_dir dir)
{
	return im && im->line[dir].active;
}

static struct waiting *keep(const struct impair_pkt *pkt, uint64_t due)
{
	struct waiting *w = malloc(sizeof(*w) + pkt->len);

	if (!w)
		return NULL;
	w->next = NULL;
	w->due = due;
	w->pkt = *pkt;
	w->pkt.data = w->bytes;
	memcpy(w->bytes, pkt->data, pkt->len);
	return w;
}

/* Send what waited; the list never holds a packet that is due before its predecessor */
static void release(struct impair *im, enum impair_dir dir, uint64_t now)
{
	struct line *l = &im->line[dir];
	struct waiting *w;

	while ((w = l->first) && w->due <= now) {
		l->first = w->next;
		if (!l->first)
			l->last = &l->first;
		l->queued--;
		im->out(im->arg, dir, &w->pkt);
		free(w);
	}
}

static void queue(struct line *l, struct waiting *w)
{
	if (!w)
		return;
	if (l->queued >= QUEUE_MAX) {
		free(w);
		return;
	}
	l->queued++;
	*l->last = w;
	l->last = &w->next;
}

/* When a packet that enters the line now leaves it */
static uint64_t due_time(struct line *l, uint64_t now, uint32_t len, uint64_t random)
{
	uint64_t due = now;

	if (l->rules.rate) {
		due = l->busy > now ? l->busy : now;
		due += (uint64_t)((double)len * 8e9 / (double)l->rules.rate);
		l->busy = due;
	}
	due += l->rules.delay;
	if (l->rules.jitter)
		due += random % l->rules.jitter;
	if (due < l->latest)
		due = l->latest;
	l->latest = due;
	return due;
}

/* Now or later */
static void emit(struct impair *im, enum impair_dir dir, uint64_t now, struct waiting *w)
{
	if (w->due > now) {
		queue(&im->line[dir], w);
		return;
	}
	im->out(im->arg, dir, &w->pkt);
	free(w);
}

/* The packet that was held back has been passed often enough, or for long enough */
static void let_held_go(struct impair *im, enum impair_dir dir, uint64_t now)
{
	struct line *l = &im->line[dir];
	struct waiting *w = l->held;

	l->held = NULL;
	w->due = l->latest > now ? l->latest : now;
	emit(im, dir, now, w);
}

/* --- rules ------------------------------------------------------------------------ */

/* Offset of a management datagram's attribute ID, behind BTH and DETH (IBTA 13.4.2) */
#define MAD_ATTR (ROCE_BTH_LEN + 8 + 16)

/* What rules call a packet: a message of CM, or its opcode */
static const char *packet_name(const struct impair_pkt *pkt, char text[INJECT_NAME])
{
	const uint8_t *d = pkt->data;
	const char *name = NULL;

	if (pkt->len >= MAD_ATTR + 2 && !d[5] && !d[6] && d[7] == 1)
		name = trace_name(TRACE_CM_MSG,
				  (uint64_t)d[MAD_ATTR] << 8 | d[MAD_ATTR + 1]);
	if (name) {
		snprintf(text, INJECT_NAME, "CM_%s", name);
		return text;
	}
	name = pkt->len ? trace_name(TRACE_OPCODE, d[0]) : NULL;
	return name ? name : "";
}

static void keep_late(struct line *l, const struct impair_pkt *pkt, uint64_t due)
{
	struct waiting *w = keep(pkt, due), **p = &l->late;

	if (!w)
		return;
	while (*p && (*p)->due <= due)
		p = &(*p)->next;
	w->next = *p;
	*p = w;
}

static void let_late_go(struct impair *im, enum impair_dir dir, uint64_t now)
{
	struct line *l = &im->line[dir];
	struct waiting *w;

	while ((w = l->late) && w->due <= now) {
		l->late = w->next;
		im->out(im->arg, dir, &w->pkt);
		free(w);
	}
}

/*
 * Ask about a packet. False: it does not go on. The bit that is flipped is one of the middle,
 * where payload is, if there is any.
 */
static bool obey_rules(struct impair *im, enum impair_dir dir, uint64_t now,
		       struct impair_pkt *pkt, bool *twice)
{
	char text[INJECT_NAME];
	const struct inject_point p = {.kind = dir == IMPAIR_TX ? INJECT_OUT : INJECT_IN,
				       .name = packet_name(pkt, text),
				       .object = ""};
	struct inject_what what;

	if (!inject_on(p.kind) || !inject_ask(&p, &what))
		return true;
	if (what.action == INJECT_DO_LOSE) {
		im->line[dir].lost++;
		return false;
	}
	if (what.action == INJECT_DO_DELAY) {
		keep_late(&im->line[dir], pkt, now + what.time);
		return false;
	}
	*twice |= what.action == INJECT_DO_DOUBLE;
	if (what.action == INJECT_DO_DAMAGE)
		pkt->flip = (int32_t)(pkt->len * 4u);
	return true;
}

void impair_feed(struct impair *im, enum impair_dir dir, uint64_t now,
		 struct impair_pkt *pkt)
{
	struct line *l = &im->line[dir];
	bool lost = chance(l, l->rules.loss), twice = chance(l, l->rules.dup);
	bool late = chance(l, l->rules.reorder), bad = chance(l, l->rules.corrupt);
	uint64_t jitter = splitmix_next(&l->rng), bit = splitmix_next(&l->rng),
		 passes = splitmix_next(&l->rng), due;
	struct waiting *copy;

	release(im, dir, now);
	pkt->flip = bad ? (int32_t)(bit % (pkt->len * 8ull)) : -1;
	if (im->ruled && !obey_rules(im, dir, now, pkt, &twice))
		return;
	if (lost) {
		l->lost++;
		return;
	}
	due = due_time(l, now, pkt->len, jitter);
	if (late && !l->held) {
		l->held = keep(pkt, now + HELD_NS);
		l->passes = 1 + (unsigned int)(passes % HELD_PASSES);
		return;
	}
	/* copied before, because the receiver may write into a packet */
	copy = twice ? keep(pkt, due) : NULL;
	if (due <= now)
		im->out(im->arg, dir, pkt);
	else
		queue(l, keep(pkt, due));
	if (copy)
		emit(im, dir, now, copy);
	if (l->held && --l->passes == 0)
		let_held_go(im, dir, now);
}

uint64_t impair_lost(const struct impair *im, enum impair_dir dir)
{
	return im->line[dir].lost;
}

uint64_t impair_run(struct impair *im, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct line *l;
	int d;

	for (d = 0; d < 2; d++) {
		l = &im->line[d];
		release(im, d, now);
		let_late_go(im, d, now);
		if (l->held && l->held->due <= now)
			let_held_go(im, d, now);
		if (l->late && l->late->due < next)
			next = l->late->due;
		if (l->held && l->held->due < next)
			next = l->held->due;
		if (l->first && l->first->due < next)
			next = l->first->due;
	}
	return next;
}
