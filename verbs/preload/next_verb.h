/*
 * next_verb.h - functions of the program's libibverbs and librdmacm, which this library does not
 * link with.
 */
#ifndef URXE_VERBS_PRELOAD_NEXT_VERB_H
#define URXE_VERBS_PRELOAD_NEXT_VERB_H

/*
 * next_verb - the definition of @name behind ours; NULL with errno ENOSYS: no libibverbs
 */
void *next_verb(const char *name);
/*
 * next_rdmacm - the same of librdmacm, called by what is at @caller: a program's library may have
 * brought its own under another name
 */
void *next_rdmacm(const char *name, const void *caller);

#endif
