/*
 * corpus.c - runs one program of the corpus.
 *
 * usage: corpus --list | corpus --watch (0: the CPU tells of accesses) | corpus ID FORM wrong|right
 */
#include "corpus.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct program *const lists[] = {
    completion_programs, object_programs, buffer_programs, frame_programs,
    peer_programs,	 read_programs,	  memory_programs, right_programs};

/* As the checker does it */
static bool can_watch(void)
{
	static uint64_t place;
	struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT,
				       .size = sizeof(attr),
				       .sample_period = 1,
				       .exclude_kernel = 1,
				       .exclude_hv = 1,
				       .bp_type = HW_BREAKPOINT_RW,
				       .bp_addr = (uintptr_t)&place,
				       .bp_len = sizeof(place)};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) >= 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--watch"))
		return !can_watch();
	alarm(60);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct program *p = lists[i]; p->id; p++) {
			if (argc == 2)
				printf("%s %s %s\n", p->id, p->form,
				       p->also ? p->also : "");
			if (argc != 4 || strcmp(p->id, argv[1]) ||
			    strcmp(p->form, argv[2]))
				continue;
			p->run(!strcmp(argv[3], "wrong"));
			return 0;
		}
	return argc == 2 ? 0 : 2;
}
