/*
 * fuzz_trace.c - files that say they are traces: whatever is in them, reading and rendering come to
 * an end, and texts are printable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "trace/reader.h"
#include "trace/recorder.h"
#include "trace/render.h"

#define FILE_MAX 262144

static void must(bool x)
{
	if (!x)
		abort();
}

static void look_at_objects(const struct trace_reader *t)
{
	uint64_t total[TRACE_N_ODP];
	size_t i;

	for (i = 0; i < trace_object_count(t); i++)
		must(trace_object(t, i) != NULL);
	trace_odp_total(t, total);
}

static void look_at_records(struct trace_reader *t)
{
	struct trace_record r;
	char text[512];

	while (trace_next(t, &r)) {
		must(trace_kind(r.kind) != NULL);
		trace_text(&r, text, sizeof(text));
		must(strlen(text) < sizeof(text));
	}
	trace_last(t, 3);
	while (trace_next(t, &r))
		;
}

static void look_at(const uint8_t *data, size_t size)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);
	static FILE *null;
	struct trace_reader *t;
	char why[TRACE_WHY_BYTES];

	if (!null)
		null = fopen("/dev/null", "w");
	must(null && fd >= 0 && write(fd, data, size) == (ssize_t)size);
	if (!trace_open_fd(fd, 0, why, sizeof(why), &t)) {
		look_at_objects(t);
		look_at_records(t);
		must(!trace_json(t, null));
		trace_close(t);
	}
	close(fd);
}

/* A trace that is right: some records, and an object */
static size_t right_file(uint8_t *to, size_t room)
{
	const struct recorder_cfg cfg = {.slots = 16, .full = true};
	struct recorder *r;
	struct trace_object *o;
	size_t n = 0;

	must(!recorder_open(&cfg, &r));
	o = recorder_object(r);
	must(o != NULL);
	recorder_object_ready(o, TRACE_OBJ_QP);
	for (unsigned int kind = 0; kind < TRACE_N_KINDS; kind++) {
		const uint64_t payload[TRACE_PAYLOAD / 8] = {kind};

		recorder_put(r, 1000 + kind, kind, payload);
	}
	while (n < room && recorder_copy(r, n, to + n, 512))
		n += 512;
	recorder_close(r);
	return n;
}

/* The input: places in the file and what comes there, behind a byte that says how long it is */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t right[FILE_MAX], changed[FILE_MAX];
	struct input in = {data, size};
	static size_t len;
	uint8_t how = take8(&in);

	if (!len)
		len = right_file(right, sizeof(right));
	memcpy(changed, right, len);
	while (in.n) {
		size_t at = take16(&in) % len, n = 1 + take8(&in) % 8;

		take(&in, changed + at, n < len - at ? n : len - at);
	}
	look_at(changed, how ? len : len / 256 * take8(&in));
	return 0;
}
