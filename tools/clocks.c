/*
 * clocks.c - see clocks.h.
 *
 * The room that a line of a given rate has between the bounds is a concave function of the rate: it
 * has one maximum, which a search by thirds finds. Of many samples only the tightest of each of
 * BUCKETS spans of time matter.
 *
 * A rate is told only if it makes more room than clocks that run alike would have: over a short time,
 * or where packets take long, no rate can be told, and a wrong one would grow with the time.
 *
 * Must not know: records.
 */
#include "tools/clocks.h"

#include <stdlib.h>

#define BUCKETS	   256
#define MAX_RATE   1e-3 /* more than crystals and NTP's slewing do together */
#define STEPS	   120	/* of the search: each leaves two thirds */
#define WORTH_NS   1000 /* a rate must make so much more room, and a tenth */
#define NO_SAMPLES (INT64_MAX / 4)

static bool add(struct clock_sample **s, size_t *n, size_t *room, int64_t time,
		int64_t bound)
{
	size_t want = *room ? 2 * *room : 256;
	struct clock_sample *more;

	if (*n == *room) {
		more = realloc(*s, want * sizeof(*more));
		if (!more)
			return false;
		*s = more;
		*room = want;
	}
	(*s)[(*n)++] = (struct clock_sample){time, bound};
	return true;
}

bool clocks_above(struct clock_bounds *b, int64_t time, int64_t bound)
{
	return add(&b->above, &b->n_above, &b->room_above, time, bound);
}

bool clocks_below(struct clock_bounds *b, int64_t time, int64_t bound)
{
	return add(&b->below, &b->n_below, &b->room_below, time, bound);
}

void clocks_free(struct clock_bounds *b)
{
	free(b->above);
	free(b->below);
	*b = (struct clock_bounds){0};
}

/* --- the tightest bounds ---------------------------------------------------------- */

/* struct tight - of each span of time the tightest bound, if there is any; times from the origin */
struct tight {
	struct clock_sample above[BUCKETS], below[BUCKETS];
	bool has_above[BUCKETS], has_below[BUCKETS];
};

static void span_of(const struct clock_sample *s, size_t n, int64_t *first, int64_t *last)
{
	for (size_t i = 0; i < n; i++) {
		*first = s[i].time < *first ? s[i].time : *first;
		*last = s[i].time > *last ? s[i].time : *last;
	}
}

static void tighten(const struct clock_bounds *b, int64_t first, int64_t last,
		    int64_t origin, struct tight *t)
{
	uint64_t width = ((uint64_t)last - (uint64_t)first) / BUCKETS + 1;

	for (size_t i = 0; i < b->n_above; i++) {
		size_t k = ((uint64_t)b->above[i].time - (uint64_t)first) / width;

		if (t->has_above[k] && t->above[k].bound <= b->above[i].bound)
			continue;
		t->has_above[k] = true;
		t->above[k] =
		    (struct clock_sample){b->above[i].time - origin, b->above[i].bound};
	}
	for (size_t i = 0; i < b->n_below; i++) {
		size_t k = ((uint64_t)b->below[i].time - (uint64_t)first) / width;

		if (t->has_below[k] && t->below[k].bound >= b->below[i].bound)
			continue;
		t->has_below[k] = true;
		t->below[k] =
		    (struct clock_sample){b->below[i].time - origin, b->below[i].bound};
	}
}

/* --- a line between them ---------------------------------------------------------- */

/* How far the clock may be ahead at the origin, if its rate is @rate */
static void limits(const struct tight *t, double rate, double *low, double *high)
{
	*low = -(double)NO_SAMPLES;
	*high = (double)NO_SAMPLES;
	for (int k = 0; k < BUCKETS; k++) {
		double at;

		if (t->has_above[k]) {
			at = (double)t->above[k].bound - rate * (double)t->above[k].time;
			*high = at < *high ? at : *high;
		}
		if (t->has_below[k]) {
			at = (double)t->below[k].bound - rate * (double)t->below[k].time;
			*low = at > *low ? at : *low;
		}
	}
}

static double room(const struct tight *t, double rate)
{
	double low, high;

	limits(t, rate, &low, &high);
	return (high - low) / 2;
}

static double best_rate(const struct tight *t)
{
	double a = -MAX_RATE, b = MAX_RATE;

	for (int i = 0; i < STEPS; i++) {
		double third = (b - a) / 3;

		if (room(t, a + third) < room(t, b - third))
			a += third;
		else
			b -= third;
	}
	return (a + b) / 2;
}

static void fit_line(const struct clock_bounds *b, struct clock_fit *out)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	struct tight *t = calloc(1, sizeof(*t));
	double low, high, rate, more;

	if (!t)
		return;
	span_of(b->above, b->n_above, &first, &last);
	span_of(b->below, b->n_below, &first, &last);
	out->origin = first + (last - first) / 2;
	tighten(b, first, last, out->origin, t);
	rate = best_rate(t);
	more = room(t, rate) - room(t, 0);
	if (more > WORTH_NS && more > room(t, rate) / 10)
		out->rate = rate;
	limits(t, out->rate, &low, &high);
	out->ahead = (int64_t)((low + high) / 2);
	out->margin = (int64_t)((high - low) / 2);
	free(t);
}

/* Packets one way: the clock is believed as far as none arrives before it left. */
static void fit_one_way(const struct clock_bounds *b, struct clock_fit *out)
{
	for (size_t i = 0; i < b->n_above; i++)
		if (b->above[i].bound < out->ahead)
			out->ahead = b->above[i].bound;
	for (size_t i = 0; i < b->n_below; i++)
		if (b->below[i].bound > out->ahead)
			out->ahead = b->below[i].bound;
}

void clocks_fit(const struct clock_bounds *b, struct clock_fit *out)
{
	*out = (struct clock_fit){.known = b->n_above && b->n_below   ? CLOCKS_BOTH
					   : b->n_above || b->n_below ? CLOCKS_ONE_WAY
								      : CLOCKS_WALL};
	if (out->known == CLOCKS_BOTH)
		fit_line(b, out);
	else
		fit_one_way(b, out);
}
