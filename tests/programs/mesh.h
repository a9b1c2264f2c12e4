/*
 * mesh.h - what the processes of a mesh share, and what each of them has.
 */
#ifndef URXE_TESTS_PROGRAMS_MESH_H
#define URXE_TESTS_PROGRAMS_MESH_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define MAX_N	64
#define LONGEST 6000 /* message; several packets of any MTU */
#define RECVS	4

/*
 * struct who - a process, as the others see it
 * @ready:	the fields below are right
 * @dying:	it is about to be killed: its errors are no failures
 * @quiet:	it begins nothing more, and all that it began has ended
 */
struct who {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn[MAX_N];
	_Atomic int ready, dying, quiet, done;
	_Atomic uint32_t sent[MAX_N];
};

/* struct shared - FILE. @kills: how many kills and stops are still to come; @stop: no new rounds */
struct shared {
	_Atomic int kills;
	_Atomic int begun;
	_Atomic int stop;
	struct who who[MAX_N];
};

enum how { BY_KILL, BY_EXIT, BY_EXEC, BY_CLOSE, BY_THREAD, BY_FORK };

/* The options, see mesh.c */
struct mesh_options {
	const char *file, *device;
	int n, base, count, gid, rounds, kills, stops, limit;
	uint64_t seed;
	enum ibv_mtu mtu;
	enum how how;
	bool open_first;
};
extern struct mesh_options opt;
extern struct shared *sh;

/* Layout of a process's memory: for each peer what it WRITEs here, then what we send */
struct area {
	uint8_t slot[LONGEST], out[LONGEST], back[LONGEST], in[RECVS][LONGEST];
	uint64_t counter, old;
};

/*
 * struct peer - a connection
 * @round:	that runs, or is next; @pending: its completions that are missing
 * @got:	SENDs that came
 * @failed:	status of the first failure
 */
struct peer {
	struct ibv_qp *qp;
	uint32_t round, got;
	unsigned int pending;
	enum ibv_wc_status failed;
};

/*
 * struct process - the one that this is
 * @ch:		of @cq
 * @mr:		over @area, which has one for each peer
 * @bad:	something failed
 */
struct process {
	int me;
	struct ibv_context *ctx;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct area *area;
	struct peer peer[MAX_N];
	bool bad;
};
extern struct process p;

/* --- mesh.c ----------------------------------------------------------------------- */

/* Tell of errno, and exit */
void fatal(const char *what) __attribute__((noreturn));
void nap(unsigned int ms);
/* Is the limit over? */
bool late(void);

/* --- mesh_process.c ---------------------------------------------------------------- */

/* Tell what is wrong with a peer; the process will exit with an error */
void complain(int peer, const char *what, long a, long b);
struct ibv_context *open_device(void);
/* The whole life of process @me; its exit code */
int process(int me);

/* --- mesh_rounds.c ------------------------------------------------------------------ */

void post_recv(int j, unsigned int slot);
/* Did this process see @j die, or is it told so? */
bool has_died(int j);
void begin_rounds(void);
void take_completions(void);
/* Nothing is under way, and nothing is to begin */
bool all_quiet(void);
/* All that the living sent has come */
bool all_here(void);

/* --- mesh_kill.c -------------------------------------------------------------------- */

/* Let opt.kills processes of these end, one after the other */
void kill_some(const pid_t *pid);

/* --- mesh_chaos.c ------------------------------------------------------------------- */

/* Kill opt.kills and stop opt.stops of these, at moments that follow from opt.seed */
void chaos(const pid_t *pid);

#endif
