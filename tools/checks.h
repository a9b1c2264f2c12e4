/*
 * checks.h - what `urxe run` checks of a run beside running it: rules (--expect), a limit of
 * time (--timeout), and the results as files (--results).
 */
#ifndef URXE_TOOLS_CHECKS_H
#define URXE_TOOLS_CHECKS_H

#include "tools/expect.h"
#include "tools/tools.h"

/*
 * struct checks
 * @rule:	@n of them
 * @timeout:	ns, 0: none
 * @results:	FORMAT:FILE, @n_results of them
 */
struct checks {
	struct expect_rule rule[EXPECT_MAX_RULES];
	int n;
	uint64_t timeout;
	char results[3][256];
	int n_results;
};

/* struct check_option - an option, as the command line shows it */
struct check_option {
	const char *name, *arg, *help;
};
/* By order; @name NULL behind the last */
const struct check_option *checks_option(size_t i);
/* 0, or -EINVAL with a line in @err */
int checks_set(struct checks *c, size_t option, const char *value, char *err,
	       size_t errlen);

/* A time in ms, s, m or h: 0 and ns, or -EINVAL with a line in @err */
int checks_time(const char *v, uint64_t *ns, char *err, size_t errlen);

/* The run takes too long: say what each process waits for */
void checks_expired(const struct supervised *s);
/*
 * The run has ended with @code: judge it, write the results. The exit code of urxe.
 */
int checks_judge(const struct checks *c, const struct supervised *s, char **argv,
		 int code);

#endif
