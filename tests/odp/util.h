/*
 * util.h - what the tests of odp/ share.
 */
#ifndef URXE_TESTS_ODP_UTIL_H
#define URXE_TESTS_ODP_UTIL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "odp/odp.h"
#include "tests/check_main.h"

#define PAGE 4096ul

/* For tight loops: Check's own assertions write to a pipe each time. */
#define MUST(x)                                                                          \
	do {                                                                             \
		if (!(x))                                                                \
			ck_abort_msg("%s", #x);                                          \
	} while (0)

/* Run a suite; the status of main() */
static inline int util_run(Suite *s)
{
	return check_main(s);
}

static inline struct odp_counters util_counters(struct odp_mr *mr)
{
	struct odp_counters c;

	odp_mr_counters(mr, &c);
	return c;
}

static inline struct odp_mr *util_mr(struct odp_domain *dom, void *addr, size_t len,
				     bool writable)
{
	struct odp_mr_attr attr = {
	    .addr = (uintptr_t)addr,
	    .length = len,
	    .iova = (uintptr_t)addr,
	    .writable = writable,
	    .on_demand = true,
	};
	struct odp_mr *mr;

	ck_assert_int_eq(odp_mr_create(dom, &attr, &mr), 0);
	return mr;
}

static inline struct odp_mr *util_implicit(struct odp_domain *dom)
{
	struct odp_mr_attr attr = {
	    .length = SIZE_MAX,
	    .writable = true,
	    .on_demand = true,
	    .implicit = true,
	};
	struct odp_mr *mr;

	ck_assert_int_eq(odp_mr_create(dom, &attr, &mr), 0);
	return mr;
}

/*
 * Must the access be made again, because its pages are being fetched, or because somebody
 * changed memory each time while they were (it may try at once)? Waits a little if so;
 * whoever waits longer than a fault may take sees the test's own timeout.
 */
static inline bool util_again(int ret, const struct odp_access *acc)
{
	if (ret != -EAGAIN ||
	    (acc->ready_at != ODP_WHEN_RESOLVED && acc->ready_at > acc->now))
		return false;
	usleep(100);
	return true;
}

/* Read or write as the HCA does, as often as it takes */
static inline int util_read_n(struct odp_mr *mr, const void *p, void *to, size_t len)
{
	struct odp_access acc = {0};
	int ret;

	do
		ret = odp_read(mr, (uintptr_t)p, to, len, &acc);
	while (util_again(ret, &acc));
	return ret;
}

static inline int util_write_n(struct odp_mr *mr, const void *p, const void *from,
			       size_t len)
{
	struct odp_access acc = {0};
	int ret;

	do
		ret = odp_write(mr, (uintptr_t)p, from, len, &acc);
	while (util_again(ret, &acc));
	return ret;
}

/* One byte; read returns it or -errno */
static inline int util_read(struct odp_mr *mr, const void *p)
{
	uint8_t b;
	int ret = util_read_n(mr, p, &b, 1);

	return ret ? ret : b;
}

static inline int util_write(struct odp_mr *mr, const void *p, uint8_t b)
{
	return util_write_n(mr, p, &b, 1);
}

static inline uint64_t util_faults(struct odp_mr *mr)
{
	struct odp_counters c = util_counters(mr);

	return c.read_faults + c.write_faults;
}

static inline void *util_map(size_t len)
{
	void *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

#endif
