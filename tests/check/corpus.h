/*
 * corpus.h - the programs of the corpus, each of which has one fault, or is right.
 */
#ifndef URXE_TESTS_CHECK_CORPUS_H
#define URXE_TESTS_CHECK_CORPUS_H

#include <stdbool.h>

/*
 * struct program
 * @id:		what the checker finds if it is wrong; the right one is silent
 * @form:	how the fault comes about
 * @also:	what else is found in the wrong one, which cannot be without; or NULL
 */
struct program {
	const char *id, *form;
	void (*run)(bool wrong);
	const char *also;
};

/* Each ends with an entry without an id. */
extern const struct program completion_programs[], object_programs[], buffer_programs[],
    frame_programs[], peer_programs[], read_programs[], memory_programs[],
    right_programs[];

#endif
