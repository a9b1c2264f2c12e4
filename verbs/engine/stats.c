/*
 * stats.c - the report: collecting, then writing it as a table or as JSON.
 *
 * JSON is written here and not by a library: whatever the preloaded library links with
 * enters the application, where two JSON libraries with names in common can meet.
 */
#include "verbs/engine/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/host/report_text.h"

#define MAP_CELLS  64	/* characters of a page map */
#define CELL_PAGES 1024 /* pages looked at for one of them */

/*
 * struct region - a line of the report
 * @map:	its page table from outside; empty if it has none
 */
struct region {
	struct odp_mr_info info;
	char map[MAP_CELLS + 1];
};

/*
 * struct report - what there is to tell
 * @mr:		the regions
 * @n_mr, @max_mr: how many, and how many there is room for
 * @pinned, @pinned_bytes: live regions that are not on-demand
 * @total:	all on-demand regions there ever were
 */
struct report {
	struct region *mr;
	size_t n_mr, max_mr;
	size_t pinned;
	uint64_t pinned_bytes;
	struct odp_counters total;
	struct odp_caps caps;
	struct net_stats net;
};

/* The counters as they are called outside: in pages as `rdma statistic` names them */
static const struct {
	const char *name;
	size_t offset;
} counters[] = {
#define COUNTER(member, name) {#name, offsetof(struct odp_counters, member)},
    ODP_COUNTER_LIST(COUNTER)
#undef COUNTER
};
#define N_COUNTERS (sizeof(counters) / sizeof(counters[0]))

static uint64_t counter(const struct odp_counters *c, size_t i)
{
	return *(const uint64_t *)((const char *)c + counters[i].offset);
}

static uint64_t faults(const struct odp_counters *c)
{
	return c->read_faults + c->write_faults;
}

/* --- collecting ------------------------------------------------------------------- */

/* One character for @n pages: capital if all are there */
static char cell(const uint8_t *pages, size_t n)
{
	size_t there = 0;
	uint8_t any = 0;
	char c;

	for (size_t i = 0; i < n; i++) {
		there += pages[i] != 0;
		any |= pages[i];
	}
	if (!there)
		return '.';
	c = any & 4 ? 'p' : any & 2 ? 'w' : 'r'; /* bits of odp_mr_page_map() */
	return there == n ? (char)(c - 'a' + 'A') : c;
}

/* Of a large region each cell shows its first pages only. */
static void draw_map(const struct odp_mr_info *info, char map[MAP_CELLS + 1])
{
	uint64_t first, pages, per_cell;
	uint8_t buf[CELL_PAGES];
	size_t n = 0;

	map[0] = '\0';
	if (!info->mr || !info->on_demand || info->implicit || !info->length)
		return;
	first = info->addr / info->page_size;
	pages = (info->addr + info->length - 1) / info->page_size - first + 1;
	per_cell = (pages + MAP_CELLS - 1) / MAP_CELLS;
	for (uint64_t p = 0; p < pages && n < MAP_CELLS; p += per_cell) {
		uint64_t off = p ? (first + p) * info->page_size - info->addr : 0;
		size_t want = per_cell < CELL_PAGES ? per_cell : CELL_PAGES;
		size_t got = odp_mr_page_map(info->mr, info->iova + off, buf, want);

		map[n++] = cell(buf, got);
	}
	map[n] = '\0';
}

static void collect_mr(void *arg, const struct odp_mr_info *info)
{
	struct report *r = arg;

	if (!info->on_demand) {
		r->pinned++;
		r->pinned_bytes += info->length;
	}
	if (r->n_mr == r->max_mr) {
		size_t max = r->max_mr ? 2 * r->max_mr : 64;
		struct region *mr = realloc(r->mr, max * sizeof(*mr));

		if (!mr)
			return; /* the totals still tell */
		r->mr = mr;
		r->max_mr = max;
	}
	r->mr[r->n_mr].info = *info;
	draw_map(info, r->mr[r->n_mr].map);
	r->n_mr++;
}

static void collect(struct engine *e, struct report *r)
{
	memset(r, 0, sizeof(*r));
	odp_domain_each(engine_odp(e), collect_mr, r);
	odp_domain_counters(engine_odp(e), &r->total);
	odp_domain_caps(engine_odp(e), &r->caps);
	net_port_stats(engine_port(e), &r->net);
}

