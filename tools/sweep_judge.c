/*
 * sweep_judge.c - what came of a trial, by what the run did and what untouched runs do.
 */
#include <signal.h>
#include <string.h>

#include "tools/sweep.h"

static const char *const names[SWEEP_N_VERDICTS] = {
    [SWEEP_UNTRIED] = "untried",   [SWEEP_PASSED] = "passed",
    [SWEEP_REFUSED] = "refused",   [SWEEP_MISSED] = "missed",
    [SWEEP_UNSTEADY] = "unsteady", [SWEEP_CRASHED] = "crash",
    [SWEEP_HUNG] = "hang",	   [SWEEP_LEAKED] = "leak",
    [SWEEP_WRONG] = "wrong",	   [SWEEP_NOT_RECOVERED] = "not-recovered",
    [SWEEP_MISUSED] = "misuse",
};

const char *sweep_verdict_name(enum sweep_verdict v)
{
	return (unsigned int)v < SWEEP_N_VERDICTS ? names[v] : "?";
}

bool sweep_is_failure(enum sweep_verdict v)
{
	return v >= SWEEP_CRASHED;
}

/* What sanitizers, valgrind, malloc(3) and shells say of a crash, or of memory that is lost */
static const struct {
	const char *says;
	enum sweep_verdict verdict;
} complaints[] = {
    {"ERROR: LeakSanitizer", SWEEP_LEAKED},
    {"byte(s) leaked in", SWEEP_LEAKED},
    {"definitely lost in loss record", SWEEP_LEAKED},
    {"ERROR: AddressSanitizer", SWEEP_CRASHED},
    {"SUMMARY: AddressSanitizer", SWEEP_CRASHED},
    {"WARNING: ThreadSanitizer", SWEEP_CRASHED},
    {"runtime error:", SWEEP_CRASHED},
    {"== Invalid read of size", SWEEP_CRASHED},
    {"== Invalid write of size", SWEEP_CRASHED},
    {"== Invalid free()", SWEEP_CRASHED},
    {"depends on uninitialised value", SWEEP_CRASHED},
    {"== Use of uninitialised value", SWEEP_CRASHED},
    {"double free or corruption", SWEEP_CRASHED},
    {"free(): ", SWEEP_CRASHED},
    {"malloc(): ", SWEEP_CRASHED},
    {"corrupted size vs. prev_size", SWEEP_CRASHED},
    {"munmap_chunk(): ", SWEEP_CRASHED},
    {"stack smashing detected", SWEEP_CRASHED},
    {"Segmentation fault", SWEEP_CRASHED},
    {"Bus error", SWEEP_CRASHED},
    {"Aborted", SWEEP_CRASHED},
    {"Assertion `", SWEEP_CRASHED},
};

/* The line of the output that has a complaint which untouched runs do not have; UNTRIED: none */
static enum sweep_verdict find_complaint(const struct sweep_output *o,
					 const struct sweep_output *base, char *why,
					 size_t size)
{
	for (size_t i = 0; i < sizeof(complaints) / sizeof(complaints[0]); i++) {
		const char *at = strstr(o->end, complaints[i].says), *from = at;

		if (!at || strstr(base->end, complaints[i].says))
			continue;
		while (from > o->end && from[-1] != '\n')
			from--;
		snprintf(why, size, "%.*s", (int)strcspn(from, "\n"), from);
		return complaints[i].verdict;
	}
	return SWEEP_UNTRIED;
}

static bool by_shell(int code, int sig)
{
	return code == 128 + sig;
}

static enum sweep_verdict crashed(struct trial *t, const struct sweep_outcome *o,
				  const struct sweep_outcome *base)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL,
				    SIGFPE,  SIGSYS, SIGTRAP};
	enum sweep_verdict v;

	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		if (o->signal != fatal[i] && !by_shell(o->code, fatal[i]))
			continue;
		snprintf(t->why, sizeof(t->why), "signal %d (%s)", fatal[i],
			 strsignal(fatal[i]));
		return SWEEP_CRASHED;
	}
	v = find_complaint(&o->err, &base->err, t->why, sizeof(t->why));
	return v ? v : find_complaint(&o->out, &base->out, t->why, sizeof(t->why));
}

