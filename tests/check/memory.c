/* memory.c - programs that take memory away from the HCA, or bring it in for nothing */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "corpus.h"
#include "kit.h"

#define SIGNALED IBV_SEND_SIGNALED
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define REMOTE	 (LOCAL | IBV_ACCESS_REMOTE_WRITE)
#define LARGE	 (64u << 20)
#define LEN	 (4 * KIT_PAGE)

/* struct pair - left writes from @from to @to */
struct pair {
	struct kit k;
	char *from, *to;
	struct ibv_mr *from_mr, *to_mr;
};

static void write_all(struct pair *p)
{
	NEED(!kit_rdma(p->k.left, IBV_WR_RDMA_WRITE, p->from_mr, p->from, LEN, p->to,
		       p->to_mr->rkey, SIGNALED));
	kit_good(p->k.left_cq);
}

static void pair_open(struct pair *p)
{
	kit_open(&p->k);
	p->from = kit_map(LEN);
	p->to = kit_map(LEN);
	p->from_mr = kit_reg(&p->k, p->from, LEN, LOCAL);
	p->to_mr = kit_reg(&p->k, p->to, LEN, REMOTE);
	write_all(p);
}

static void pair_close(struct pair *p)
{
	kit_destroy_qps(&p->k);
	kit_dereg(p->from_mr);
	kit_dereg(p->to_mr);
	kit_close_rest(&p->k);
}

static void replace(char *p, size_t len)
{
	NEED(mmap(p, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		  -1, 0) == p);
}

/* The right one registers again what is new. */
static void pinned_remapped(bool wrong)
{
	struct pair p;

	pair_open(&p);
	replace(p.from, LEN);
	if (!wrong) {
		kit_dereg(p.from_mr);
		p.from_mr = kit_reg(&p.k, p.from, LEN, LOCAL);
	}
	write_all(&p);
	pair_close(&p);
}

/* The last page, moved away, and used by the peer */
static void pinned_remapped_moved(bool wrong)
{
	struct pair p;
	char *away;

	pair_open(&p);
	away = mremap(p.to + LEN - KIT_PAGE, KIT_PAGE, KIT_PAGE,
		      MREMAP_MAYMOVE | MREMAP_FIXED, kit_map(KIT_PAGE));
	NEED(away != MAP_FAILED);
	replace(p.to + LEN - KIT_PAGE, KIT_PAGE);
	if (!wrong) {
		kit_dereg(p.to_mr);
		p.to_mr = kit_reg(&p.k, p.to, LEN, REMOTE);
	}
	write_all(&p);
	pair_close(&p);
}

/* The right one lets the HCA find its pages when it needs them. */
static void pinned_discarded(bool wrong)
{
	struct pair p;

	pair_open(&p);
	kit_dereg(p.from_mr);
	p.from_mr =
	    kit_reg(&p.k, p.from, LEN, LOCAL | (wrong ? 0 : IBV_ACCESS_ON_DEMAND));
	NEED(!madvise(p.from, LEN, MADV_DONTNEED));
	write_all(&p);
	pair_close(&p);
}

/* struct part - what a thread discards */
struct part {
	char *p;
};

static void discard(void *arg)
{
	struct part *part = arg;

	NEED(!madvise(part->p, KIT_PAGE, MADV_DONTNEED));
}

static void pinned_discarded_by_a_thread(bool wrong)
{
	char *other = kit_map(KIT_PAGE);
	struct part part;
	struct pair p;

	pair_open(&p);
	part.p = wrong ? p.to + KIT_PAGE : other;
	kit_in_thread(discard, &part);
	write_all(&p);
	pair_close(&p);
}

static void fork_once(void *unused)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(0);
	NEED(waitpid(pid, &status, 0) == pid && !status);
}

static void fork_pinned(bool wrong)
{
	struct pair p;

	pair_open(&p);
	if (!wrong) {
		NEED(!madvise(p.from, LEN, MADV_DONTFORK));
		NEED(!madvise(p.to, LEN, MADV_DONTFORK));
	}
	fork_once(NULL);
	pair_close(&p);
}

static void fork_pinned_by_a_thread(bool wrong)
{
	struct pair p;

	pair_open(&p);
	if (!wrong) {
		kit_dereg(p.from_mr);
		kit_dereg(p.to_mr);
	}
	kit_in_thread(fork_once, NULL);
	if (!wrong) {
		p.from_mr = kit_reg(&p.k, p.from, LEN, LOCAL);
		p.to_mr = kit_reg(&p.k, p.to, LEN, REMOTE);
		write_all(&p);
	}
	pair_close(&p);
}

