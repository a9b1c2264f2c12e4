/*
 * sweep_tell.c - what is said of trials: places in the program, commands that repeat them, tables.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sweep.h"
#include "trace/render.h"

/* --- places ----------------------------------------------------------------------- */

static const char *ordinal(uint64_t n)
{
	if (n / 10 % 10 == 1)
		return "th";
	return n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : n % 10 == 3 ? "rd" : "th";
}

void sweep_place(const struct trial *t, char *text, size_t size)
{
	static const char *const what[INJECT_N_KINDS] = {[INJECT_CALL] = "call of ",
							 [INJECT_ACCESS] = "access, ",
							 [INJECT_FAULT] = "page fault, ",
							 [INJECT_OUT] = "packet out, ",
							 [INJECT_IN] = "packet in, ",
							 [INJECT_EVENT] = "event ",
							 [INJECT_COMPLETION] =
							     "completion of "};
	char where[256] = "";
	size_t n;

	if (!t->at) {
		snprintf(text, size, "%s", t->rule);
		return;
	}
	for (uint32_t i = 0; i < t->at->n_frames && !*where; i++)
		if (!symbolize(t->in->module[t->at->frame[i].module],
			       t->at->frame[i].offset, where, sizeof(where)))
			*where = '\0';
	n = (size_t)snprintf(text, size, "%s%s%" PRIu64 "%s %s%s", where,
			     *where ? ": " : "", t->n, ordinal(t->n), what[t->kind],
			     t->name[0] ? t->name : "any");
	if (t->at->object[0] && n < size)
		n += (size_t)snprintf(text + n, size - n, " of %s", t->at->object);
	if (n < size)
		n += (size_t)snprintf(text + n, size - n, " in %s", t->in->who.program);
	if (n < size && strchr(t->rule, ';'))
		snprintf(text + n, size - n, ", with %s", strchr(t->rule, ';') + 1);
}

/* As a shell reads it back */
static void quote(const char *s, FILE *out)
{
	if (*s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789_-+./:@%,=")]) {
		fputs(s, out);
		return;
	}
	fputc('\'', out);
	for (; *s; s++)
		if (*s == '\'')
			fputs("'\\''", out);
		else
			fputc(*s, out);
	fputc('\'', out);
}

/* The command that repeats the trial alone */
static void tell_command(const struct trial *t, char **argv, FILE *out)
{
	fputs("urxe run --inject ", out);
	quote(t->rule, out);
	fputs(" --", out);
	for (; *argv; argv++) {
		fputc(' ', out);
		quote(*argv, out);
	}
	fputc('\n', out);
}

void sweep_tell_failure(const struct trial *t, char **argv, FILE *out)
{
	char place[512];

	sweep_place(t, place, sizeof(place));
	fprintf(out, "%s: %s\n  %s: %s\n  again: ", sweep_verdict_name(t->verdict), place,
		t->action, t->why);
	tell_command(t, argv, out);
}

/* --- the table -------------------------------------------------------------------- */

/* struct row - all trials of one kind and name; @slowest: ns that a recovery took more */
struct row {
	enum inject_kind kind;
	const char *name;
	size_t known, tried, passed, refused, failed;
	size_t errors, errors_failed;
	uint64_t slowest;
};

static struct row *row_of(struct row *rows, size_t *n, const struct trial *t)
{
	for (size_t i = 0; i < *n; i++)
		if (rows[i].kind == t->kind && !strcmp(rows[i].name, t->name))
			return &rows[i];
	rows[*n] = (struct row){.kind = t->kind, .name = t->name};
	return &rows[(*n)++];
}

static bool is_error(const struct trial *t)
{
	return t->kind == INJECT_CALL && inject_errno(t->action);
}

static void count(struct row *r, const struct trial *t)
{
	bool failed = sweep_is_failure(t->verdict);

	r->known++;
	r->tried += t->verdict != SWEEP_UNTRIED;
	r->passed += t->verdict == SWEEP_PASSED;
	r->refused += t->verdict == SWEEP_REFUSED;
	r->failed += failed;
	if (is_error(t) && t->verdict != SWEEP_UNTRIED && t->verdict != SWEEP_MISSED) {
		r->errors++;
		r->errors_failed += failed;
	}
	if (t->verdict == SWEEP_PASSED && t->after > r->slowest)
		r->slowest = t->after;
}

static int by_kind(const void *x, const void *y)
{
	const struct row *a = x, *b = y;

	return a->kind != b->kind ? (int)a->kind - (int)b->kind
				  : strcmp(a->name, b->name);
}

static void tell_unhandled(const struct row *rows, size_t n, FILE *out)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		if (!rows[i].errors || rows[i].errors != rows[i].errors_failed)
			continue;
		fprintf(out, "%s%s", any ? ", " : "calls whose failure nobody handles: ",
			rows[i].name);
		any = true;
	}
	if (any)
		fputc('\n', out);
}

void sweep_tell_table(const struct plan *p, FILE *out)
{
	struct row *rows = calloc(p->n + 1, sizeof(*rows));
	char slowest[32];
	size_t n = 0;

	if (!rows)
		return;
	for (size_t i = 0; i < p->n; i++)
		count(row_of(rows, &n, &p->trial[i]), &p->trial[i]);
	qsort(rows, n, sizeof(*rows), by_kind);
	fprintf(out, "%-11s %-26s %6s %6s %6s %7s %6s  %s\n", "", "", "known", "tried",
		"passed", "refused", "failed", "longest after");
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%-11s %-26s %6zu %6zu %6zu %7zu %6zu  %s\n",
			inject_kind_word(rows[i].kind), rows[i].name, rows[i].known,
			rows[i].tried, rows[i].passed, rows[i].refused, rows[i].failed,
			rows[i].slowest ? trace_time_text(rows[i].slowest, slowest) : "");
	tell_unhandled(rows, n, out);
	free(rows);
}
