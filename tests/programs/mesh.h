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

#define MAX_N	  64
#define MAX_LINKS 2048 /* of a process: queue pairs to all others */
#define LONGEST	  6000 /* message; several packets of any MTU */
#define RECVS	  4

/*
 * struct who - a process, as the others see it
 * @ready:	the fields below are right
 * @dying:	it is about to be killed: its errors are no failures
 * @quiet:	it begins nothing more, and all that it began has ended
 * @kib:	its own memory, after a quarter of opt.seconds and at last
 */
struct who {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn[MAX_LINKS];
	_Atomic int ready, dying, quiet, done;
	_Atomic uint32_t sent[MAX_LINKS];
	_Atomic long kib[2];
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
	int n, base, count, gid, rounds, kills, stops, limit, qps, seconds;
	uint64_t seed;
	enum ibv_mtu mtu;
	enum how how;
	bool open_first, invalidate;
};
extern struct mesh_options opt;
extern struct shared *sh;

/*
 * A link is a queue pair to another process; number J * opt.qps + K is the Kth one to J. It is number
 * ME * opt.qps + K there.
 *
 * Layout of a process's memory: for each link what the peer WRITEs here, then what we send
 */
struct area {
	uint8_t slot[LONGEST], out[LONGEST], back[LONGEST], in[RECVS][LONGEST];
	uint64_t counter, old;
};

/*
 * struct peer - a link
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
 * @mr:		over @area, which has one for each link and @bytes
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
	size_t bytes;
	struct peer peer[MAX_LINKS];
	bool bad;
};
extern struct process p;

static inline int links(void)
{
	return opt.n * opt.qps;
}

static inline int process_of(int link)
{
	return link / opt.qps;
}

/* The number of a link at its other end */
static inline int back_of(int link)
{
	return p.me * opt.qps + link % opt.qps;
}

/* --- mesh.c ----------------------------------------------------------------------- */

/* Tell of errno, and exit */
void fatal(const char *what) __attribute__((noreturn));
void nap(unsigned int ms);
/* Is the limit over? */
bool late(void);

/* --- mesh_process.c ---------------------------------------------------------------- */

/* Tell what is wrong with a link; the process will exit with an error */
void complain(int link, const char *what, long a, long b);
struct ibv_context *open_device(void);
/* The whole life of process @me; its exit code */
int process(int me);

/* --- mesh_rounds.c ------------------------------------------------------------------ */

void post_recv(int l, unsigned int slot);
/* Did this process see the other end die, or is it told so? */
bool has_died(int l);
void begin_rounds(void);
void take_completions(void);
/* Nothing is under way, and nothing is to begin */
bool all_quiet(void);
/* All that the living sent has come */
bool all_here(void);

/* --- mesh_memory.c ------------------------------------------------------------------ */

/* Memory for all links; with opt.invalidate such that can be discarded and comes again */
void *make_area(size_t bytes);
/* Discard some pages, now and then */
void invalidate_some(void);
/* Has this process grown since it had run for a quarter of opt.seconds? */
void watch_memory(void);

/* --- mesh_kill.c -------------------------------------------------------------------- */

/* Let opt.kills processes of these end, one after the other */
void kill_some(const pid_t *pid);

/* --- mesh_chaos.c ------------------------------------------------------------------- */

/* Kill opt.kills and stop opt.stops of these, at moments that follow from opt.seed */
void chaos(const pid_t *pid);

#endif
