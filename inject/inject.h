/*
 * inject.h - what goes wrong on purpose: points ask here, rules answer.
 *
 * A point is where something can be made to go wrong. It asks only if a rule could touch its
 * kind, which one load tells:
 *
 *	if (inject_on(INJECT_OUT) && inject_ask(&(struct inject_point){...}, &what))
 *		...
 *
 * Rules are those of the process. Points do with the answer what is theirs to do; what is done
 * to the process as a whole (kill, stop, exit, fork) happens in here.
 */
#ifndef URXE_INJECT_INJECT_H
#define URXE_INJECT_INJECT_H

#include <stdatomic.h>

#include "inject/rule.h"

/*
 * struct inject_point
 * @name:	of the call, packet, ...; an empty one fits rules without a name only
 * @object:	the name of the MR, or ""
 * @key:	of the MR
 * @page, @n:	pages of it that are touched
 */
struct inject_point {
	enum inject_kind kind;
	const char *name, *object;
	uint32_t key;
	uint64_t page, n;
};

/* struct inject_what - @rule: the index of the rule that acts; the others as in the rule */
struct inject_what {
	enum inject_do action;
	int error;
	uint64_t time;
	uint32_t value;
	bool by_page;
	uint64_t page;
};

/* Kinds that a rule is about, a bit for each. Only inject.c writes it. */
extern _Atomic uint32_t inject_kinds;

static inline bool inject_on(enum inject_kind kind)
{
	return atomic_load_explicit(&inject_kinds, memory_order_relaxed) & 1u << kind;
}

static inline bool inject_on_any(uint32_t kinds)
{
	return atomic_load_explicit(&inject_kinds, memory_order_relaxed) & kinds;
}

/*
 * inject_ask - does a rule act here? Calls (INJECT_CALL) ask in the thread of the program
 * and without locks; others may hold any.
 */
bool inject_ask(const struct inject_point *p, struct inject_what *what);

/*
 * inject_start - the process has a device from now on. @dir: the session's directory, or
 * empty; @text: the rules, or empty: then this does nothing. 0, -EINVAL with a line in @err,
 * -ENOMEM
 */
int inject_start(const char *dir, const char *text, char *err, size_t errlen);
/*
 * Other rules from now on, all of them counted anew; what inject_start() gives. -EOPNOTSUPP: a
 * rule is about packets, and those take a way where nobody asks (not @packets)
 */
int inject_replace(const char *text, bool packets, char *err, size_t errlen);
/* In the child of fork: it has no rules until it opens a device of its own. */
void inject_forked(void);

#endif
