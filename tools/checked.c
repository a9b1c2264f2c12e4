/*
 * checked.c - see checked.h.
 *
 * The checker's library writes addresses only (check/findings.c); here they get their names, what
 * is suppressed goes, and the rest is printed for people, and as JSON and SARIF. What it
 * has written is of a program that may have died in the middle of it: a line that is no JSON
 * is left out.
 */
#include "tools/checked.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/ids.h"
#include "tools/symbols.h"
#include "tools/tools.h"

#define PREFIX "check."

/* struct rule - a row of the table of identifiers */
struct rule {
	const char *id, *class, *severity, *what, *why;
	enum check_severity level;
};

enum { N_RULES = CHECK_N_IDS };

static const char *const class_text[] = {
#define X(name, text) [CHECK_CLASS_##name] = (text),
    CHECK_CLASSES(X)
#undef X
};
static const char *const severity_text[] = {
#define X(name, text) [CHECK_SEVERITY_##name] = (text),
    CHECK_SEVERITIES(X)
#undef X
};

static struct rule rule_at(unsigned int i)
{
	static const struct {
		const char *id, *what, *why;
		enum check_class class;
		enum check_severity severity;
	} rows[N_RULES] = {
#define X(name, id, class, severity, what, why)                                          \
	[CHECK_##name] = {id, what, why, CHECK_CLASS_##class, CHECK_SEVERITY_##severity},
	    CHECK_IDS(X)
#undef X
	};

	return (struct rule){rows[i].id,
			     class_text[rows[i].class],
			     severity_text[rows[i].severity],
			     rows[i].what,
			     rows[i].why,
			     rows[i].severity};
}

static bool rule_named(const char *id, struct rule *out)
{
	for (unsigned int i = 0; i < N_RULES; i++) {
		*out = rule_at(i);
		if (!strcmp(out->id, id))
			return true;
	}
	return false;
}

/* --- reading ------------------------------------------------------------------------- */

static const char *text_of(struct json_object *o, const char *key)
{
	struct json_object *v = json_object_object_get(o, key);

	return v && json_object_is_type(v, json_type_string) ? json_object_get_string(v)
							     : "";
}

static int64_t number_of(struct json_object *o, const char *key)
{
	return json_object_get_int64(json_object_object_get(o, key));
}

static size_t length_of(struct json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list)
							  : 0;
}

static bool is_again(struct json_object *f, int64_t pid, int64_t number)
{
	return number_of(f, "pid") == pid && number_of(f, "number") == number;
}

/* A later count of a finding; after execve(2) numbers begin again, so the last one is meant. */
static void count_again(struct json_object *all, struct json_object *line)
{
	for (size_t i = length_of(all); i > 0; i--) {
		struct json_object *f = json_object_array_get_idx(all, i - 1);

		if (!is_again(f, number_of(line, "pid"), number_of(line, "again")))
			continue;
		json_object_object_add(f, "count",
				       json_object_new_int64(number_of(line, "count")));
		json_object_object_add(
		    f, "exact", json_object_get(json_object_object_get(line, "exact")));
		return;
	}
}

static void take_line(struct json_object *all, const char *text)
{
	struct json_object *line = json_tokener_parse(text);
	struct rule r;

	if (line && json_object_object_get(line, "again")) {
		count_again(all, line);
	} else if (line && rule_named(text_of(line, "id"), &r)) {
		json_object_object_add(line, "count", json_object_new_int64(1));
		json_object_array_add(all, line);
		return;
	}
	json_object_put(line);
}

static void read_file(struct json_object *all, const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	while (f && getline(&line, &room, f) > 0)
		take_line(all, line);
	free(line);
	if (f)
		fclose(f);
}

static struct json_object *read_all(const char *dir)
{
	struct json_object *all = json_object_new_array();
	DIR *d = opendir(dir);
	char path[PATH_MAX];
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, PREFIX, strlen(PREFIX)) &&
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) <
			(int)sizeof(path))
			read_file(all, path);
	if (d)
		closedir(d);
	return all;
}

