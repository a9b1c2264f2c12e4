/*
 * mesh_memory.c - the memory of a process of the mesh: it can be discarded under what is going on,
 * and must not become more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/splitmix.h"
#include "mesh.h"

#define PAGE	  4096u
#define AT_A_TIME 16	       /* pages */
#define ONE_IN	  32	       /* looks at completions */
#define MAY_GROW  (4096 + 256) /* KiB, see watch_memory() */

void *make_area(size_t bytes)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *m;

	/* What is discarded here is found again in the file. */
	if (opt.invalidate) {
		flags = MAP_SHARED;
		fd = memfd_create("mesh", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)bytes))
			fatal("memfd");
	}
	m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (m == MAP_FAILED)
		fatal("mmap");
	if (fd >= 0)
		close(fd);
	return m;
}

void invalidate_some(void)
{
	static uint64_t state;
	uint64_t pages = p.bytes / PAGE, first;

	if (!opt.invalidate)
		return;
	if (!state)
		state = opt.seed + (uint64_t)p.me + 1;
	if (splitmix_next(&state) % ONE_IN)
		return;
	first = splitmix_next(&state) % pages;
	pages = pages - first < AT_A_TIME ? pages - first : AT_A_TIME;
	if (madvise((char *)p.area + first * PAGE, pages * PAGE, MADV_DONTNEED))
		fatal("madvise");
}

/* KiB that are this process's own; what is discarded and comes again is no growth */
static long own_memory(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	while (f && kib < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "RssAnon: %ld", &kib);
	if (f)
		fclose(f);
	return kib;
}

/* At first all that is kept for later comes into being: buffers of sockets and of each peer */
void watch_memory(void)
{
	static time_t begun, next;
	_Atomic long *kib = sh->who[p.me].kib;
	time_t now = time(NULL);

	if (!opt.seconds || now < next)
		return;
	next = now + 1;
	if (!begun)
		begun = now;
	if (now - begun < opt.seconds / 4)
		return;
	kib[1] = own_memory();
	if (!kib[0])
		kib[0] = kib[1];
	if (kib[1] > kib[0] + kib[0] / 4 + MAY_GROW)
		complain(p.me * opt.qps, "grew, KiB", kib[0], kib[1]);
}
