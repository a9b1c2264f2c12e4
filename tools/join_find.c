/*
 * join_find.c - what is to be seen in many reports: who differs from the rest, and who is missing; see join.h.
 *
 * Far from the rest is measured by medians and not by means, since one process that is far off would move
 * mean and deviation so much that it hid itself.
 */
#include <stdlib.h>

#include "tools/join.h"

#define OF_ODP(name) (JOIN_ODP + TRACE_ODP_##name)
#define OF_NET(name) (JOIN_NET + TRACE_NET_##name)
#define OF_HW(name)  (JOIN_HW + TRACE_HW_##name)

#define FEW	    4	/* processes: too few to say what is usual */
#define FAR	    6.0 /* distances that half of the processes do not exceed */
#define MEDIAN_PART 0.5

/* clang-format off */
const struct join_metric join_metrics[] = {
	{"tx_packets",		"packets sent",				 OF_NET(tx_pkts),	  JOIN_COUNT, false, 1000},
	{"tx_bytes",		"sent",					 OF_NET(tx_bytes),	  JOIN_BYTES, false, 1 << 20},
	{"rx_bytes",		"received",				 OF_NET(rx_bytes),	  JOIN_BYTES, false, 1 << 20},
	{"faults",		"page faults",				 OF_ODP(read_faults),	  JOIN_COUNT, false, 10},
	{"fault_ns",		"in page faults",			 OF_ODP(fault_ns),	  JOIN_TIME,  false, 1000000},
	{"page_invalidations",	"pages invalidated",			 OF_ODP(pages_invalidated), JOIN_COUNT, false, 10},
	{"evictions",		"pages dropped to keep the bound",	 OF_ODP(evictions),	  JOIN_COUNT, false, 10},
	{"completer_retry_err",	"times sent again",			 OF_HW(COMP_RETRY),	  JOIN_COUNT, false, 10},
	{"rcvd_rnr_err",	"times told that a receiver is not ready", OF_HW(RCV_RNR),	  JOIN_COUNT, false, 10},
	{"failed_faults",	"page faults that found no memory",	 OF_ODP(failed_faults),	  JOIN_COUNT, true,  0},
	{"lost_messages",	"messages lost while a page was waited for", OF_ODP(lost_messages), JOIN_COUNT, true, 0},
	{"retry_exceeded_err",	"requests given up without an answer",	 OF_HW(RETRY_EXCEEDED),	  JOIN_COUNT, true,  0},
	{"retry_rnr_exceeded_err", "requests given up, the receiver not ready", OF_HW(RNR_RETRY_EXCEEDED), JOIN_COUNT, true, 0},
	{"tx_dropped",		"packets that could not be sent",	 OF_NET(tx_dropped),	  JOIN_COUNT, true,  0},
	{"rx_bad_icrc",		"packets with a wrong ICRC",		 OF_NET(rx_bad_icrc),	  JOIN_COUNT, true,  0},
	{"rx_malformed",	"malformed packets",			 OF_NET(rx_malformed),	  JOIN_COUNT, true,  0},
};
/* clang-format on */
const size_t join_n_metrics = sizeof(join_metrics) / sizeof(join_metrics[0]);

static uint64_t plus(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

uint64_t join_value(const struct join_report *r, const struct join_metric *m)
{
	/* a fault is one that reads or one that writes */
	if (m->counter == OF_ODP(read_faults))
		return plus(r->n[OF_ODP(read_faults)], r->n[OF_ODP(write_faults)]);
	return r->n[m->counter];
}

void join_add(uint64_t sum[JOIN_N], const struct join_report *r)
{
	for (size_t i = 0; i < JOIN_N; i++)
		sum[i] = plus(sum[i], r->n[i]);
}

/* --- who differs ------------------------------------------------------------------ */

static int by_size(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return a < b ? -1 : a > b;
}

static uint64_t median(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[(n - 1) / 2];
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Those of one metric behind @out; how many. @v: room for a value of each process */
static size_t outliers_of(const struct join *j, const struct join_metric *m, uint64_t *v,
			  struct join_outlier *out)
{
	uint64_t middle;
	double usual;
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++)
		v[i] = join_value(&j->r[i], m);
	middle = median(v, j->n);
	for (size_t i = 0; i < j->n; i++)
		v[i] = distance(v[i], middle);
	usual = (double)median(v, j->n);
	if (usual < (double)middle * MEDIAN_PART / FAR)
		usual = (double)middle * MEDIAN_PART / FAR;
	for (size_t i = 0; i < j->n; i++) {
		uint64_t value = join_value(&j->r[i], m);
		uint64_t d = distance(value, middle);

		if (!d || d < m->floor || (double)d <= FAR * usual)
			continue;
		out[n++] = (struct join_outlier){&j->r[i], m, value, middle,
						 (double)d / (usual > 1 ? usual : 1)};
	}
	return n;
}

static int by_times(const void *x, const void *y)
{
	const struct join_outlier *a = x, *b = y;

	return a->times > b->times ? -1 : a->times < b->times;
}

size_t join_outliers(const struct join *j, struct join_outlier **out)
{
	uint64_t *v = calloc(j->n + 1, sizeof(*v));
	size_t n = 0;

	*out = calloc(j->n * join_n_metrics + 1, sizeof(**out));
	for (size_t i = 0; v && *out && j->n >= FEW && i < join_n_metrics; i++)
		if (!join_metrics[i].wrong)
			n += outliers_of(j, &join_metrics[i], v, *out + n);
	if (n)
		qsort(*out, n, sizeof(**out), by_times);
	free(v);
	return n;
}

/* --- who is missing --------------------------------------------------------------- */

uint64_t join_missing(const struct join *j, uint64_t ranks,
		      void (*each)(void *arg, uint64_t first, uint64_t last), void *arg)
{
	uint64_t next = 0, missing = 0;

	for (size_t i = 0; i < j->n && j->r[i].rank != JOIN_NO_RANK; i++) {
		uint64_t rank = (uint64_t)j->r[i].rank;

		if (ranks && rank >= ranks)
			break;
		if (rank > next) {
			each(arg, next, rank - 1);
			missing += rank - next;
		}
		next = rank + 1;
	}
	if (ranks > next) {
		each(arg, next, ranks - 1);
		missing += ranks - next;
	}
	return missing;
}