/* --- names ---------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Libraries between the program and the HCA: of these only what the program called is shown. */
static bool is_below(const char *file)
{
	static const char *const names[] = {"liburxe", "librxe-", "libibverbs.", "libc."};
	const char *base = base_name(file);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

static struct json_object *named_frame(struct json_object *frame)
{
	const char *file = text_of(frame, "file");
	struct json_object *o = json_object_new_object();
	struct symbol s;

	/* return addresses: the call is before them */
	symbols_find(file, (uint64_t)number_of(frame, "pc") - 1, &s);
	json_object_object_add(o, "file", json_object_new_string(file));
	json_object_object_add(o, "pc", json_object_new_int64(number_of(frame, "pc")));
	if (s.function[0])
		json_object_object_add(o, "function", json_object_new_string(s.function));
	if (s.source[0]) {
		json_object_object_add(o, "source", json_object_new_string(s.source));
		json_object_object_add(o, "line", json_object_new_int(s.line));
	}
	return o;
}

static bool is_operation(struct json_object *frame)
{
	const char *base = base_name(text_of(frame, "file"));

	return !strncmp(base, "liburxe", 7) || !strncmp(base, "librxe-", 7);
}

/* What calls main() and the functions of threads is no part of the program. */
static bool is_start(struct json_object *frame)
{
	const char *name = text_of(frame, "function");

	return !strncmp(name, "__libc_start_", 13) || !strcmp(name, "start_thread");
}

/* From what the program called on, up to where it begins */
static struct json_object *named_frames(struct json_object *frames)
{
	struct json_object *out = json_object_new_array(), *frame;
	size_t n = length_of(frames), first = 0;

	while (first + 1 < n &&
	       is_below(text_of(json_object_array_get_idx(frames, first + 1), "file")))
		first++;
	/* an operation of the context is called by the program itself */
	if (first + 1 < n && is_operation(json_object_array_get_idx(frames, first)))
		first++;
	for (size_t i = first; i < n; i++) {
		frame = named_frame(json_object_array_get_idx(frames, i));
		if (is_start(frame)) {
			json_object_put(frame);
			break;
		}
		json_object_array_add(out, frame);
	}
	return out;
}

static void name_stacks(struct json_object *finding)
{
	struct json_object *stacks = json_object_object_get(finding, "stacks");

	for (size_t i = 0; i < length_of(stacks); i++) {
		struct json_object *s = json_object_array_get_idx(stacks, i);

		json_object_object_add(s, "frames",
				       named_frames(json_object_object_get(s, "frames")));
	}
}

/* What the table says, beside what the checker has written */
static void add_rule(struct json_object *finding)
{
	struct rule r;

	if (!rule_named(text_of(finding, "id"), &r))
		return;
	json_object_object_add(finding, "class", json_object_new_string(r.class));
	json_object_object_add(finding, "severity", json_object_new_string(r.severity));
	json_object_object_add(finding, "what", json_object_new_string(r.what));
	json_object_object_add(finding, "why", json_object_new_string(r.why));
}

/* --- suppressions ----------------------------------------------------------------------- */

static bool frame_matches(struct json_object *finding, const char *pattern)
{
	struct json_object *stacks = json_object_object_get(finding, "stacks");

	for (size_t i = 0; i < length_of(stacks); i++) {
		struct json_object *frames = json_object_object_get(
		    json_object_array_get_idx(stacks, i), "frames");

		for (size_t k = 0; k < length_of(frames); k++) {
			struct json_object *f = json_object_array_get_idx(frames, k);

			if (!fnmatch(pattern, text_of(f, "function"), 0) ||
			    !fnmatch(pattern, base_name(text_of(f, "file")), 0))
				return true;
		}
	}
	return false;
}

static bool line_suppresses(char *line, struct json_object *finding)
{
	char *save, *id, *function;

	line[strcspn(line, "#\n")] = '\0';
	id = strtok_r(line, " \t", &save);
	function = id ? strtok_r(NULL, " \t", &save) : NULL;
	return id && !fnmatch(id, text_of(finding, "id"), 0) &&
	       (!function || frame_matches(finding, function));
}

static bool is_suppressed(const char *path, struct json_object *finding)
{
	FILE *f = *path ? fopen(path, "re") : NULL;
	bool yes = false;
	char line[512];

	while (f && !yes && fgets(line, sizeof(line), f))
		yes = line_suppresses(line, finding);
	if (f)
		fclose(f);
	return yes;
}

int checked_suppressions(const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f)
		return -errno;
	fclose(f);
	return 0;
}

/* --- for people --------------------------------------------------------------------------- */

