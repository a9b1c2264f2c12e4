/*
 * rule.h - the one language in which it is said what goes wrong where.
 *
 * A text is a list of rules, separated by ';' or newlines; what follows a '#' up to the end of
 * its line is a comment. A rule is a list of words, separated by commas: where, and what to do.
 *
 *	call=ibv_create_qp,n=2,do=ENOMEM
 *	out=WRITE_ONLY,process=client,n=3,do=lose
 *	access,mr=mr1,page=7,do=slow:2ms
 *
 * Knows names and numbers; neither points nor what actions do. urxe-inject(7) explains all
 * words.
 */
#ifndef URXE_INJECT_RULE_H
#define URXE_INJECT_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of points: X(NAME, "word", "what") */
#define INJECT_KINDS(X)                                                                  \
	X(CALL, "call", "a call of a verb or of rdma_cm")                                \
	X(ACCESS, "access", "an access of the HCA to an on-demand MR")                   \
	X(FAULT, "fault", "a page fault of an on-demand MR")                             \
	X(OUT, "out", "a packet that is sent")                                           \
	X(IN, "in", "a packet that is received")                                         \
	X(EVENT, "event", "an event of rdma_cm")                                         \
	X(COMPLETION, "completion", "a send request that completes")

#define X(name, word, what) INJECT_##name,
enum inject_kind { INJECT_KINDS(X) INJECT_N_KINDS };
#undef X

#define INJECT_BIT(kind)   (1u << INJECT_##kind)
#define INJECT_PACKETS	   (INJECT_BIT(OUT) | INJECT_BIT(IN))
#define INJECT_MEMORY	   (INJECT_BIT(ACCESS) | INJECT_BIT(FAULT))
#define INJECT_EVERYWHERE_ ((1u << INJECT_N_KINDS) - 1)

/* What may follow the name of an action, behind a colon */
enum inject_arg {
	INJECT_ARG_NONE,
	INJECT_ARG_TIME,   /* must be there */
	INJECT_ARG_NUMBER, /* may be there */
	INJECT_ARG_ASYNC,  /* the name of an asynchronous event */
};

/* Actions: X(NAME, "word", kinds where it can be, argument, "what it does") */
#define INJECT_ACTIONS(X)                                                                \
	X(ERRNO, "E...", INJECT_BIT(CALL), NONE, "the call fails with this error")       \
	X(QP_ERROR, "qp-error", INJECT_BIT(CALL), NONE, "the QP enters ERR")             \
	X(ASYNC, "async", INJECT_BIT(CALL), ASYNC, "an asynchronous event comes")        \
	X(LINK_DOWN, "link-down", INJECT_BIT(CALL), TIME,                                \
	  "the port is down for a while")                                                \
	X(EXIT, "exit", INJECT_BIT(CALL), NUMBER, "the process ends by exit(3)")         \
	X(FORK, "fork", INJECT_BIT(CALL), NONE, "the process forks; the child ends")     \
	X(KILL, "kill", INJECT_EVERYWHERE_, NONE, "SIGKILL")                             \
	X(STOP, "stop", INJECT_EVERYWHERE_, TIME, "the process stops for a while")       \
	X(LOSE, "lose", INJECT_PACKETS | INJECT_BIT(EVENT), NONE, "it never comes")      \
	X(DOUBLE, "double", INJECT_PACKETS, NONE, "the packet comes twice")              \
	X(DELAY, "delay", INJECT_PACKETS, TIME, "the packet comes later")                \
	X(DAMAGE, "damage", INJECT_PACKETS, NONE, "a bit of the packet is flipped")      \
	X(ABSENT, "absent", INJECT_BIT(ACCESS), NONE, "the pages are not there")         \
	X(SLOW, "slow", INJECT_MEMORY, TIME, "a page fault that takes this long")        \
	X(RNR, "rnr", INJECT_MEMORY, NONE, "a page fault by the model rnr")              \
	X(DROP, "drop", INJECT_MEMORY, NONE, "a page fault by the model drop")           \
	X(DAMMING, "damming", INJECT_MEMORY, NONE, "a page fault by the model damming")  \
	X(FLOOD, "flood", INJECT_MEMORY, NONE, "a page fault by the model flood")        \
	X(ERROR, "error", INJECT_MEMORY | INJECT_BIT(EVENT), NONE,                       \
	  "the memory cannot be had; the event tells of a failure")                      \
	X(REJECT, "reject", INJECT_BIT(EVENT), NONE,                                     \
	  "the request for a connection is rejected")                                    \
	X(DISCONNECT, "disconnect", INJECT_BIT(EVENT), NONE,                             \
	  "the connection ends as soon as it is there")                                  \
	X(STATUS, "..._ERR", INJECT_BIT(COMPLETION), NONE,                               \
	  "the request fails with this status, and its QP with it")

#define X(name, word, kinds, arg, what) INJECT_DO_##name,
enum inject_do { INJECT_ACTIONS(X) INJECT_N_ACTIONS };
#undef X

/* Which of the points that a rule is about */
enum inject_times { INJECT_ONCE, INJECT_FROM, INJECT_EVERY };

#define INJECT_MAX_RULES 64
#define INJECT_TEXT_MAX	 4096 /* bytes of all rules */
#define INJECT_NAME	 32   /* bytes of a name with its end */

/*
 * struct inject_rule
 * @learn:	no rule: all points are noted
 * @reach:	no rule: packets take a way on which later rules reach them
 * @name:	of the call, opcode or event; empty: any
 * @process, @args, @nth: program, hash of its arguments, and which of those that are alike in
 *		what is given; 0: any
 * @start:	the process by its order among all, 0: any; @rank: -1: any
 * @object, @key, @by_key: of an MR, its name or key
 * @page:	of it, counted from its first
 * @stack:	hash of the call stack, 0: any
 * @thread:	by its order among those of the process that have made calls, 0: any
 * @n, @times:	which of the points that fit
 * @error:	positive errno; @time: ns; @value: status, exit code or event
 */
struct inject_rule {
	bool learn, reach;
	enum inject_kind kind;
	enum inject_do action;
	char name[INJECT_NAME];
	char process[INJECT_NAME];
	uint32_t args, nth, start;
	int rank;
	char object[INJECT_NAME];
	bool by_key, by_page, by_args;
	uint32_t key;
	uint64_t page;
	uint64_t stack;
	uint32_t thread;
	uint64_t n;
	enum inject_times times;
	int error;
	uint64_t time;
	uint32_t value;
};

/*
 * inject_parse - the rules of @text; room for @max in @rule (NULL: they are only checked). How
 * many, or -EINVAL with one line in @err that says where and what.
 */
int inject_parse(const char *text, struct inject_rule *rule, int max, char *err,
		 size_t errlen);

/*
 * struct inject_call - a function that can fail
 * @error:	the errors that it can fail with, 0 behind the last
 * @hint:	what it asks for is advice: a program does not end because it failed
 * @qp:		it is about a QP
 */
struct inject_call {
	const char *name;
	int error[4];
	bool hint, qp;
};
/* NULL: there is none */
const struct inject_call *inject_call_named(const char *name);

/* "ENOMEM", and back: 0 if it has no name */
const char *inject_errno_name(int error);
int inject_errno(const char *name);
const char *inject_kind_word(enum inject_kind kind);

#endif
