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

#endif