static void print_frame(FILE *out, struct json_object *f, bool first)
{
	const char *function = text_of(f, "function"), *source = text_of(f, "source");

	fprintf(out, "      %s ", first ? "at" : "by");
	if (*function)
		fprintf(out, "%s", function);
	else
		fprintf(out, "0x%llx", (unsigned long long)number_of(f, "pc"));
	if (*source)
		fprintf(out, " (%s:%d)\n", base_name(source), (int)number_of(f, "line"));
	else
		fprintf(out, " (in %s)\n", base_name(text_of(f, "file")));
}

/* Else the process was killed, and it may have been more. */
static bool is_exact(struct json_object *f)
{
	return json_object_get_boolean(json_object_object_get(f, "exact"));
}

static void print_finding(FILE *out, struct json_object *f)
{
	struct json_object *stacks = json_object_object_get(f, "stacks");

	fprintf(out, "urxe: check: %s: %s [%s] in %s (pid %d)", text_of(f, "severity"),
		text_of(f, "id"), text_of(f, "class"), text_of(f, "program"),
		(int)number_of(f, "pid"));
	if (number_of(f, "count") > 1)
		fprintf(out, ", %s%lld times", is_exact(f) ? "" : "at least ",
			(long long)number_of(f, "count"));
	fprintf(out, "\n  %s:\n    %s\n", text_of(f, "what"), text_of(f, "text"));
	for (size_t i = 0; i < length_of(stacks); i++) {
		struct json_object *s = json_object_array_get_idx(stacks, i),
				   *frames = json_object_object_get(s, "frames");

		if (length_of(frames))
			fprintf(out, "    %s\n", text_of(s, "what"));
		for (size_t k = 0; k < length_of(frames); k++)
			print_frame(out, json_object_array_get_idx(frames, k), !k);
	}
	fprintf(out, "  %s. See docs/check.md#%s\n\n", text_of(f, "why"),
		text_of(f, "id"));
}

static void print_all(FILE *out, struct json_object *all, size_t suppressed)
{
	unsigned int n[CHECK_N_SEVERITIES] = {0};
	struct rule r;

	for (size_t i = 0; i < length_of(all); i++) {
		struct json_object *f = json_object_array_get_idx(all, i);

		if (rule_named(text_of(f, "id"), &r))
			n[r.level]++;
		print_finding(out, f);
	}
	fprintf(out, "urxe: check: %u errors, %u hazards, %u of portability, %u of waste",
		n[CHECK_SEVERITY_ERROR], n[CHECK_SEVERITY_HAZARD],
		n[CHECK_SEVERITY_PORTABLE], n[CHECK_SEVERITY_WASTE]);
	if (suppressed)
		fprintf(out, "; %zu suppressed", suppressed);
	fputc('\n', out);
}

/* --- for programs -------------------------------------------------------------------------- */

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static struct json_object *message(const char *text)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "text", text);
	return o;
}

/* SARIF knows three levels. */
static const char *sarif_level(enum check_severity s)
{
	switch (s) {
	case CHECK_SEVERITY_ERROR:
		return "error";
	case CHECK_SEVERITY_HAZARD:
		return "warning";
	case CHECK_SEVERITY_PORTABLE:
	case CHECK_SEVERITY_WASTE:
	case CHECK_N_SEVERITIES:
		break;
	}
	return "note";
}

static struct json_object *sarif_rule(const struct rule *r)
{
	struct json_object *o = json_object_new_object(), *c = json_object_new_object();

	add_text(o, "id", r->id);
	json_object_object_add(o, "shortDescription", message(r->what));
	json_object_object_add(o, "fullDescription", message(r->why));
	add_text(c, "level", sarif_level(r->level));
	json_object_object_add(o, "defaultConfiguration", c);
	return o;
}

static struct json_object *sarif_place(struct json_object *frame)
{
	struct json_object *place = json_object_new_object();
	struct json_object *physical = json_object_new_object();
	struct json_object *artifact = json_object_new_object();
	const char *source = text_of(frame, "source");

	add_text(artifact, "uri", *source ? source : text_of(frame, "file"));
	json_object_object_add(physical, "artifactLocation", artifact);
	if (number_of(frame, "line") > 0) {
		struct json_object *region = json_object_new_object();

		json_object_object_add(region, "startLine",
				       json_object_new_int64(number_of(frame, "line")));
		json_object_object_add(physical, "region", region);
	}
	json_object_object_add(place, "physicalLocation", physical);
	return place;
}

/* The innermost frame of the program with a line, or the innermost */
static struct json_object *best_frame(struct json_object *finding)
{
	struct json_object *stacks = json_object_object_get(finding, "stacks"),
			   *best = NULL;

