/*
 * sweep.h - what the parts of `urxe sweep` share.
 *
 *	sweep.c		the command: settings, the order of things, results
 *	sweep_plan.c	from points to trials, and their order
 *	sweep_world.c	where runs happen: processes, network, files of their own
 *	sweep_run.c	one run, in its world
 *	sweep_judge.c	what came of a trial
 *	sweep_tell.c	what is said of it
 */
#ifndef URXE_TOOLS_SWEEP_H
#define URXE_TOOLS_SWEEP_H

#include <stdio.h>
#include <sys/types.h>

#include "inject/points.h"
#include "verbs/host/options.h"

#define SWEEP_MAX_JOBS	    64
#define SWEEP_MAX_PROCESSES 16 /* of a run, whose points are looked at */
#define SWEEP_OUTPUT	    4096
#define SWEEP_RULE	    512

/* --- a run ------------------------------------------------------------------------ */

/* How a run that was killed had not gone on */
enum sweep_hang { SWEEP_ENDED, SWEEP_IDLE, SWEEP_SPINS, SWEEP_ENDLESS };

/*
 * struct sweep_output - what was written to stdout or stderr
 * @hash, @len:	of all of it; @end: its last bytes
 */
struct sweep_output {
	uint64_t hash, len;
	char end[SWEEP_OUTPUT];
};

/*
 * struct sweep_order - a run that is wanted
 * @rule:	what goes wrong, or "learn"
 * @hang, @limit: ns without progress, and in all; 0: no limit
 */
struct sweep_order {
	char rule[INJECT_TEXT_MAX];
	uint64_t hang, limit;
};

/*
 * struct sweep_outcome - what came of it
 * @code, @signal: of the command
 * @ns:		that it took; @after: from the first injection to the end
 * @hits:	injections
 * @left:	objects that processes which ended in order have not destroyed; @abandoned: of
 *		them, those whose device they closed
 * @findings:	of --check
 * @waits:	what hangs, in words
 * @failed:	the run could not be made
 */
struct sweep_outcome {
	int code, signal;
	enum sweep_hang hang;
	uint64_t ns, after, hits, left, abandoned;
	uint32_t processes, findings;
	bool failed;
	char waits[256];
	struct sweep_output out, err;
};

/* struct sweep_learnt - the points of the processes of a run, shared with who runs it */
struct sweep_learnt {
	uint32_t n;
	struct points process[SWEEP_MAX_PROCESSES];
};

/* --- worlds ----------------------------------------------------------------------- */

struct sweep_worlds;

/*
 * Make @jobs worlds, in which @argv is run with the settings of @o. *@apart: they have networks
 * of their own; else there is one world only. NULL with a line on stderr
 */
struct sweep_worlds *sweep_worlds_open(unsigned int jobs, const struct options *o,
				       char **argv, bool *apart);
/* All that runs ends, all files go. */
void sweep_worlds_close(struct sweep_worlds *w);
unsigned int sweep_worlds_count(const struct sweep_worlds *w);
/* Have world @i run something; it is free */
int sweep_worlds_start(struct sweep_worlds *w, unsigned int i,
		       const struct sweep_order *order);
/*
 * Wait until a world is through, or @ms: its number with *@out, or -1; -2: interrupted by a
 * signal; -3: a world is gone
 */
int sweep_worlds_wait(struct sweep_worlds *w, int ms, struct sweep_outcome *out);
/* What its last run with the rule "learn" has learnt */
const struct sweep_learnt *sweep_worlds_learnt(const struct sweep_worlds *w,
					       unsigned int i);

/* sweep_run - run @argv in the directory @place, all in this process and below it */
void sweep_run(const struct sweep_order *order, struct options *o, char **argv,
	       const char *place, struct sweep_outcome *out, struct sweep_learnt *learnt);

/* --- trials ----------------------------------------------------------------------- */

/* What a program must make of it */
enum sweep_class {
	SWEEP_RECOVER, /* nobody but the HCA needs to do anything */
	SWEEP_HINT,    /* it was advice */
	SWEEP_REFUSE,  /* to end with an error is all right */
	SWEEP_END,     /* the process itself is ended */
};

