/*
 * checker.h - where the checker of a run (check/) is joined to the HCA.
 *
 * It is a library of its own, which is loaded with --check only, and attaches itself when it is
 * loaded. Without it nothing here is called. What the HCA does it hears as records
 * (recorder_tell()); what the program does to its memory, and which contexts of
 * libibverbs there are, it is told here.
 */
#ifndef URXE_VERBS_ENGINE_CHECKER_H
#define URXE_VERBS_ENGINE_CHECKER_H

#include <infiniband/verbs.h>

#include "trace/recorder.h"

/* What the program does to a range of its memory */
enum checker_change {
	CHECKER_UNMAP,	  /* munmap(2), mremap(2), shmdt(2) */
	CHECKER_REPLACE,  /* a mapping in its place */
	CHECKER_DISCARD,  /* madvise(2) that gives the pages up */
	CHECKER_DONTFORK, /* MADV_DONTFORK */
};

/*
 * struct checker
 * @kinds:	records that it wants, a bit for each
 * @record:	with the engine's lock, in the thread to which it happens
 * @context:	a context of an emulated device is complete; no lock is held
 * @memory:	no lock is held
 */
struct checker {
	uint64_t kinds;
	recorder_sink *record;
	void (*context)(struct ibv_context *context);
	void (*memory)(enum checker_change what, const void *addr, size_t len);
};

/* NULL: there is none */
const struct checker *checker_get(void);

/* Before a device is opened; @c stays valid for ever. */
void checker_attach(const struct checker *c);

#endif