	for (size_t i = 0; i < length_of(stacks); i++) {
		struct json_object *frames = json_object_object_get(
		    json_object_array_get_idx(stacks, i), "frames");

		for (size_t k = 0; k < length_of(frames); k++) {
			struct json_object *f = json_object_array_get_idx(frames, k);

			if (number_of(f, "line") > 0)
				return f;
			best = best ? best : f;
		}
	}
	return best;
}

static struct json_object *sarif_result(struct json_object *f)
{
	struct json_object *o = json_object_new_object(),
			   *places = json_object_new_array(), *frame = best_frame(f);
	char text[1024];
	struct rule r;

	rule_named(text_of(f, "id"), &r);
	snprintf(text, sizeof(text), "%s: %s. %s.", r.what, text_of(f, "text"), r.why);
	add_text(o, "ruleId", r.id);
	add_text(o, "level", sarif_level(r.level));
	json_object_object_add(o, "message", message(text));
	if (frame)
		json_object_array_add(places, sarif_place(frame));
	json_object_object_add(o, "locations", places);
	json_object_object_add(o, "occurrenceCount",
			       json_object_new_int64(number_of(f, "count")));
	return o;
}

static struct json_object *sarif_of(struct json_object *all)
{
	struct json_object *top = json_object_new_object(),
			   *runs = json_object_new_array(),
			   *run = json_object_new_object(),
			   *tool = json_object_new_object(),
			   *driver = json_object_new_object(),
			   *rules = json_object_new_array(),
			   *results = json_object_new_array();

	for (unsigned int i = 0; i < N_RULES; i++) {
		struct rule r = rule_at(i);

		json_object_array_add(rules, sarif_rule(&r));
	}
	for (size_t i = 0; i < length_of(all); i++)
		json_object_array_add(results,
				      sarif_result(json_object_array_get_idx(all, i)));
	add_text(driver, "name", "urxe check");
	add_text(driver, "version", URXE_VERSION);
	json_object_object_add(driver, "rules", rules);
	json_object_object_add(tool, "driver", driver);
	json_object_object_add(run, "tool", tool);
	json_object_object_add(run, "results", results);
	json_object_array_add(runs, run);
	add_text(top, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
	add_text(top, "version", "2.1.0");
	json_object_object_add(top, "runs", runs);
	return top;
}

static void write_json(const char *option, const char *path, struct json_object *o)
{
	if (json_object_to_file_ext(path, o,
				    JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					JSON_C_TO_STRING_NOSLASHESCAPE))
		usage_error("--%s: %s: %s", option, path, strerror(errno));
}

static void write_files(const struct options *o, struct json_object *all)
{
	struct json_object *made;

	if (o->check_json[0]) {
		made = json_object_new_object();
		add_text(made, "format", "urxe-check");
		json_object_object_add(made, "version", json_object_new_int(1));
		json_object_object_add(made, "findings", json_object_get(all));
		write_json("check-json", o->check_json, made);
		json_object_put(made);
	}
	if (o->check_sarif[0]) {
		made = sarif_of(all);
		write_json("check-sarif", o->check_sarif, made);
		json_object_put(made);
	}
}

static void write_log(const struct options *o, struct json_object *all, size_t suppressed)
{
	FILE *log = o->check_log[0] ? fopen(o->check_log, "we") : stderr;

	if (!log) {
		usage_error("--check-log: %s: %s", o->check_log, strerror(errno));
		log = stderr;
	}
	print_all(log, all, suppressed);
	if (log != stderr)
		fclose(log);
}

unsigned int checked_report(const struct options *o)
{
	struct json_object *found = read_all(o->dir), *all = json_object_new_array();
	size_t suppressed = 0;
	unsigned int bad = 0;
	struct rule r;

	for (size_t i = 0; i < length_of(found); i++) {
		struct json_object *f = json_object_array_get_idx(found, i);

		name_stacks(f);
		add_rule(f);
		if (is_suppressed(o->check_suppressions, f)) {
			suppressed++;
			continue;
		}
		json_object_array_add(all, json_object_get(f));
		rule_named(text_of(f, "id"), &r);
		bad += r.level <= CHECK_SEVERITY_HAZARD &&
		       !json_object_get_boolean(json_object_object_get(f, "expected"));
	}
	write_log(o, all, suppressed);
	write_files(o, all);
	json_object_put(all);
	json_object_put(found);
	return bad;
}
