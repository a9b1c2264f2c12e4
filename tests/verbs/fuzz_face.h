/*
 * fuzz_face.h - what the parts of the fuzzer share: random numbers, memory and descriptors that
 * calls may name, and the calls of each part.
 */
#ifndef URXE_TESTS_VERBS_FUZZ_FACE_H
#define URXE_TESTS_VERBS_FUZZ_FACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FDS	 24
#define CONTEXTS 3
#define RINGS	 24
#define KEYS	 8
#define LIMIT	 60 /* s, for one seed */
#define ARENA	 (1u << 20)
#define BODY	 448

/* xorshift64*, one per thread */
struct rng {
	uint64_t s;
};

struct mminfo;
struct rxe_queue_buf;

/* struct ring - of the QP, or another object, @handle of @fd */
struct ring {
	struct rxe_queue_buf *q;
	uint32_t len;
	int fd;
	uint32_t handle;
};

/*
 * What the threads share.
 * @fds:	descriptors of devices and events, -1 where there is none. The first
 *		CONTEXTS ones are contexts that live longer.
 * @rings:	mapped rings
 * @keys:	of memory regions, some of them gone
 * @arena:	memory that requests, answers and memory regions may name
 * @nowhere:	memory that may be named and is not there; @read_only likewise
 */
struct shared {
	int fds[FDS];
	struct ring *rings[RINGS];
	uint32_t keys[KEYS];
	uint8_t *arena, *nowhere, *read_only;
};
extern struct shared shared;

/* --- fuzz_values.c ---------------------------------------------------------------- */

uint64_t rnd(struct rng *r);
uint32_t below(struct rng *r, uint32_t n);
bool one_in(struct rng *r, uint32_t n);
uint32_t some_u32(struct rng *r);
/* Mostly good memory, and never any that a good request may not write to */
uint8_t *some_ptr(struct rng *r);
uint64_t ptr_bits(struct rng *r);
uint32_t some_key(struct rng *r);
int some_fd(struct rng *r);
void fill(struct rng *r, uint8_t *p, size_t len);
/* Close what a place of shared.fds has, or put @fd in one */
void drop_fd(int slot);
void keep_fd(struct rng *r, int fd);

/* --- fuzz_write.c: uverbs by write(2) --------------------------------------------- */

/* A right command; 0 or -errno */
int send_command(int fd, uint32_t cmd, const void *body, size_t len, void *resp,
		 size_t resp_len);
/* A new descriptor of the device, with a context */
int ready_context(struct rng *r);
/* A completion channel of some context */
void comp_channel(struct rng *r);
/* A memory region may only name what it may write to: make the request of @cmd one that does. */
void tame(struct rng *r, uint32_t cmd, uint8_t *body);
/* Make objects up to QPs that are connected */
void fuzz_build(struct rng *r);
void fuzz_write(struct rng *r);

/* --- fuzz_ioctl.c: uverbs by ioctl(2) --------------------------------------------- */

void fuzz_ioctl(struct rng *r);

/* --- fuzz_rings.c: memory that provider and HCA share ------------------------------ */

/* Rings that make way stay mapped: another thread may be at them. */
void map_ring(struct rng *r, int fd, uint32_t handle, const struct mminfo *mi);
void fuzz_ring(struct rng *r);
/* The handler of SIGBUS that fuzz_ring() needs */
void fuzz_ring_on_bus(int sig);

/* --- fuzz_cm.c: rdma_cm ----------------------------------------------------------- */

void fuzz_cm(struct rng *r);

/* --- fuzz_descriptors.c: descriptors and processes --------------------------------- */

void fuzz_descriptor(struct rng *r);
/* A child that goes on, starts anew, and executes something or ends */
void fuzz_fork(struct rng *r);

#endif
