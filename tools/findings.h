/*
 * findings.h - what was slow, what failed, and the likely cause, in sentences.
 *
 * Records are added in the order of time; the list can be asked for at any time, and again
 * after more records. What a sentence is about, and where it is in the trace, stands beside it.
 */
#ifndef URXE_TOOLS_FINDINGS_H
#define URXE_TOOLS_FINDINGS_H

#include "tools/timeline.h"

struct findings;

enum finding_level {
	FINDING_FAILED,
	FINDING_SLOW,
	FINDING_NOTE,
};

/*
 * struct finding
 * @cost:	ns that it took from the program, as far as that is known; 0
 * @time:	of the record that shows it, on the common clock; @from its trace; @kind of it
 * @qpn, @mr:	what it is about, 0: no QP, no MR
 */
struct finding {
	enum finding_level level;
	uint64_t cost;
	uint64_t time;
	int from;
	uint16_t kind;
	uint32_t qpn, mr;
	char text[960];
};

/* The traces and their timeline must stay as long as the findings. NULL: no memory */
struct findings *findings_new(struct trace_reader **t, int n, const struct timeline *tl);
/* There are @n traces now, in the array that was given */
void findings_traces(struct findings *f, int n);
void findings_free(struct findings *f);
void findings_add(struct findings *f, const struct moment *m);
/* The worst first; valid until the next call. Never empty */
const struct finding *findings_list(struct findings *f, size_t *n);
/* "failed", "slow", "note" */
const char *finding_level_name(enum finding_level level);

#endif
