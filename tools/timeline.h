/*
 * timeline.h - the records of several traces in one order of time.
 *
 * Processes of one host share its monotonic clock. Of several hosts the clocks are aligned by
 * packets that one sent and the other received (clocks.h).
 *
 *	struct timeline *tl = timeline_open(traces, n);
 *	struct moment m;
 *
 *	while (timeline_next(tl, &m))
 *		use(&m.r, m.time, m.from);
 *	timeline_close(tl);
 */
#ifndef URXE_TOOLS_TIMELINE_H
#define URXE_TOOLS_TIMELINE_H

#include "tools/clocks.h"
#include "trace/reader.h"

struct timeline;

/* struct moment - a record of trace number @from, at @time (ns) of the clock that all share */
struct moment {
	struct trace_record r;
	uint64_t time;
	int from;
};

/* The traces stay the caller's, and are read from their beginning. NULL: no memory */
struct timeline *timeline_open(struct trace_reader **t, int n);
void timeline_close(struct timeline *tl);
/* One more trace, with the clock of its host as far as that is known; 0 or -ENOMEM */
int timeline_add(struct timeline *tl, struct trace_reader *t);
/* timeline_next - false: there is none, for now: after trace_reload() there may be */
bool timeline_next(struct timeline *tl, struct moment *m);
/* A time of trace @i on the common clock, and back */
uint64_t timeline_time(const struct timeline *tl, int i, uint64_t time);
uint64_t timeline_own_time(const struct timeline *tl, int i, uint64_t common);

/*
 * struct timeline_clock - that of a trace's host, and how it was fitted to the common one
 * @host:	the first trace of that host
 * @known:	by what
 * @moved:	ns, since packets said so
 * @rate:	by which it runs too fast
 * @margin:	see struct clock_fit
 * @against:	the trace of the host with which it was compared
 */
struct timeline_clock {
	int host;
	enum clocks_known known;
	int64_t moved, margin;
	double rate;
	int against;
};
const struct timeline_clock *timeline_clock(const struct timeline *tl, int i);

#endif
