/*
 * cm_world.h - two CMs and a network between them that loses, doubles and reorders messages by a
 * seed, for the tests of the protocol.
 */
#ifndef URXE_TESTS_CM_CM_WORLD_H
#define URXE_TESTS_CM_CM_WORLD_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/cm_conn.h"
#include "tests/check_main.h"

#define MS	  1000000u
#define SERVICE	  0x01061234u
#define IN_FLIGHT 4096

struct packet {
	uint64_t at;
	int to;
	struct net_path path;
	uint8_t mad[CM_MAD_LEN];
};

/*
 * struct peer - an owner of a CM that does what the test says and counts what it hears
 * @answer:	what to do with a request
 * @delay:	answer requests only after this time
 */
struct peer {
	struct world *w;
	int index;
	struct emu_cm *cm;
	struct emu_cm_port port;
	struct emu_cm_counters counters;
	enum { ACCEPT, REJECT, NOBODY, BUSY, WAIT } answer;
	struct emu_cm_conn *conn[64];
	unsigned int n_conn, n_replies;
	unsigned int requests, reps, established, rejects, disconnects, errors, exits,
	    sidr;
	unsigned int last_reason;
	uint32_t last_qpn;
};

struct world {
	uint64_t now;
	uint64_t rng;
	unsigned int loss, dup, reorder; /* percent */
	struct packet flight[IN_FLIGHT];
	unsigned int n_flight;
	unsigned int sent[CM_SIDR_REP + 1];
	unsigned int drop_attr, drop_count; /* lose the next so many of one kind */
	struct peer peer[2];
};

static const struct net_path path_ab = {
    .src = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
    .dst = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
    .ttl = 64,
    .tclass = 8};

/* Two peers that have nothing yet; peer 0 asks, peer 1 is asked */
struct world *world_new(uint64_t seed);
/* Release all that is left, see that nothing remains of it, and free the world */
void world_end(struct world *w);
/* A process dies without a word, and another one gets its slot */
void world_reborn(struct world *w, int index);
/* Time passes until @until, or until nothing is to come (if that is 0). */
void world_run(struct world *w, uint64_t until);
/* Run for @ms, in small steps in which owners act on what they have got. */
void live(struct world *w, unsigned int ms);
/* What peer 0 asks for */
struct emu_cm_req request(uint32_t qpn);
/* Peer 0 asks for a connection of its QP @qpn */
struct emu_cm_conn *start(struct world *w, uint32_t qpn);
/* A number below @n, from the seed */
unsigned int rnd(struct world *w, unsigned int n);

#endif