/* --- the table -------------------------------------------------------------------- */

#define TEXT_MRS 32 /* lines of single regions; a program may have thousands */

static void text_row(FILE *out, const char *label, const char *size,
		     const struct odp_counters *c)
{
	const struct report_row row = {
	    .label = label,
	    .size = size,
	    .faults = faults(c),
	    .pages_faulted = c->pages_faulted,
	    .pages_prefetched = c->pages_prefetched,
	    .pages_invalidated = c->pages_invalidated,
	    .cache_hits = c->cache_hits,
	};

	report_row(out, &row);
}

static void text_mr(FILE *out, const struct odp_mr_info *mr)
{
	char label[64], size[32];

	if (mr->name[0])
		snprintf(label, sizeof(label), "%.20s", mr->name);
	else
		snprintf(label, sizeof(label), "0x%08" PRIx32 "%s", mr->key,
			 mr->live ? "" : " (closed)");
	text_row(out, label, mr->implicit ? "all memory" : report_size(mr->length, size),
		 &mr->counters);
}

static void text_faults(FILE *out, const struct odp_counters *c)
{
	uint64_t n = faults(c);
	char buf[5][32];

	if (n) {
		fprintf(out,
			"  %s fault%s: %s by this program's own requests, %s by its "
			"peers' requests;\n  %s on average, %s in total\n",
			report_number(n, buf[0]), n == 1 ? "" : "s",
			report_number(c->local_faults, buf[1]),
			report_number(c->remote_faults, buf[2]),
			report_time(c->fault_ns / n, buf[3]),
			report_time(c->fault_ns, buf[4]));
	}
	if (c->failed_faults)
		fprintf(out,
			"  %s found no memory behind the address: the request failed\n",
			report_number(c->failed_faults, buf[0]));
	if (c->pages_prefetched)
		fprintf(
		    out, "  %s page%s prefetched by %s request%s; %s used afterwards\n",
		    report_number(c->pages_prefetched, buf[0]),
		    c->pages_prefetched == 1 ? "" : "s",
		    report_number(c->prefetches, buf[1]), c->prefetches == 1 ? "" : "s",
		    report_number(c->prefetch_hits, buf[2]));
	if (c->evictions)
		fprintf(out, "  %s page%s dropped to keep the bound (--odp-max-pages)\n",
			report_number(c->evictions, buf[0]),
			c->evictions == 1 ? "" : "s");
}

static void text_regions(const struct report *r, FILE *out)
{
	size_t shown = 0, on_demand = r->n_mr - r->pinned;

	report_head(out);
	for (size_t i = 0; i < r->n_mr && shown < TEXT_MRS; i++) {
		if (!r->mr[i].info.on_demand)
			continue;
		text_mr(out, &r->mr[i].info);
		shown++;
	}
	if (shown < on_demand)
		fprintf(out, "  (and %zu more)\n", on_demand - shown);
	text_row(out, "total", "", &r->total);
}

static bool any_on_demand(const struct report *r)
{
	for (size_t i = 0; i < r->n_mr; i++)
		if (r->mr[i].info.on_demand)
			return true;
	return r->total.prefetches || faults(&r->total);
}

static void text_network(const struct net_stats *n, FILE *out)
{
	char buf[4][32];

	fprintf(out, "  network: sent %s packets (%s), received %s (%s)\n",
		report_number(n->tx_pkts, buf[0]), report_size(n->tx_bytes, buf[1]),
		report_number(n->rx_pkts, buf[2]), report_size(n->rx_bytes, buf[3]));
	if (n->tx_lane_pkts)
		fprintf(out, "  %s of the packets sent took shared memory\n",
			report_number(n->tx_lane_pkts, buf[0]));
	if (n->rx_linux_flush)
		fprintf(out,
			"  %s FLUSH requests had the ICRC that Linux computes for them\n",
			report_number(n->rx_linux_flush, buf[0]));
	if (n->tx_dropped || n->rx_bad_icrc || n->rx_malformed || n->rx_no_owner)
		fprintf(out,
			"  dropped: %s unsent, %s with a wrong ICRC, %s malformed, %s "
			"for nobody "
			"here\n",
			report_number(n->tx_dropped, buf[0]),
			report_number(n->rx_bad_icrc, buf[1]),
			report_number(n->rx_malformed, buf[2]),
			report_number(n->rx_no_owner, buf[3]));
}

