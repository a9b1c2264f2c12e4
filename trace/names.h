/*
 * names.h - the words for numbers in records: those of the tables in kinds.h, and those that
 * IBTA and the verbs give to states, statuses, opcodes and events.
 */
#ifndef URXE_TRACE_NAMES_H
#define URXE_TRACE_NAMES_H

#include "trace/kinds.h"

/* The word for @value of a unit that has words; NULL if it has none for it */
const char *trace_name(enum trace_unit unit, uint64_t value);
/* The names of the bits of an attribute mask: TRACE_ATTR, bit by bit; NULL beyond the last */
const char *trace_attr_name(unsigned int bit);

#endif