/* The child goes on with what its parent has opened, in @act; the right one's parent does. */
static void act_in_child(bool wrong, void (*act)(struct pair *p))
{
	struct pair p;
	int status;
	pid_t child;

	NEED(!ibv_fork_init());
	pair_open(&p);
	NEED((child = fork()) >= 0);
	if (!child) {
		if (wrong)
			act(&p);
		_exit(0);
	}
	NEED(waitpid(child, &status, 0) == child && !status);
	if (!wrong)
		act(&p);
	pair_close(&p);
}

static void post_one(struct pair *p)
{
	struct ibv_wc wc;

	kit_rdma(p->k.left, IBV_WR_RDMA_WRITE, p->from_mr, p->from, 64, p->to,
		 p->to_mr->rkey, SIGNALED);
	kit_sleep(20);
	ibv_poll_cq(p->k.left_cq, 1, &wc);
}

static void poll_one(struct pair *p)
{
	struct ibv_wc wc;

	ibv_poll_cq(p->k.right_cq, 1, &wc);
}

static void used_after_fork(bool wrong)
{
	act_in_child(wrong, post_one);
}

static void used_after_fork_to_poll(bool wrong)
{
	act_in_child(wrong, poll_one);
}

static int prefetch(struct pair *p, struct ibv_mr *mr, uint32_t len, uint32_t flags)
{
	struct ibv_sge range = {(uintptr_t)mr->addr, len, mr->lkey};

	return ibv_advise_mr(p->k.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flags, &range,
			     1);
}

static void prefetch_of(struct pair *p, bool wrong, uint32_t flags)
{
	struct ibv_mr *mr;

	pair_open(p);
	mr = kit_reg(&p->k, kit_map(LEN), LEN, LOCAL | IBV_ACCESS_ON_DEMAND);
	NEED(!prefetch(p, mr, LEN, flags));
	kit_sleep(50);
	if (!wrong) {
		NEED(!kit_rdma(p->k.left, IBV_WR_RDMA_WRITE, mr, mr->addr, LEN, p->to,
			       p->to_mr->rkey, SIGNALED));
		kit_good(p->k.left_cq);
	}
	kit_dereg(mr);
	pair_close(p);
}

static void prefetch_unused(bool wrong)
{
	struct pair p;

	prefetch_of(&p, wrong, IBV_ADVISE_MR_FLAG_FLUSH);
}

static void prefetch_unused_in_the_background(bool wrong)
{
	struct pair p;

	prefetch_of(&p, wrong, 0);
}

/* It is on its way already when the memory is brought in; the right one waits for the memory. */
static void prefetch_late(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(LEN), LEN, LOCAL | IBV_ACCESS_ON_DEMAND);
	if (!wrong)
		NEED(!prefetch(&p, mr, LEN, IBV_ADVISE_MR_FLAG_FLUSH));
	NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_WRITE, mr, (char *)mr->addr + 100, 64, p.to,
		       p.to_mr->rkey, SIGNALED));
	if (wrong)
		NEED(!prefetch(&p, mr, LEN, IBV_ADVISE_MR_FLAG_FLUSH));
	kit_good(p.k.left_cq);
	kit_dereg(mr);
	pair_close(&p);
}

/* It has only begun, and the last page is far away. */
static void prefetch_late_in_the_background(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(LARGE), LARGE, LOCAL | IBV_ACCESS_ON_DEMAND);
	NEED(!prefetch(&p, mr, LARGE, wrong ? 0 : IBV_ADVISE_MR_FLAG_FLUSH));
	/* from the end to the begin */
	for (uint64_t at = LARGE - 64; at < LARGE; at -= LARGE - 64) {
		NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_WRITE, mr, (char *)mr->addr + at, 64,
			       p.to, p.to_mr->rkey, SIGNALED));
		kit_good(p.k.left_cq);
	}
	kit_dereg(mr);
	pair_close(&p);
}

/* All of a large region, for one page */
static void prefetch_unused_but_one_page(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(64 * KIT_PAGE), 64 * KIT_PAGE,
		     LOCAL | IBV_ACCESS_ON_DEMAND);
	NEED(!prefetch(&p, mr, (wrong ? 64 : 8) * KIT_PAGE, IBV_ADVISE_MR_FLAG_FLUSH));
	NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_WRITE, mr, (char *)mr->addr + KIT_PAGE, 64,
		       p.to, p.to_mr->rkey, SIGNALED));
	kit_good(p.k.left_cq);
	kit_dereg(mr);
	pair_close(&p);
}

