/*
 * lane.h - packets from one process to another of the same user, through memory that both
 * map.
 *
 * A lane is one direction: its producer made it, its consumer attached to it. It carries
 * packets in order, and tells when the consumer has to be woken. It knows neither what is
 * in a packet nor who the two are (port_lane.c does), and it makes no system call besides
 * those for its life.
 *
 * Theory of operation
 *
 * The memory is a ring of records, each a header and a packet, in multiples of a cache
 * line. head says how far the producer has published, tail how far the consumer has read;
 * both only grow. A record that does not fit before the end of the ring begins at its
 * start, behind a record of length 0 that says so. A packet is written in its place and
 * read there: nothing is copied in between.
 *
 * A ring that is empty anyway begins at its start again before it has used much memory, so
 * that a conversation of small messages stays in the cache.
 *
 * The memory is an anonymous file (memfd_create(2)), sealed so that it cannot shrink under
 * the other side. Its name, /proc/PID/fd/FD, is what the consumer opens; a process that
 * dies leaves nothing behind. The producer may go on writing into records that were
 * published: the consumer takes each number from the ring once, and holds it against the
 * ring's bounds before it uses it.
 */
#ifndef URXE_NET_LANE_H
#define URXE_NET_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct lane;

#define LANE_BYTES	(1u << 20) /* of the ring; power of two */
#define LANE_PACKET_MAX 8192	   /* bytes */

/*
 * lane_create - as producer. *@fd must stay open until the consumer has attached.
 * @nonce: tells the lane from what else could be at the same /proc name
 *
 * 0 or -errno (ENOSYS, EPERM: no memfd_create here; ENOMEM, EMFILE, ...)
 */
int lane_create(uint64_t nonce, struct lane **out, int *fd);

/*
 * lane_attach - as consumer, to what process @pid has as descriptor @fd. 0 or -errno;
 * -EPROTO: that is no lane, or not the one with @nonce
 */
int lane_attach(pid_t pid, int fd, uint64_t nonce, struct lane **out);
/* lane_close - and let the other side know */
void lane_close(struct lane *l);
/* lane_abandon - in a forked child: its copy is not the parent's lane */
void lane_abandon(struct lane *l);
/* Has the other side closed it? One that was killed has not. */
bool lane_deserted(const struct lane *l);

/* --- the producer ----------------------------------------------------------------- */

/* Has somebody attached? */
bool lane_attached(const struct lane *l);
/*
 * lane_reserve - room for a packet of @len bytes, at most LANE_PACKET_MAX; NULL: the ring
 * is full. What is not committed is forgotten by the next call.
 */
uint8_t *lane_reserve(struct lane *l, uint32_t len);
/* lane_commit - the packet is written; @len: as reserved */
void lane_commit(struct lane *l, uint32_t len, uint8_t tclass, uint8_t ttl,
		 uint32_t flow);
/* Bytes committed and not published */
uint32_t lane_pending(const struct lane *l);
/*
 * lane_publish - let the consumer see what was committed. True: it sleeps, wake it.
 */
bool lane_publish(struct lane *l);
/* Has the consumer not read all that was published? */
bool lane_unread(const struct lane *l);
/* How far the consumer has read, in bytes since the lane was made */
uint64_t lane_progress(const struct lane *l);

/* --- the consumer ----------------------------------------------------------------- */

/* struct lane_packet - @data: in the ring, writable, until lane_consumed() */
struct lane_packet {
	uint8_t *data;
	uint32_t len;
	uint8_t tclass, ttl;
	uint32_t flow;
};

/*
 * lane_next - the next packet: 1; 0: there is none; -EPROTO: the producer wrote nonsense,
 * and the lane must be closed
 */
int lane_next(struct lane *l, struct lane_packet *pkt);
/* Is there a packet? */
bool lane_has(const struct lane *l);
/* lane_consumed - the producer may use again what lane_next() has returned */
void lane_consumed(struct lane *l);
/*
 * lane_arm - ask to be woken when something is published. False: there is something
 * already. The request holds for one waking.
 */
bool lane_arm(struct lane *l);

#endif
