/*
 * results.h - results of checks as files for other programs: JUnit, TAP, JSON.
 *
 * Checks are added one by one; the file is written at the end, whole or not at all.
 */
#ifndef URXE_TOOLS_RESULTS_H
#define URXE_TOOLS_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct results;

/* @spec: "junit:FILE", "tap:FILE" or "json:FILE". 0, or -EINVAL with a line in @err */
int results_check(const char *spec, char *err, size_t errlen);
/* @suite: what was tested. NULL: out of memory */
struct results *results_new(const char *suite);
/*
 * One check: @what failed, or NULL if it passed; @more: lines about it, or NULL; @ns that it
 * took, 0: unknown
 */
void results_add(struct results *r, const char *name, const char *failed,
		 const char *more, uint64_t ns);
/* Write what is there up to now to the file of @spec. 0 or -errno */
int results_write(const struct results *r, const char *spec);
void results_free(struct results *r);

#endif
