/*
 * clocks.h - how far the clocks of two hosts are apart, from packets that one sent and the other
 * received.
 *
 * A packet cannot arrive before it left. So one from here to there bounds from above how far the clock
 * there is ahead, one back bounds it from below. Between these bounds lies a line, as crystals run at
 * rates that differ: that with most room on both sides is taken.
 */
#ifndef URXE_TOOLS_CLOCKS_H
#define URXE_TOOLS_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* struct clock_sample - at @time of the clock there, @bound of how far it is ahead (ns) */
struct clock_sample {
	int64_t time, bound;
};

/*
 * struct clock_bounds - samples of packets there (@above) and back (@below)
 * @room:	of each array
 */
struct clock_bounds {
	struct clock_sample *above, *below;
	size_t n_above, n_below, room_above, room_below;
};

/*
 * enum clocks_known
 * CLOCKS_SAME: it is the clock of the first trace
 * CLOCKS_BOTH: packets both ways bound it
 * CLOCKS_ONE_WAY: packets one way only
 * CLOCKS_WALL: no packet tells, the wall clocks are believed
 */
enum clocks_known { CLOCKS_SAME, CLOCKS_BOTH, CLOCKS_ONE_WAY, CLOCKS_WALL };

/*
 * struct clock_fit - at @origin the clock there is @ahead (ns), and becomes more so by @rate
 * @margin:	half the room between the bounds (ns); negative: they contradict each other, as after a
 *		step of the clock
 */
struct clock_fit {
	enum clocks_known known;
	int64_t origin, ahead, margin;
	double rate;
};

/* False: no memory */
bool clocks_above(struct clock_bounds *b, int64_t time, int64_t bound);
bool clocks_below(struct clock_bounds *b, int64_t time, int64_t bound);
void clocks_fit(const struct clock_bounds *b, struct clock_fit *out);
void clocks_free(struct clock_bounds *b);

#endif