static void write_text(const struct report *r, FILE *out)
{
	char size[32];

	fprintf(out, "\nurxe: what the emulated HCA did in %s (pid %d)\n",
		program_invocation_short_name, (int)getpid());
	if (any_on_demand(r)) {
		text_regions(r, out);
		text_faults(out, &r->total);
	} else {
		fprintf(
		    out,
		    "  no on-demand memory region: pinned memory takes no page faults\n");
	}
	if (r->pinned)
		fprintf(out, "  %zu pinned memory region%s (%s) still registered\n",
			r->pinned, r->pinned == 1 ? "" : "s",
			report_size(r->pinned_bytes, size));
	text_network(&r->net, out);
}

/* --- JSON (RFC 8259) -------------------------------------------------------------- */

static void json_string(FILE *out, const char *s)
{
	putc('"', out);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f) /* a file name need not be UTF-8 */
			fprintf(out, "\\u%04x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

static void json_counters(FILE *out, const char *indent, const struct odp_counters *c)
{
	fprintf(out, "%s\"faults\": %" PRIu64, indent, faults(c));
	for (size_t i = 0; i < N_COUNTERS; i++)
		fprintf(out, ",\n%s\"%s\": %" PRIu64, indent, counters[i].name,
			counter(c, i));
	putc('\n', out);
}

static void json_mr(FILE *out, const struct region *region)
{
	const struct odp_mr_info *mr = &region->info;

	fprintf(out, "    {\n      \"key\": %" PRIu32 ",\n      \"name\": ", mr->key);
	json_string(out, mr->name);
	fprintf(out, ",\n      \"kind\": \"%s\",\n",
		mr->implicit	? "implicit"
		: mr->on_demand ? "on-demand"
				: "pinned");
	fprintf(out, "      \"registered\": %s,\n", mr->live ? "true" : "false");
	fprintf(out, "      \"address\": %" PRIuPTR ",\n      \"length\": %zu,\n",
		mr->addr, mr->length);
	fprintf(out,
		"      \"page_size\": %" PRIu32 ",\n      \"pages_cached\": %" PRIu64
		",\n",
		mr->page_size, mr->pages_cached);
	if (region->map[0])
		fprintf(out, "      \"page_map\": \"%s\",\n", region->map);
	json_counters(out, "      ", &mr->counters);
	fprintf(out, "    }");
}

static void json_devices(FILE *out, struct engine *e)
{
	fprintf(out, "  \"devices\": [");
	for (unsigned int i = 0; i < engine_device_count(e); i++) {
		const struct engine_device *d = engine_device(e, i);
		const char *const *names;
		const uint64_t *values;
		size_t n = emu_hw_counters(d->hca, &names, &values);

		fprintf(out, "%s\n    {\n      \"name\": ", i ? "," : "");
		json_string(out, d->name);
		fprintf(out, ",\n      \"interface\": ");
		json_string(out, d->ifname);
		for (size_t k = 0; k < n; k++)
			fprintf(out, ",\n      \"%s\": %" PRIu64, names[k], values[k]);
		fprintf(out, "\n    }");
	}
	fprintf(out, "\n  ],\n");
}

static void json_network(FILE *out, const struct net_stats *n)
{
	const struct {
		const char *name;
		uint64_t value;
	} row[] = {
	    {"tx_packets", n->tx_pkts},
	    {"tx_bytes", n->tx_bytes},
	    {"tx_dropped", n->tx_dropped},
	    {"rx_packets", n->rx_pkts},
	    {"rx_bytes", n->rx_bytes},
	    {"rx_bad_icrc", n->rx_bad_icrc},
	    {"rx_malformed", n->rx_malformed},
	    {"rx_no_owner", n->rx_no_owner},
	    {"rx_forwarded", n->rx_forwarded},
	    {"tx_lane_packets", n->tx_lane_pkts},
	    {"rx_linux_flush", n->rx_linux_flush},
	};
	const size_t count = sizeof(row) / sizeof(row[0]);

	fprintf(out, "  \"network\": {\n");
	for (size_t i = 0; i < count; i++)
		fprintf(out, "    \"%s\": %" PRIu64 "%s\n", row[i].name, row[i].value,
			i + 1 < count ? "," : "");
	fprintf(out, "  }\n");
}

static void write_json(struct engine *e, const struct report *r, FILE *out)
{
	fprintf(out, "{\n  \"program\": ");
	json_string(out, program_invocation_short_name);
	fprintf(out, ",\n  \"pid\": %d,\n", (int)getpid());
	fprintf(out, "  \"userfaultfd\": %s,\n  \"userfaultfd_events\": %" PRIu64 ",\n",
		r->caps.uffd ? "true" : "false", r->caps.uffd_events);
	json_devices(out, e);
	fprintf(out, "  \"memory_regions\": [");
	for (size_t i = 0; i < r->n_mr; i++) {
		fprintf(out, "%s\n", i ? "," : "");
		json_mr(out, &r->mr[i]);
	}
	fprintf(out, "\n  ],\n  \"total\": {\n");
	json_counters(out, "    ", &r->total);
	fprintf(out, "  },\n");
	json_network(out, &r->net);
	fprintf(out, "}\n");
}

/* --- where it goes ---------------------------------------------------------------- */

void stats_json(struct engine *e, FILE *out)
{
	struct report r;

	collect(e, &r);
	write_json(e, &r, out);
	free(r.mr);
}

void stats_text(struct engine *e, FILE *out)
{
	struct report r;

	collect(e, &r);
	write_text(&r, out);
	free(r.mr);
}

/* @pattern with %p replaced by the process id; false: too long */
static bool expand(const char *pattern, char *path, size_t size)
{
	size_t n = 0;

	for (const char *p = pattern; *p && n < size; p++) {
		if (p[0] == '%' && p[1] == 'p') {
			n += (size_t)snprintf(path + n, size - n, "%d", (int)getpid());
			p++;
		} else {
			path[n++] = *p;
		}
	}
	if (n >= size)
		return false;
	path[n] = '\0';
	return true;
}

/* A pipe or a terminal */
static int write_special(struct engine *e, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		return -errno;
	stats_json(e, out);
	return fclose(out) ? -errno : 0;
}

/* A new file beside @path, under a name that nobody has; NULL with errno */
static FILE *open_beside(const char *path, char tmp[PATH_MAX])
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	int fd = -1;
	FILE *out;

	for (unsigned int i = 0; fd < 0 && i < 100; i++) {
		if (snprintf(tmp, PATH_MAX, "%s.%d.%u", path, (int)getpid(), i) >=
		    PATH_MAX) {
			errno = ENAMETOOLONG;
			return NULL;
		}
		fd = open(tmp, flags, 0666);
		if (fd < 0 && errno != EEXIST)
			return NULL;
	}
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out && fd >= 0) {
		close(fd);
		unlink(tmp);
	}
	return out;
}

