/*
 * expect.h - what a run is expected to have done: rules that are judged when it has ended, from
 * what the recorders of its processes have counted.
 *
 *	page_faults=0,after=1s
 *	outstanding<=16,process=client
 *	prefetch_hits>=100,mr=ring
 */
#ifndef URXE_TOOLS_EXPECT_H
#define URXE_TOOLS_EXPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPECT_MAX_RULES 64
#define EXPECT_TEXT_MAX	 4096

enum expect_op { EXPECT_EQ, EXPECT_NE, EXPECT_LT, EXPECT_LE, EXPECT_GT, EXPECT_GE };

/*
 * struct expect_rule
 * @text:	as it was given
 * @subject:	index of what is counted (expect.c)
 * @process, @mr: only of this program, of the region with this name; empty: all
 * @after:	only what came later than this after the device was opened (ns), or
 * @completions: later than so many completions of the process; both 0: all
 */
struct expect_rule {
	char text[160];
	unsigned int subject;
	enum expect_op op;
	uint64_t value;
	char process[64], mr[32];
	uint64_t after, completions;
};

/*
 * expect_parse - the rules of @text, separated by ';' or newlines, '#' begins a comment; room
 * for @max. How many, or -EINVAL with a line in @err
 */
int expect_parse(const char *text, struct expect_rule *rule, int max, char *err,
		 size_t errlen);
/* Must completions be recorded for one of them to be judged? */
bool expect_wants_completions(const struct expect_rule *rule, int n);

/*
 * struct verdict
 * @failed:	a line with the figures; empty: the rule holds
 * @more:	where they come from: a line for each process that has a part in it
 */
struct verdict {
	char failed[256], more[1024];
};
/* Judge @rule by the processes of the session @dir */
void expect_judge(const char *dir, const struct expect_rule *rule, struct verdict *v);

#endif
