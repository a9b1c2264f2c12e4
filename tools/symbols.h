/*
 * symbols.h - the function and the line that an address in a file belongs to.
 */
#ifndef URXE_TOOLS_SYMBOLS_H
#define URXE_TOOLS_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

/* struct symbol - what is known; texts are empty and @line 0 where it is not */
struct symbol {
	char function[128];
	char source[256];
	int line;
};

/* symbols_find - @addr as the file @path has it; false: nothing is known */
bool symbols_find(const char *path, uint64_t addr, struct symbol *out);

/*
 * symbols_outer - the same, but of code that was inlined, the line of the function that it was
 * inlined into: of a verb that is an inline function of verbs.h, the program's call
 */
bool symbols_outer(const char *path, uint64_t addr, struct symbol *out);

#endif