static bool hung(struct trial *t, const struct sweep_outcome *o)
{
	static const char *const how[] = {[SWEEP_IDLE] = "hangs, doing nothing",
					  [SWEEP_SPINS] =
					      "spins, and the HCA does nothing",
					  [SWEEP_ENDLESS] = "goes on without an end"};

	if (o->hang == SWEEP_ENDED)
		return false;
	snprintf(t->why, sizeof(t->why), "%s: %s", how[o->hang],
		 o->waits[0]		  ? o->waits
		 : o->hang == SWEEP_SPINS ? "all that was to complete has been polled"
					  : "no process waits for the HCA");
	return true;
}

/* Does a function fail that destroys something? Then that is left. */
static bool cannot_destroy(const char *rule)
{
	return strstr(rule, "call=ibv_de") || strstr(rule, "call=ibv_close") ||
	       strstr(rule, "call=rdma_destroy");
}

/* More is left than without the injection, by a program that says it did well, or cleaned up */
static bool leaked(struct trial *t, const struct sweep_outcome *o,
		   const struct sweep_outcome *base)
{
	uint64_t more = o->left > base->left ? o->left - base->left : 0;
	uint64_t forgotten =
	    o->abandoned > base->abandoned ? o->abandoned - base->abandoned : 0;

	if (t->class == SWEEP_END || cannot_destroy(t->rule) ||
	    (!forgotten && (!more || o->code != base->code)))
		return false;
	snprintf(t->why, sizeof(t->why),
		 "%lu objects of the HCA are left that untouched runs destroy%s",
		 (unsigned long)(forgotten ? forgotten : more),
		 forgotten ? ", and the device was closed" : "");
	return true;
}

static enum sweep_verdict by_code(struct trial *t, const struct sweep_outcome *o,
				  const struct sweep_outcome *base)
{
	if (o->code == base->code && o->signal == base->signal)
		return SWEEP_PASSED;
	if (o->signal)
		snprintf(t->why, sizeof(t->why), "signal %d (%s)", o->signal,
			 strsignal(o->signal));
	else
		snprintf(t->why, sizeof(t->why), "exit code %d", o->code);
	switch (t->class) {
	case SWEEP_RECOVER:
		strcat(t->why, ", though the HCA repairs this");
		return SWEEP_NOT_RECOVERED;
	case SWEEP_HINT:
		strcat(t->why, ", though only advice was not taken");
		return SWEEP_NOT_RECOVERED;
	case SWEEP_REFUSE:
	case SWEEP_END:
		break;
	}
	return SWEEP_REFUSED;
}

enum sweep_verdict sweep_judge(struct trial *t, const struct sweep_outcome *o,
			       const struct baseline *base, bool compare)
{
	enum sweep_verdict v;

	t->ns = o->ns;
	t->after = o->after;
	t->why[0] = '\0';
	if (!o->hits)
		return SWEEP_MISSED;
	v = crashed(t, o, &base->run);
	if (v)
		return v;
	if (hung(t, o))
		return SWEEP_HUNG;
	if (leaked(t, o, &base->run))
		return SWEEP_LEAKED;
	if (o->findings > base->run.findings && !cannot_destroy(t->rule)) {
		snprintf(t->why, sizeof(t->why), "--check finds %u, in untouched runs %u",
			 o->findings, base->run.findings);
		return SWEEP_MISUSED;
	}
	v = by_code(t, o, &base->run);
	if (v == SWEEP_PASSED && compare && base->same &&
	    (o->out.hash != base->run.out.hash || o->out.len != base->run.out.len)) {
		snprintf(t->why, sizeof(t->why),
			 "it says that it did well, and its output differs");
		return SWEEP_WRONG;
	}
	return v;
}
