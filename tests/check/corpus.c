/*
 * corpus.c - runs one program of the corpus.
 *
 * usage: corpus --list | corpus ID FORM wrong|right
 */
#include "corpus.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct program *const lists[] = {
    completion_programs, object_programs, buffer_programs, frame_programs,
    peer_programs,	 memory_programs, right_programs};

int main(int argc, char **argv)
{
	alarm(60);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct program *p = lists[i]; p->id; p++) {
			if (argc == 2)
				printf("%s %s\n", p->id, p->form);
			if (argc != 4 || strcmp(p->id, argv[1]) ||
			    strcmp(p->form, argv[2]))
				continue;
			p->run(!strcmp(argv[3], "wrong"));
			return 0;
		}
	return argc == 2 ? 0 : 2;
}
