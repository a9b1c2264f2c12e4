/*
 * reads.c - the program reads what it has not been told yet that it may: receive buffers and targets of
 * READs before their completion, and memory that peers write to, again and again, until something has
 * come.
 *
 * Theory of operation
 *
 * watch.c can watch one place at a time. Here is chosen which one: the next that comes when
 * there is none, or when the one there is has been looked at long enough. So these faults
 * are found by chance, and soon in a program that does it each time.
 *
 * What touches a buffer may write to it, too, which is receive-touched and shows in its content. The
 * functions of libc for strings read up to 63 bytes before and behind what they are given, so
 * that an access of theirs tells nothing unless they could not come from outside.
 *
 * Who reads the same byte from the same instruction several times in a row, each time soon after the
 * last, waits for it to change.
 */
#include "check/reads.h"

#include <inttypes.h>
#include <string.h>

#include "check/check.h"
#include "check/watch.h"

#define LONG	10000000u /* ns: another place may be watched then */
#define AT_ONCE 5000000u  /* ns, after which others may have told the program more */
#define EAGER	64	  /* messages beside a WRITE that are looked at without a pause */
#define SPINS	4	  /* reads in a row */
#define SOON	50000u	  /* ns */
#define BLOCK	64u	  /* bytes, whose borders no function of libc reads across */
#define WORD	8u

/*
 * What is watched: @use, or memory of @mr that a peer writes to; @told: the QP that has told something else
 * meanwhile. @begun: since when
 */
static struct {
	struct check_use *use;
	const struct check_object *mr, *told;
	uint64_t addr, len, begun;
} now;

static unsigned int n_told;

static bool is_libc(uint64_t pc)
{
	const char *name = check_file_of((void *)(uintptr_t)pc), *base;

	base = name ? strrchr(name, '/') : NULL;
	return base && (!strncmp(base, "/libc.", 6) || !strncmp(base, "/libc-", 6));
}

/* May the access have been meant for what is beside the buffer? */
static bool is_beside(const struct check_hit *h)
{
	uint64_t begin = now.addr / BLOCK, end = (now.addr + now.len - 1) / BLOCK;

	if (!is_libc(h->pc))
		return false;
	return (h->addr / BLOCK == begin && now.addr % BLOCK) ||
	       (h->addr / BLOCK == end && (now.addr + now.len) % BLOCK);
}

/* Was it read there, and not written to? */
static bool is_read(const struct check_use *u, const struct check_hit *h)
{
	const struct check_request *r = u->request;

	if (is_beside(h))
		return false;
	if (!r->receive || (r->taken_at && h->at > r->taken_at))
		return true;
	/* before: it may have been written to, which only the content tells */
	return u->hashed && (r->taken_at ? !r->touched : !check_is_changed(u));
}

static void look_at_use(const struct check_hit *hits, unsigned int n)
{
	const struct check_use *u = now.use;
	char what[96];

	while (n && !is_read(u, hits)) {
		hits++;
		n--;
	}
	if (!n || !check_is_alone(u) || !check_is_active(u->request) ||
	    check_ignored(u->addr, u->len))
		return;
	const struct check_with with[] = {
	    {"read", check_stack_at((void *)(uintptr_t)hits->pc)},
	    {"posted", u->request->posted}};
	check_report(CHECK_RECEIVE_READ, with, 2,
		     "%s, %" PRIu64 " bytes at 0x%" PRIx64 ", of which 0x%" PRIx64
		     " was read",
		     check_request_name(u->request, what), u->len, u->addr, hits->addr);
}

/* How many hits there are in a row from the instruction of the first one */
static unsigned int in_a_row(const struct check_hit *hits, unsigned int n)
{
	uint64_t last = hits->at;
	unsigned int row = 1;

	for (unsigned int i = 1; i < n; i++) {
		if (hits[i].pc != hits->pc || hits[i].addr != hits->addr)
			continue;
		if (hits[i].at - last > SOON)
			break;
		last = hits[i].at;
		row++;
	}
	return row;
}

static void look_at_memory(const struct check_hit *hits, unsigned int n)
{
	char name[64];

	while (n && in_a_row(hits, n) < SPINS) {
		hits++;
		n--;
	}
	if (!n || check_ignored(hits->addr, 1))
		return;
	const struct check_with with[] = {
	    {"read", check_stack_at((void *)(uintptr_t)hits->pc)},
	    {"registered for the peer", now.mr->made}};
	check_report(CHECK_MEMORY_POLLED, with, 2,
		     "the byte at 0x%" PRIx64 " of %s, of %" PRIu64 " at 0x%" PRIx64
		     " that a peer writes",
		     hits->addr, check_object_name(now.mr, name), now.len, now.addr);
}

static void look_at_other(const struct check_hit *hits, unsigned int n)
{
	char name[64];

	while (n && (is_beside(hits) || hits->at - now.begun > AT_ONCE)) {
		hits++;
		n--;
	}
	if (!n || check_ignored(hits->addr, WORD))
		return;
	const struct check_with with[] = {
	    {"read", check_stack_at((void *)(uintptr_t)hits->pc)},
	    {"registered for the peer", now.mr->made},
	    {"QP of the message made", now.told->made}};
	check_report(CHECK_OTHER_QP_TOLD, with, 3,
		     "0x%" PRIx64 " of %s, after a message of QP %u, while another QP "
		     "wrote %" PRIu64 " bytes there",
		     hits->addr, check_object_name(now.mr, name), now.told->id, now.len);
}

/* No more; what was there to see? */
static void end(void)
{
	struct check_hit hits[CHECK_HITS];
	unsigned int n;

	if (!now.begun)
		return;
	n = check_watch_end(hits);
	if (n && now.use)
		look_at_use(hits, n);
	else if (n && !now.mr->gone && now.told)
		look_at_other(hits, n);
	else if (n && !now.mr->gone)
		look_at_memory(hits, n);
	now.begun = 0;
	now.told = NULL;
	now.use = NULL;
}

static bool begin(uint64_t addr, uint64_t len, unsigned int width, bool at_once)
{
	uint64_t at = check_now();

	if (now.begun && at - now.begun > LONG)
		end();
	if (now.begun || !check_watch_begin(addr, len, width, at_once))
		return false;
	now.addr = addr;
	now.len = len;
	now.begun = at;
	return true;
}

void check_reads_begin(struct check_use *u)
{
	if (check_wants(CHECK_RECEIVE_READ) && u->piece &&
	    begin(u->addr, u->len, WORD, false))
		now.use = u;
}

void check_reads_end(const struct check_request *r)
{
	if (now.use && now.use->request == r)
		end();
}

void check_reads_peer(const struct check_object *mr, uint64_t addr, uint64_t len)
{
	if (check_wants(CHECK_MEMORY_POLLED) && begin(addr, len, 1, false)) {
		now.mr = mr;
		now.use = NULL;
	}
}

void check_reads_told(struct check_object *qp)
{
	struct check_span s = qp->qp.told;

	if (!s.end)
		return;
	qp->qp.told = (struct check_span){0, 0};
	/* whatever else is watched: this is rarer */
	if (now.begun && !now.told)
		end();
	if (!check_wants(CHECK_OTHER_QP_TOLD) ||
	    !begin(s.begin, s.end - s.begin, WORD, n_told < EAGER))
		return;
	n_told++;
	now.mr = qp->qp.told_mr;
	now.told = qp;
}

void check_reads_message(void)
{
	if (!now.use)
		end();
}

void check_reads_exit(void)
{
	end();
}
