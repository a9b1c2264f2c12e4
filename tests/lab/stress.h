/*
 * stress.h - the workers of stress.c: their memory and its model, and the steps that they take.
 */
#ifndef URXE_TESTS_LAB_STRESS_H
#define URXE_TESTS_LAB_STRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stress_pair.h"

#define PAGE  4096u
#define PAGES 32

/* What a page of a slot is */
enum state {
	UNMAPPED,
	NO_ACCESS,
	READ_ONLY,
	MAPPED,
};

/*
 * struct worker
 * @slot:	its memory
 * @state, @value: the model: all 64-bit words of a page hold the same
 * @buf:	pinned memory, as large, and a page more
 * @rng:	xorshift
 */
struct worker {
	unsigned int id;
	pthread_t thread;
	struct ibv_cq *cq;
	struct pair pair;
	char *slot;
	enum state state[PAGES];
	uint64_t value[PAGES];
	uint64_t *buf;
	struct ibv_mr *pinned;
	uint64_t rng;
	unsigned long steps, requests, errors, lost, of_kind[PAIR_KINDS];
};

/*
 * What the workers share
 * @whole:	one MR over all slots; @implicit: one over the address space
 */
struct stress {
	struct device dev;
	struct ibv_mr *whole, *implicit;
	uint64_t seed;
};
extern struct stress stress;

/* The pages of a step */
struct span {
	unsigned int first, n;
};

/* --- stress.c --------------------------------------------------------------------- */

/* Tell which step it was, and abort. @a, @b: what belongs to @what */
void fail(const struct worker *w, const char *what, long a, long b)
    __attribute__((noreturn));
uint64_t rnd(struct worker *w, uint64_t n);

/* --- stress_memory.c: the model, and what is done to memory ------------------------- */

struct span some_pages(struct worker *w);
char *at(const struct worker *w, unsigned int page);
/* Is each page @least or more? */
bool all(const struct worker *w, struct span s, enum state least);
/* All words of a page, and whether they are so */
void fill(uint64_t *p, uint64_t value);
void verify(const struct worker *w, const uint64_t *p, uint64_t value, const char *what,
	    unsigned int page);
/* The CPU's view against the model */
void check_pages(const struct worker *w, struct span s);

void map(struct worker *w, struct span s);
void unmap(struct worker *w, struct span s);
void protect(struct worker *w, struct span s);
void discard(struct worker *w, struct span s);
/* Pages change places with new memory from elsewhere */
void move_in(struct worker *w, struct span s);
void store(struct worker *w, struct span s);

/* --- stress_device.c: what the device does ------------------------------------------ */

/*
 * New queue pairs, with numbers of their own: what is still under way for the old ones
 * must not be taken for theirs (IBTA 9.7.1.1: ghost packets)
 */
void connect_worker(struct worker *w);
void disconnect(struct worker *w);
void reconnect(struct worker *w);

void prefetch(struct worker *w, struct span s);
void transfer(struct worker *w, struct span s);
void atomic(struct worker *w, struct span s);

#endif
