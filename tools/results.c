/*
 * results.c - see results.h.
 */
#include "tools/results.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/outfile.h"
#include "trace/render.h"

/* struct check - texts are copies; @failed, @more: NULL without */
struct check {
	char *name, *failed, *more;
	uint64_t ns;
};

struct results {
	char *suite;
	struct check *check;
	size_t n, room, failures;
};

struct results *results_new(const char *suite)
{
	struct results *r = calloc(1, sizeof(*r));

	if (r)
		r->suite = strdup(suite);
	return r;
}

static char *copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

void results_add(struct results *r, const char *name, const char *failed,
		 const char *more, uint64_t ns)
{
	struct check *c;

	if (r->n == r->room) {
		size_t room = r->room ? 2 * r->room : 64;

		c = realloc(r->check, room * sizeof(*c));
		if (!c)
			return;
		r->check = c;
		r->room = room;
	}
	r->check[r->n++] = (struct check){copy(name), copy(failed), copy(more), ns};
	r->failures += failed != NULL;
}

void results_free(struct results *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++) {
		free(r->check[i].name);
		free(r->check[i].failed);
		free(r->check[i].more);
	}
	free(r->check);
	free(r->suite);
	free(r);
}

/* --- forms ------------------------------------------------------------------------ */

/* As XML 1.0 may have it, in text and in attributes */
static void xml(FILE *f, const char *s)
{
	for (; s && *s; s++) {
		if (*s == '&')
			fputs("&amp;", f);
		else if (*s == '<')
			fputs("&lt;", f);
		else if (*s == '>')
			fputs("&gt;", f);
		else if (*s == '"')
			fputs("&quot;", f);
		else if (*s == '\n')
			fputs("&#10;", f);
		else
			fputc((unsigned char)*s < ' ' || *s == 0x7f ? '?' : *s, f);
	}
}

static void write_junit(const struct results *r, FILE *f)
{
	fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
		   "<testsuite name=\"");
	xml(f, r->suite);
	fprintf(f, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\">\n", r->n,
		r->failures);
	for (size_t i = 0; i < r->n; i++) {
		const struct check *c = &r->check[i];

		fputs("<testcase classname=\"urxe\" name=\"", f);
		xml(f, c->name);
		fprintf(f, "\" time=\"%.6f\"", (double)c->ns / 1e9);
		if (c->failed) {
			fputs("><failure message=\"", f);
			xml(f, c->failed);
			fputs("\">", f);
			xml(f, c->more);
			fputs("</failure></testcase>\n", f);
		} else {
			fputs("/>\n", f);
		}
	}
	fputs("</testsuite>\n</testsuites>\n", f);
}

/* One line of TAP: '#' begins a directive, and there is no newline. */
static void tap(FILE *f, const char *s)
{
	for (; s && *s; s++)
		if (*s == '#')
			fputs("\\#", f);
		else
			fputc((unsigned char)*s < ' ' ? ' ' : *s, f);
}

static void write_tap(const struct results *r, FILE *f)
{
	fprintf(f, "TAP version 13\n1..%zu\n", r->n);
	for (size_t i = 0; i < r->n; i++) {
		const struct check *c = &r->check[i];

		fprintf(f, "%sok %zu - ", c->failed ? "not " : "", i + 1);
		tap(f, c->name);
		fputc('\n', f);
		for (const char *s = c->failed; s; s = s == c->failed ? c->more : NULL) {
			fputs("# ", f);
			tap(f, s);
			fputc('\n', f);
		}
	}
}

static void json_member(FILE *f, const char *name, const char *value)
{
	fprintf(f, ",\n     \"%s\": ", name);
	trace_json_string(f, value);
}

static void write_json(const struct results *r, FILE *f)
{
	fputs("{\n  \"suite\": ", f);
	trace_json_string(f, r->suite);
	fprintf(f, ",\n  \"tests\": %zu,\n  \"failures\": %zu,\n  \"checks\": [", r->n,
		r->failures);
	for (size_t i = 0; i < r->n; i++) {
		const struct check *c = &r->check[i];

		fprintf(f, "%s\n    {\"name\": ", i ? "," : "");
		trace_json_string(f, c->name);
		fprintf(f, ", \"ok\": %s, \"ns\": %" PRIu64, c->failed ? "false" : "true",
			c->ns);
		if (c->failed)
			json_member(f, "failed", c->failed);
		if (c->failed && c->more)
			json_member(f, "more", c->more);
		fputc('}', f);
	}
	fputs("\n  ]\n}\n", f);
}

/* struct form - a way to write them, and the word for it */
struct form {
	const char *word;
	void (*write)(const struct results *r, FILE *f);
};
static const struct form forms[] = {
    {"junit:", write_junit}, {"tap:", write_tap}, {"json:", write_json}};

static const struct form *form_of(const char *spec)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (!strncmp(spec, forms[i].word, strlen(forms[i].word)) &&
		    spec[strlen(forms[i].word)])
			return &forms[i];
	return NULL;
}

int results_check(const char *spec, char *err, size_t errlen)
{
	if (form_of(spec))
		return 0;
	snprintf(err, errlen, "'%.60s' is none of junit:FILE, tap:FILE, json:FILE", spec);
	return -EINVAL;
}

int results_write(const struct results *r, const char *spec)
{
	const struct form *form = form_of(spec);
	struct outfile o;
	int ret = outfile_open(&o, spec + strlen(form->word));

	if (ret)
		return ret;
	form->write(r, o.f);
	return outfile_close(&o, 0);
}
