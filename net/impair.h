/*
 * impair.h - a bad network on purpose: loss, duplication, reordering, corruption, delay,
 * rate.
 *
 * Decides what becomes of each packet, from a seed: the same packets in the same order
 * meet the same fate. Keeps packets that are late. Knows nothing of sockets.
 */
#ifndef URXE_NET_IMPAIR_H
#define URXE_NET_IMPAIR_H

#include <stddef.h>
#include <stdint.h>

#include "net/path.h"

struct impair;

enum impair_dir { IMPAIR_TX, IMPAIR_RX };

/*
 * The syntax of `urxe run --impair`: settings separated by commas, each for both
 * directions or, with the prefix "tx." or "rx.", for one.
 *
 *	loss=1%		packets that vanish
 *	dup=0.5%	packets that come twice
 *	reorder=5%	packets that come after up to three of their successors
 *	corrupt=0.1%	packets with one bit flipped
 *	delay=50us	later by this much (ns, us, ms, s)
 *	jitter=10us	and by up to this much more, at random; keeps the order
 *	rate=1gbit	bits per second (bit, kbit, mbit, gbit)
 *	seed=7		of the random numbers, for both directions
 *
 * impair_check - 0, or -EINVAL and one line in @err
 */
int impair_check(const char *text, char *err, size_t errlen);

/*
 * struct impair_pkt - a packet after its fate was decided
 * @local:	of struct net_rx; unused on transmit
 * @flip:	the bit that is to be flipped, -1 for none; it is for the receiver of the
 *		packet to do so, because the ICRC may not be there yet
 */
struct impair_pkt {
	struct net_path path;
	struct net_ip local;
	uint8_t *data;
	uint32_t len;
	int32_t flip;
};
typedef void (*impair_out)(void *arg, enum impair_dir dir, const struct impair_pkt *pkt);

/*
 * impair_open - @out gets the packets that live. @text NULL: only what the rules of inject/
 * do, which are asked about each packet if there are some for packets now. 0, -EINVAL or
 * -ENOMEM
 */
int impair_open(const char *text, impair_out out, void *arg, struct impair **im);
void impair_close(struct impair *im);
/* Are the rules of inject/ asked? */
bool impair_is_ruled(const struct impair *im);
bool impair_has(const struct impair *im, enum impair_dir dir);

/*
 * impair_feed - a packet comes; @pkt->flip is set here. Its bytes are copied if it must
 * wait.
 */
void impair_feed(struct impair *im, enum impair_dir dir, uint64_t now,
		 struct impair_pkt *pkt);

/* impair_lost - packets that have vanished up to now */
uint64_t impair_lost(const struct impair *im, enum impair_dir dir);

/* impair_run - let go of packets that are due. When the next one is; UINT64_MAX */
uint64_t impair_run(struct impair *im, uint64_t now);

#endif
