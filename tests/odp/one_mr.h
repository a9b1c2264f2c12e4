/*
 * one_mr.h - what tests of faults and of page tables have in common: a domain over a simulated
 * operating system, one MR in it, and accesses by page and time.
 */
#ifndef URXE_TESTS_ODP_ONE_MR_H
#define URXE_TESTS_ODP_ONE_MR_H

#include "tests/odp/sim_os.h"

static struct sim_os *os;
static struct odp_domain *dom;
static struct odp_mr *mr;

/* A domain, and an MR over the first @pages pages */
static inline void begin(struct odp_config cfg, unsigned int pages, bool writable)
{
	os = sim_new();
	ck_assert_int_eq(odp_domain_create(&cfg, &sim_ops, os, &dom), 0);
	mr = util_mr(dom, sim_page(0), pages * PAGE, writable);
	odp_mr_set_label(mr, 0x42, "m");
}

static inline void end(void)
{
	odp_mr_put(mr);
	odp_domain_destroy(dom);
	free(os);
}

static inline int read_at(unsigned int page, size_t len, uint64_t now,
			  struct odp_access *acc)
{
	static uint8_t buf[64 * PAGE];

	*acc = (struct odp_access){.now = now, .remote = true};
	return odp_read(mr, (uintptr_t)sim_page(page), buf, len, acc);
}

static inline int write_at(unsigned int page, size_t len, uint64_t now,
			   struct odp_access *acc)
{
	static const uint8_t buf[64 * PAGE];

	*acc = (struct odp_access){.now = now, .remote = true};
	return odp_write(mr, (uintptr_t)sim_page(page), buf, len, acc);
}

static inline uint8_t state_of(unsigned int page)
{
	uint8_t map;

	ck_assert_uint_eq(odp_mr_page_map(mr, (uintptr_t)sim_page(page), &map, 1), 1);
	return map;
}

static inline TCase *tcase(Suite *s, const char *name)
{
	TCase *tc = tcase_create(name);

	tcase_set_timeout(tc, 30);
	suite_add_tcase(s, tc);
	return tc;
}

#endif