/* A reader sees the old file or the whole new one, never a part. */
static int write_file(struct engine *e, const char *path)
{
	char tmp[PATH_MAX];
	struct stat st;
	FILE *out;
	int err = 0;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return write_special(e, path);
	out = open_beside(path, tmp);
	if (!out)
		return -errno;
	stats_json(e, out);
	if (ferror(out))
		err = -EIO;
	if (fclose(out) && !err)
		err = -errno;
	if (!err && rename(tmp, path))
		err = -errno;
	if (err)
		unlink(tmp);
	return err;
}

void stats_report(struct engine *e, const char *spec, FILE *fallback)
{
	char path[PATH_MAX];
	int err;

	if (strncmp(spec, "json:", 5)) {
		/* One write, so that reports of several processes do not mix */
		char *text = NULL;
		size_t len = 0;
		FILE *mem = open_memstream(&text, &len);

		if (!mem)
			return;
		stats_text(e, mem);
		fclose(mem);
		fwrite(text, 1, len, fallback);
		fflush(fallback);
		free(text);
		return;
	}
	err = expand(spec + 5, path, sizeof(path)) ? write_file(e, path) : -ENAMETOOLONG;
	if (err)
		fprintf(fallback, "urxe: --stats: %s: %s\n", spec + 5, strerror(-err));
}
