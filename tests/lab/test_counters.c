/*
 * Description: each counter of on-demand paging, in scenarios of a few requests, against what it
 * must be by the definitions of urxe.h. The figures are worked out by hand, and are the same in
 * all fault models, but for the hits: a fault that is waited for makes its access come again,
 * as a hit.
 *
 * What the models send in between (RNR NAKs, requests that are sent again) does not count.
 */
#include "lab.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGES	64
#define LATENCY 1000000ull /* ns */
#define PACKET	LAB_PAGE   /* path MTU */

static struct lab l;
static char *mem, *pinned;
static struct ibv_mr *odp, *other;

/* --- what requests do ------------------------------------------------------------- */

static void write_to(size_t off, uint32_t len)
{
	ck_assert_int_eq(lab_write(&l, other, pinned, odp, mem + off, len),
			 IBV_WC_SUCCESS);
}

static void write_from(size_t off, uint32_t len)
{
	ck_assert_int_eq(lab_write(&l, odp, mem + off, other, pinned, len),
			 IBV_WC_SUCCESS);
}

static void read_from(size_t off, uint32_t len)
{
	ck_assert_int_eq(lab_read(&l, other, pinned, odp, mem + off, len),
			 IBV_WC_SUCCESS);
}

static void read_to(size_t off, uint32_t len)
{
	ck_assert_int_eq(lab_read(&l, odp, mem + off, other, pinned, len),
			 IBV_WC_SUCCESS);
}

static void advise(enum ibv_advise_mr_advice advice, size_t off, uint32_t len)
{
	ck_assert_int_eq(
	    lab_advise(&l, advice, IBV_ADVISE_MR_FLAG_FLUSH, odp, mem + off, len), 0);
}

/* A SEND of the pages 0, 20 and 40, 100 bytes of each, from @from to as many of @to */
static void send_three(struct ibv_mr *from, char *src, struct ibv_mr *to, char *dst)
{
	struct ibv_sge out[3], in[3];
	struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = in, .num_sge = 3}, *bad;
	struct ibv_send_wr send = {.wr_id = 1,
				   .sg_list = out,
				   .num_sge = 3,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED};

	for (unsigned int i = 0; i < 3; i++) {
		out[i] =
		    (struct ibv_sge){(uintptr_t)src + i * 20 * LAB_PAGE, 100, from->lkey};
		in[i] =
		    (struct ibv_sge){(uintptr_t)dst + i * 20 * LAB_PAGE, 100, to->lkey};
	}
	ck_assert_int_eq(ibv_post_recv(l.right, &recv, &bad), 0);
	lab_post(l.left, &send);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
}

/* --- scenarios -------------------------------------------------------------------- */

static void one_page(void)
{
	write_to(0, 8);
}

static void last_byte(void)
{
	write_to(PAGES * LAB_PAGE - 1, 1);
}

static void page_twice(void)
{
	write_to(0, 8);
	write_to(100, 8);
}

static void over_a_boundary(void)
{
	write_to(LAB_PAGE - 4, 8);
}

static void message(void)
{
	write_to(0, 16 * PACKET);
}

static void unaligned_message(void)
{
	write_to(2048, 16 * PACKET);
}

static void read_remotely(void)
{
	read_from(0, 16 * PACKET);
}

static void written_from_here(void)
{
	write_from(0, 16 * PACKET);
}

static void read_into_here(void)
{
	read_to(0, 16 * PACKET);
}

static void sent_from_three(void)
{
	send_three(odp, mem, other, pinned);
}

static void received_in_three(void)
{
	send_three(other, pinned, odp, mem);
}

static void added_there(void)
{
	ck_assert_int_eq(
	    lab_add(&l, other, (uint64_t *)pinned, odp, (uint64_t *)(mem + LAB_PAGE), 1),
	    IBV_WC_SUCCESS);
}

static void result_here(void)
{
	ck_assert_int_eq(
	    lab_add(&l, odp, (uint64_t *)(mem + LAB_PAGE), other, (uint64_t *)pinned, 1),
	    IBV_WC_SUCCESS);
}

