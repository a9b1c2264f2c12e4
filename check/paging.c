/*
 * paging.c - what page faults, prefetches and evictions of on-demand regions tell of the program.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/splitmix.h"
#include "check/check.h"
#include "check/objects.h"

#define PAGE	4096u
#define PAGES	1024
#define FAULTS	4 /* of a page: it will not be the last */
#define BOUNCES 2
#define DEVICES 16

/* struct page - of an on-demand region, and how often it has faulted and was evicted */
struct page {
	uint64_t addr;
	uint32_t mr;
	unsigned int faults, evictions;
};

static struct page pages[PAGES];

void check_paging_forget(void)
{
	memset(pages, 0, sizeof(pages));
}

/* Page tables know no device; keys of regions seldom meet. */
static struct check_object *region_anywhere(uint32_t key)
{
	struct check_object *mr = NULL;

	for (uint16_t i = 0; i < DEVICES && !mr; i++) {
		check_device(i);
		mr = check_find(TRACE_OBJ_MR, key);
	}
	return mr;
}

static struct page *page_at(uint32_t mr, uint64_t addr)
{
	return &pages[splitmix_mix(addr / PAGE ^ (uint64_t)mr << 52) % PAGES];
}

static bool is_page(const struct page *p, uint32_t mr, uint64_t addr)
{
	return p->addr == addr / PAGE && p->mr == mr;
}

/* Pages of @mr are there again; which one was evicted all too often? */
static void came_back(const struct check_object *mr, uint64_t addr, uint64_t len)
{
	const struct check_with with[] = {{"registered", mr->made}};
	char name[64];

	for (uint64_t at = addr; at < addr + len && at - addr < PAGES * PAGE;
	     at += PAGE) {
		struct page *p = page_at(mr->id, at);

		if (!is_page(p, mr->id, at) || p->evictions != BOUNCES)
			continue;
		check_report(CHECK_PAGE_BOUNCES, with, 1,
			     "%s: the page of 0x%" PRIx64 " was evicted %u times",
			     check_object_name(mr, name), at, p->evictions);
		p->evictions++; /* told */
	}
}

static void evicted(const struct trace_rec_evict *r)
{
	struct page *p = page_at(r->mr, r->addr);

	if (!is_page(p, r->mr, r->addr))
		*p = (struct page){r->addr / PAGE, r->mr, 0, 0};
	if (p->evictions < BOUNCES)
		p->evictions++;
}

static void prefetched(const struct trace_rec_prefetch *r)
{
	struct check_object *mr = region_anywhere(r->mr);

	if (!mr)
		return;
	const struct check_with with[] = {{"registered", mr->made}};
	mr->mr.prefetching = NULL;
	if (r->pages) {
		check_widen(&mr->mr.fetched, r->addr, r->length);
		came_back(mr, r->addr, r->length);
	}
	if (r->pages && !mr->mr.prefetched)
		mr->mr.prefetched = check_stack();
	if (r->result)
		check_report(CHECK_ADVISE_FAILED, with, 1,
			     "%" PRIu64 " bytes at 0x%" PRIx64 ", in the background: %s",
			     r->length, r->addr, strerror(-r->result));
}

/* A page of @mr faults that is on its way. */
static void overtaken(struct check_object *mr, uint64_t addr)
{
	const struct check_with with[] = {{"advised", mr->mr.prefetching},
					  {"registered", mr->made}};
	char name[64];

	if (!mr->mr.prefetching || addr < mr->mr.ahead_addr ||
	    addr - mr->mr.ahead_addr >= mr->mr.ahead_len)
		return;
	check_report(CHECK_PREFETCH_LATE, with, 2,
		     "the page at 0x%" PRIx64 " of %s faulted before it was brought in",
		     addr, check_object_name(mr, name));
	mr->mr.prefetching = NULL;
}

/* Pages are told apart as long as not too many others fault in between. */
static void faulted(const struct trace_rec_fault *r)
{
	struct check_object *mr = region_anywhere(r->mr);
	struct page *p = page_at(r->mr, r->addr);
	char name[64];

	if (!mr)
		return;
	overtaken(mr, r->addr);
	if (!is_page(p, r->mr, r->addr))
		*p = (struct page){r->addr / PAGE, r->mr, 0, 0};
	came_back(mr, r->addr, 1);
	if (++p->faults != FAULTS)
		return;
	const struct check_with with[] = {{"registered", mr->made}};
	check_report(CHECK_FAULTS_AGAIN, with, 1,
		     "%s: %u faults of the page of 0x%" PRIx64 "%s",
		     check_object_name(mr, name), p->faults, r->addr,
		     r->remote ? ", for a peer" : "");
}

void check_paging(enum trace_kind kind, const void *p)
{
	switch ((unsigned int)kind) {
	case TRACE_KIND_prefetch:
		prefetched(p);
		break;
	case TRACE_KIND_evict:
		evicted(p);
		break;
	case TRACE_KIND_fault:
		faulted(p);
		break;
	default: /* others were not asked for */
		break;
	}
}