/* All pages of a region in turn, of which 8 may be present */
static void in_turn(uint32_t n, int rounds, bool prefetches)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(n * KIT_PAGE), n * KIT_PAGE,
		     LOCAL | IBV_ACCESS_ON_DEMAND);
	for (int round = 0; round < rounds; round++) {
		if (prefetches)
			NEED(!prefetch(&p, mr, n * KIT_PAGE, IBV_ADVISE_MR_FLAG_FLUSH));
		for (uint32_t i = 0; i < (prefetches ? 1 : n); i++) {
			NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_WRITE, mr,
				       (char *)mr->addr + i * KIT_PAGE,
				       prefetches ? LEN : 64, p.to, p.to_mr->rkey,
				       SIGNALED));
			kit_good(p.k.left_cq);
		}
	}
	kit_dereg(mr);
	pair_close(&p);
}

static void page_bounces(bool wrong)
{
	in_turn(wrong ? 16 : 6, 3, false);
}

static void page_bounces_of_prefetches(bool wrong)
{
	in_turn(wrong ? 16 : 6, 3, true);
}

/* To come back once is no bounce. */
static void page_bounces_again(bool wrong)
{
	in_turn(16, wrong ? 3 : 2, false);
}

static void advise_failed(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(LEN), LEN, LOCAL | IBV_ACCESS_ON_DEMAND);
	prefetch(&p, mr, LEN + wrong, IBV_ADVISE_MR_FLAG_FLUSH);
	NEED(!kit_recv(p.k.right, mr, mr->addr, LEN));
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

/* Of a region that is not on demand */
static void advise_failed_pinned(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(LEN), LEN, LOCAL | (wrong ? 0 : IBV_ACCESS_ON_DEMAND));
	prefetch(&p, mr, LEN, IBV_ADVISE_MR_FLAG_FLUSH);
	NEED(!kit_recv(p.k.right, mr, mr->addr, LEN));
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

/* The call succeeds, and what it began does not. */
static void advise_failed_later(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(LEN), LEN, LOCAL | IBV_ACCESS_ON_DEMAND);
	if (wrong)
		NEED(!munmap((char *)mr->addr + KIT_PAGE, KIT_PAGE));
	prefetch(&p, mr, LEN, 0);
	kit_sleep(300);
	NEED(!kit_recv(p.k.right, mr, mr->addr, KIT_PAGE));
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

/* A buffer that is given back after each message; the right one brings it in again before the next */
static void faults_again(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(LEN), LEN, LOCAL | IBV_ACCESS_ON_DEMAND);
	for (int i = 0; i < 6; i++) {
		NEED(!madvise(mr->addr, LEN, MADV_DONTNEED));
		if (!wrong)
			NEED(!prefetch(&p, mr, LEN, IBV_ADVISE_MR_FLAG_FLUSH));
		NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_WRITE, mr, mr->addr, LEN, p.to,
			       p.to_mr->rkey, SIGNALED));
		kit_good(p.k.left_cq);
	}
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

/* The peer's requests fault; the right one is another page each time. */
static void faults_again_for_the_peer(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(8 * KIT_PAGE), 8 * KIT_PAGE,
		     REMOTE | IBV_ACCESS_ON_DEMAND);
	for (int i = 0; i < 6; i++) {
		char *to = (char *)mr->addr + (wrong ? 100 : i * KIT_PAGE);

		NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_WRITE, p.from_mr, p.from, 64, to,
			       mr->rkey, SIGNALED));
		kit_good(p.k.left_cq);
		NEED(!madvise(mr->addr, 8 * KIT_PAGE, MADV_DONTNEED));
	}
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

const struct program memory_programs[] = {
    {"pinned-remapped", "plain", pinned_remapped},
    {"pinned-remapped", "moved-for-the-peer", pinned_remapped_moved},
    {"pinned-discarded", "plain", pinned_discarded},
    {"pinned-discarded", "thread", pinned_discarded_by_a_thread},
    {"fork-pinned", "plain", fork_pinned},
    {"fork-pinned", "thread", fork_pinned_by_a_thread},
    {"used-after-fork", "plain", used_after_fork},
    {"used-after-fork", "poll", used_after_fork_to_poll},
    {"prefetch-late", "plain", prefetch_late},
    {"prefetch-late", "background", prefetch_late_in_the_background},
    {"prefetch-unused", "plain", prefetch_unused},
    {"prefetch-unused", "background", prefetch_unused_in_the_background},
    {"prefetch-unused", "but-one-page", prefetch_unused_but_one_page},
    {"page-bounces", "plain", page_bounces},
    {"page-bounces", "again", page_bounces_again},
    {"page-bounces", "prefetch", page_bounces_of_prefetches},
    {"advise-failed", "plain", advise_failed},
    {"advise-failed", "pinned", advise_failed_pinned},
    {"advise-failed", "background", advise_failed_later},
    {"faults-again", "plain", faults_again},
    {"faults-again", "for-the-peer", faults_again_for_the_peer},
    {NULL, NULL, NULL},
};
