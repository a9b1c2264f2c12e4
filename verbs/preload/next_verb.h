/*
 * next_verb.h - functions of the program's libibverbs, which this library does not link
 * with.
 */
#ifndef URXE_VERBS_PRELOAD_NEXT_VERB_H
#define URXE_VERBS_PRELOAD_NEXT_VERB_H

/*
 * next_verb - the definition of @name behind ours; NULL with errno ENOSYS: no libibverbs
 */
void *next_verb(const char *name);

#endif
