/*
 * util.h - what the tests of the recorder and its reader share.
 */
#ifndef URXE_TESTS_TRACE_UTIL_H
#define URXE_TESTS_TRACE_UTIL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check_main.h"
#include "trace/reader.h"
#include "trace/recorder.h"

/* A name for a file that is not there yet, in a directory of its own */
static inline char *fresh_path(void)
{
	static char dir[64], path[80];

	strcpy(dir, "/tmp/urxe-trace-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/trace", dir);
	return path;
}

/* The file and its directory go. */
static inline void forget_path(const char *path)
{
	char dir[80];

	unlink(path);
	snprintf(dir, sizeof(dir), "%s", path);
	*strrchr(dir, '/') = '\0';
	rmdir(dir);
}

static inline struct recorder *open_recorder(const char *path, uint32_t slots)
{
	const struct recorder_cfg cfg = {.path = path, .slots = slots, .full = true};
	struct recorder *r;

	ck_assert_int_eq(recorder_open(&cfg, &r), 0);
	return r;
}

static inline struct trace_reader *open_file(const char *path)
{
	char why[TRACE_WHY_BYTES];
	struct trace_reader *t;

	ck_assert_msg(trace_open(path, why, sizeof(why), &t) == 0, "%s", why);
	return t;
}

static inline void put_poll(struct recorder *r, uint64_t now, uint32_t count)
{
	TRACE(r, now, poll, .cq = 7, .count = count);
}

#endif