static void read_then_written(void)
{
	read_from(0, 8);
	write_to(0, 8);
}

static void written_then_read(void)
{
	write_to(0, 8);
	read_from(0, 8);
}

static void prefetched_read(void)
{
	advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 16 * LAB_PAGE);
	read_from(0, 16 * PACKET);
}

static void prefetched_write(void)
{
	advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 16 * LAB_PAGE);
	write_to(0, 16 * PACKET);
}

static void prefetched_twice(void)
{
	advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 2 * LAB_PAGE);
	advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 3 * LAB_PAGE);
}

/* Readable only: the write needs more. */
static void prefetched_too_little(void)
{
	advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 4 * LAB_PAGE);
	write_to(0, 4 * PACKET);
}

static void replaced(void)
{
	write_to(0, 2 * PACKET);
	ck_assert(mmap(mem, LAB_PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	write_to(0, 2 * PACKET);
}

static void discarded_in_the_middle(void)
{
	write_to(0, 4 * PACKET);
	ck_assert_int_eq(madvise(mem + LAB_PAGE, 2 * LAB_PAGE, MADV_DONTNEED), 0);
	write_to(0, 4 * PACKET);
}

static void not_there(void)
{
	ck_assert_int_eq(munmap(mem + 4 * LAB_PAGE, LAB_PAGE), 0);
	ck_assert_int_eq(lab_write(&l, other, pinned, odp, mem + 4 * LAB_PAGE, 8),
			 IBV_WC_REM_ACCESS_ERR);
}

static void nothing_at_all(void)
{
	write_to(0, 0);
}

/*
 * @local, @remote: faults; @write: so many of these were writes. @hits: without a wait, and
 * @again more with one
 */
static const struct scenario {
	void (*run)(void);
	unsigned int local, remote, write, failed, pages;
	unsigned int invalidations, invalidated;
	unsigned int prefetches, prefetched, saved;
	unsigned int hits, again, cached;
} scenarios[] = {
    {one_page, .remote = 1, .write = 1, .pages = 1, .again = 1, .cached = 1},
    {last_byte, .remote = 1, .write = 1, .pages = 1, .again = 1, .cached = 1},
    {page_twice, .remote = 1, .write = 1, .pages = 1, .hits = 1, .again = 1, .cached = 1},
    {over_a_boundary, .remote = 1, .write = 1, .pages = 2, .again = 1, .cached = 2},
    {message, .remote = 1, .write = 1, .pages = 16, .hits = 15, .again = 1, .cached = 16},
    {unaligned_message, .remote = 1, .write = 1, .pages = 17, .hits = 15, .again = 1,
     .cached = 17},
    {read_remotely, .remote = 1, .pages = 16, .hits = 15, .again = 1, .cached = 16},
    {written_from_here, .local = 1, .pages = 16, .hits = 15, .again = 1, .cached = 16},
    {read_into_here, .local = 1, .write = 1, .pages = 16, .hits = 15, .again = 1,
     .cached = 16},
    {sent_from_three, .local = 1, .pages = 3, .hits = 2, .again = 1, .cached = 3},
    {received_in_three, .remote = 1, .write = 1, .pages = 3, .hits = 2, .again = 1,
     .cached = 3},
    {added_there, .remote = 1, .write = 1, .pages = 1, .again = 1, .cached = 1},
    {result_here, .local = 1, .write = 1, .pages = 1, .again = 1, .cached = 1},
    {read_then_written, .remote = 2, .write = 1, .pages = 2, .again = 2, .cached = 1},
    {written_then_read, .remote = 1, .write = 1, .pages = 1, .hits = 1, .again = 1,
     .cached = 1},
    {prefetched_read, .prefetches = 1, .prefetched = 16, .saved = 16, .hits = 16,
     .cached = 16},
    {prefetched_write, .prefetches = 1, .prefetched = 16, .saved = 16, .hits = 16,
     .cached = 16},
    {prefetched_twice, .prefetches = 2, .prefetched = 3, .cached = 3},
    {prefetched_too_little, .remote = 1, .write = 1, .pages = 4, .prefetches = 1,
     .prefetched = 4, .hits = 3, .again = 1, .cached = 4},
    {replaced, .remote = 2, .write = 2, .pages = 3, .invalidations = 1, .invalidated = 1,
     .hits = 2, .again = 2, .cached = 2},
    /* the first page is a hit, the second a fault that takes in the third */
    {discarded_in_the_middle, .remote = 2, .write = 2, .pages = 6, .invalidations = 1,
     .invalidated = 2, .hits = 6, .again = 2, .cached = 4},
    {not_there, .remote = 1, .write = 1, .failed = 1},
    {nothing_at_all},
};
#define SCENARIOS ((int)(sizeof(scenarios) / sizeof(scenarios[0])))

/* Synchronous at once, and the five models that wait */
static const struct {
	enum urxe_fault_model model;
	uint64_t latency;
} models[] = {
    {URXE_FAULT_SYNC, 0},	   {URXE_FAULT_SYNC, LATENCY},
    {URXE_FAULT_RNR, LATENCY},	   {URXE_FAULT_DROP, LATENCY},
    {URXE_FAULT_DAMMING, LATENCY}, {URXE_FAULT_FLOOD, LATENCY},
};
#define MODELS ((int)(sizeof(models) / sizeof(models[0])))

static void begin(int model)
{
	mem = lab_map(PAGES);
	pinned = lab_map(PAGES);
	lab_open(&l);
	/* where nothing is lost nothing is sent again, however busy the machine */
	l.timeout = models[model].model == URXE_FAULT_DROP ||
			    models[model].model == URXE_FAULT_DAMMING
			? 12
			: 0;
	lab_connect(&l);
	other = lab_reg(&l, pinned, PAGES * LAB_PAGE, LAB_ACCESS);
	odp = lab_reg(&l, mem, PAGES * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(
	    urxe_mr_set_fault_model(odp, models[model].model, models[model].latency), 0);
}

static void end(void)
{
	ibv_dereg_mr(odp);
	ibv_dereg_mr(other);
	lab_close(&l);
}

/* May requests or responses come more often than they are needed? */
static bool repeats(int model)
{
	return models[model].model == URXE_FAULT_DROP ||
	       models[model].model == URXE_FAULT_DAMMING ||
	       models[model].model == URXE_FAULT_FLOOD;
}

#define SAME(field, want)                                                                \
	ck_assert_msg(c.field == (want), "scenario %d, model %d: %s is %llu, not %llu",  \
		      s, m, #field, (unsigned long long)c.field,                         \
		      (unsigned long long)(want))

START_TEST(are_what_they_must_be)
{
	int s = _i % SCENARIOS, m = _i / SCENARIOS;
	const struct scenario *want = &scenarios[s];
	unsigned int faults = want->local + want->remote;
	unsigned int hits = want->hits + (models[m].latency ? want->again : 0);
	struct urxe_counters c;

	begin(m);
	want->run();
	c = lab_counters(odp);
	SAME(local_faults, want->local);
	SAME(remote_faults, want->remote);
	SAME(write_faults, want->write);
	SAME(read_faults, faults - want->write);
	SAME(failed_faults, want->failed);
	SAME(page_faults, want->pages);
	SAME(invalidations, want->invalidations);
	SAME(page_invalidations, want->invalidated);
	SAME(prefetches, want->prefetches);
	SAME(page_prefetch, want->prefetched);
	SAME(prefetch_hits, want->saved);
	SAME(pages_cached, want->cached);
	SAME(evictions, 0);
	SAME(fault_retries, 0);
	if (repeats(m))
		ck_assert_uint_ge(c.cache_hits, hits);
	else
		SAME(cache_hits, hits);
	ck_assert_uint_ge(c.fault_ns, faults * models[m].latency);
	if (!faults)
		SAME(fault_ns, 0);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("counters");
	TCase *tc = tcase_create("scenarios");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, are_what_they_must_be, 0, SCENARIOS * MODELS);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