enum sweep_verdict {
	SWEEP_UNTRIED,
	SWEEP_PASSED,
	SWEEP_REFUSED, /* ended with an error, in order */
	SWEEP_MISSED,  /* the program did not come to the place */
	SWEEP_UNSTEADY,
	SWEEP_CRASHED, /* failures from here on */
	SWEEP_HUNG,
	SWEEP_LEAKED,
	SWEEP_WRONG,
	SWEEP_NOT_RECOVERED,
	SWEEP_MISUSED, /* --check has found more than in untouched runs */
	SWEEP_N_VERDICTS,
};

/*
 * struct trial
 * @rule:	of inject/
 * @kind, @name, @action: of its (first) rule, for tables
 * @place:	where, in words; filled when it is asked for
 * @at, @in:	the point, and the process that has it; NULL of a combination
 * @n:		which of the times
 * @level, @turn, @key: its place in the order
 * @ns, @after:	of the run
 */
struct trial {
	char rule[SWEEP_RULE];
	enum inject_kind kind;
	char name[INJECT_NAME], action[24];
	enum sweep_class class;
	const struct point *at;
	const struct points *in;
	uint64_t n;
	uint32_t level, turn;
	uint64_t key;
	enum sweep_verdict verdict;
	uint64_t ns, after;
	char why[400];
};

/* struct plan - @points: that are known; @alike: of them, those that two runs had alike */
struct plan {
	struct trial *trial;
	size_t n, room;
	size_t points, alike;
};

/* Groups of injections that --what names, a bit for each */
#define SWEEP_GROUPS(X)                                                                  \
	X(CALL, "call")                                                                  \
	X(QP, "qp")                                                                      \
	X(ASYNC, "async")                                                                \
	X(PROCESS, "process")                                                            \
	X(ACCESS, "access")                                                              \
	X(FAULT, "fault")                                                                \
	X(OUT, "out")                                                                    \
	X(IN, "in")                                                                      \
	X(EVENT, "event")                                                                \
	X(COMPLETION, "completion")
#define X(name, word) SWEEP_GROUP_##name,
enum sweep_group { SWEEP_GROUPS(X) SWEEP_N_GROUPS };
#undef X
#define SWEEP_DEFAULT_GROUPS (((1u << SWEEP_N_GROUPS) - 1) & ~(1u << SWEEP_GROUP_IN))

/* 0 with the bits of a list like "call,out", or -EINVAL with a line in @err */
int sweep_groups(const char *list, uint32_t *groups, char *err, size_t errlen);

/*
 * sweep_plan_make - all trials of @groups for what two untouched runs have learnt, in the order
 * that @seed settles. The runs must stay. 0 or -ENOMEM
 */
int sweep_plan_make(struct plan *p, const struct sweep_learnt *a,
		    const struct sweep_learnt *b, uint32_t groups, uint64_t seed);
/* Add the pairs of the first trial of each kind of place. 0 or -ENOMEM */
int sweep_plan_pairs(struct plan *p, uint64_t seed);
void sweep_plan_free(struct plan *p);

/* struct baseline - what untouched runs do; @same: their output is the same */
struct baseline {
	struct sweep_outcome run;
	bool same;
};

/* The verdict, and why in t->why */
enum sweep_verdict sweep_judge(struct trial *t, const struct sweep_outcome *o,
			       const struct baseline *base, bool compare);
bool sweep_is_failure(enum sweep_verdict v);
const char *sweep_verdict_name(enum sweep_verdict v);

/* --- telling ---------------------------------------------------------------------- */

/* Where it is: function and line of the program, what happens there, how often */
void sweep_place(const struct trial *t, char *text, size_t size);
void sweep_tell_failure(const struct trial *t, char **argv, FILE *out);
void sweep_tell_table(const struct plan *p, FILE *out);

/*
 * symbolize - "function (file:line)" of a return address, or as much as is known; false: of a
 * wrapper of a header only, whose caller is meant
 */
bool symbolize(const char *module, uint64_t offset, char *text, size_t size);

#endif
