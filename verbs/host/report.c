/*
 * report.c - the report: the table, or JSON; see report.h.
 *
 * JSON is written here and not by a library: whatever the preloaded library links with
 * enters the application, where two JSON libraries with names in common can meet.
 */
#include "base/rank.h"
#include "verbs/host/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xfsz.h"
#include "trace/reader.h"
#include "trace/render.h"
#include "verbs/host/reason.h"
#include "verbs/host/report_text.h"

#define NAME(member, name, unit, text) #name,
static const char *const odp_names[] = {TRACE_ODP_COUNTERS(NAME)};
static const char *const net_names[] = {TRACE_NET_COUNTERS(NAME)};
#undef NAME
#define NAME(id, name) name,
static const char *const hw_names[] = {TRACE_HW_COUNTERS(NAME)};
#undef NAME

/* Counters of the page tables, by their names in kinds.h */
struct counters {
	uint64_t n[TRACE_N_ODP];
};
#define COUNT(c, name) ((c)->n[TRACE_ODP_##name])

static uint64_t faults(const struct counters *c)
{
	return COUNT(c, read_faults) + COUNT(c, write_faults);
}

static struct counters counters_of(const struct trace_object *mr)
{
	struct counters c;

	for (size_t i = 0; i < TRACE_N_ODP; i++)
		c.n[i] = mr->mr.counter[i];
	return c;
}

static struct counters total_of(const struct trace_reader *t)
{
	struct counters c;

	trace_odp_total(t, c.n);
	return c;
}

/*
 * struct regions - one after the other: those that there are, then those that are gone
 * @at:		the next object to look at
 */
struct regions {
	const struct trace_reader *t;
	size_t at;
	bool gone;
};

static const struct trace_object *next_region(struct regions *r)
{
	for (;;) {
		const struct trace_object *o = trace_object(r->t, r->at++);

		if (!o && r->gone)
			return NULL;
		if (!o) {
			r->gone = true;
			r->at = 0;
		} else if (o->kind == TRACE_OBJ_MR && !!o->gone == r->gone) {
			return o;
		}
	}
}

/* The regions of a kind and their bytes */
static size_t count_regions(const struct trace_reader *t, bool on_demand, uint64_t *bytes)
{
	struct regions r = {.t = t};
	const struct trace_object *mr;
	size_t n = 0;

	*bytes = 0;
	while ((mr = next_region(&r))) {
		if (!!mr->mr.on_demand != on_demand)
			continue;
		n++;
		*bytes += mr->mr.length;
	}
	return n;
}

/* --- the table -------------------------------------------------------------------- */

#define TEXT_MRS 32 /* lines of single regions; a program may have thousands */

static void text_row(FILE *out, const char *label, const char *size,
		     const struct counters *c)
{
	const struct report_row row = {
	    .label = label,
	    .size = size,
	    .faults = faults(c),
	    .pages_faulted = COUNT(c, pages_faulted),
	    .pages_prefetched = COUNT(c, pages_prefetched),
	    .pages_invalidated = COUNT(c, pages_invalidated),
	    .cache_hits = COUNT(c, cache_hits),
	};

	report_row(out, &row);
}

static void text_label(const struct trace_object *mr, char label[64])
{
	if (mr->name[0])
		snprintf(label, 64, "%.20s", mr->name);
	else
		snprintf(label, 64, "0x%08" PRIx32 "%s", mr->id,
			 mr->gone ? " (closed)" : "");
}

static void text_mr(FILE *out, const struct trace_object *mr)
{
	struct counters c = counters_of(mr);
	char label[64], size[32];

	text_label(mr, label);
	text_row(out, label,
		 mr->mr.implicit ? "all memory" : trace_size_text(mr->mr.length, size),
		 &c);
}

static void text_faults(FILE *out, const struct counters *c)
{
	uint64_t n = faults(c);
	char buf[5][32];

	if (n) {
		fprintf(out,
			"  %s fault%s: %s by this program's own requests, %s by its "
			"peers' requests;\n  %s on average, %s in total\n",
			report_number(n, buf[0]), n == 1 ? "" : "s",
			report_number(COUNT(c, local_faults), buf[1]),
			report_number(COUNT(c, remote_faults), buf[2]),
			trace_time_text(COUNT(c, fault_ns) / n, buf[3]),
			trace_time_text(COUNT(c, fault_ns), buf[4]));
	}
	if (COUNT(c, failed_faults))
		fprintf(out,
			"  %s found no memory behind the address: the request failed\n",
			report_number(COUNT(c, failed_faults), buf[0]));
	if (COUNT(c, lost_messages))
		fprintf(
		    out,
		    "  %s message%s of UC or UD lost: a page fault was waited for, and "
		    "nobody sends them again\n",
		    report_number(COUNT(c, lost_messages), buf[0]),
		    COUNT(c, lost_messages) == 1 ? "" : "s");
	if (COUNT(c, pages_prefetched))
		fprintf(out,
			"  %s page%s prefetched by %s request%s; %s used afterwards\n",
			report_number(COUNT(c, pages_prefetched), buf[0]),
			COUNT(c, pages_prefetched) == 1 ? "" : "s",
			report_number(COUNT(c, prefetches), buf[1]),
			COUNT(c, prefetches) == 1 ? "" : "s",
			report_number(COUNT(c, prefetch_hits), buf[2]));
	if (COUNT(c, evictions))
		fprintf(out, "  %s page%s dropped to keep the bound (--odp-max-pages)\n",
			report_number(COUNT(c, evictions), buf[0]),
			COUNT(c, evictions) == 1 ? "" : "s");
}

static void text_regions(const struct trace_reader *t, size_t on_demand,
			 const struct counters *total, FILE *out)
{
	struct regions r = {.t = t};
	const struct trace_object *mr;
	size_t shown = 0;

	report_head(out);
	while (shown < TEXT_MRS && (mr = next_region(&r))) {
		if (!mr->mr.on_demand)
			continue;
		text_mr(out, mr);
		shown++;
	}
	if (shown < on_demand)
		fprintf(out, "  (and %zu more)\n", on_demand - shown);
	text_row(out, "total", "", total);
}

static void text_network(const struct trace_info *info, FILE *out)
{
	const uint64_t *n = info->net;
	char buf[4][32];

	fprintf(out, "  network: sent %s packets (%s), received %s (%s)\n",
		report_number(n[TRACE_NET_tx_pkts], buf[0]),
		trace_size_text(n[TRACE_NET_tx_bytes], buf[1]),
		report_number(n[TRACE_NET_rx_pkts], buf[2]),
		trace_size_text(n[TRACE_NET_rx_bytes], buf[3]));
	if (n[TRACE_NET_tx_lane_pkts])
		fprintf(out, "  %s of the packets sent took shared memory\n",
			report_number(n[TRACE_NET_tx_lane_pkts], buf[0]));
	if (n[TRACE_NET_rx_linux_flush])
		fprintf(out,
			"  %s FLUSH requests had the ICRC that Linux computes for them\n",
			report_number(n[TRACE_NET_rx_linux_flush], buf[0]));
	if (n[TRACE_NET_tx_dropped] || n[TRACE_NET_rx_bad_icrc] ||
	    n[TRACE_NET_rx_malformed] || n[TRACE_NET_rx_no_owner])
		fprintf(out,
			"  dropped: %s unsent, %s with a wrong ICRC, %s malformed, %s "
			"for nobody "
			"here\n",
			report_number(n[TRACE_NET_tx_dropped], buf[0]),
			report_number(n[TRACE_NET_rx_bad_icrc], buf[1]),
			report_number(n[TRACE_NET_rx_malformed], buf[2]),
			report_number(n[TRACE_NET_rx_no_owner], buf[3]));
	if (n[TRACE_NET_tx_impaired] || n[TRACE_NET_rx_impaired])
		fprintf(out, "  lost on purpose: %s to be sent, %s that came in\n",
			report_number(n[TRACE_NET_tx_impaired], buf[0]),
			report_number(n[TRACE_NET_rx_impaired], buf[1]));
	if (n[TRACE_NET_rx_forwarded])
		fprintf(out,
			"  %s packets were handed on to other processes of this host\n",
			report_number(n[TRACE_NET_rx_forwarded], buf[0]));
}

static void report_text(const struct trace_reader *t, FILE *out)
{
	const struct trace_info *info = trace_info(t);
	struct counters total = total_of(t);
	uint64_t bytes;
	size_t n = count_regions(t, true, &bytes);
	char size[32];

	fprintf(out, "\nurxe: what the emulated HCA did in %s (pid %d)\n", info->program,
		info->pid);
	if (n || COUNT(&total, prefetches) || faults(&total)) {
		text_regions(t, n, &total, out);
		text_faults(out, &total);
	} else {
		fprintf(
		    out,
		    "  no on-demand memory region: pinned memory takes no page faults\n");
	}
	n = count_regions(t, false, &bytes);
	if (n)
		fprintf(out, "  %zu pinned memory region%s (%s) still registered\n", n,
			n == 1 ? "" : "s", trace_size_text(bytes, size));
	if (info->unlisted)
		fprintf(out, "  (%" PRIu64 " objects had no room in the report)\n",
			info->unlisted);
	text_network(info, out);
}

static void text_address(FILE *out, const char *before, const struct trace_ip *ip,
			 uint16_t port)
{
	char text[64];

	trace_ip_text(ip, text);
	fprintf(out, strchr(text, ':') ? "%s[%s]:%u" : "%s%s:%u", before, text, port);
}

/* "CM ID 1  127.0.0.1:7000 to 127.0.0.1:40726  CONNECT, established, QP 0x468000" */
static void text_cm_id(FILE *out, const struct trace_object *o)
{
	const struct trace_cm_id *cm = &o->cm;
	const char *protocol = trace_name(TRACE_CM_STATE, cm->protocol);

	fprintf(out, "  CM ID %u", o->id);
	if (cm->local_port)
		text_address(out, "  ", &cm->local, cm->local_port);
	if (cm->remote_port)
		text_address(out, " to ", &cm->remote, cm->remote_port);
	fprintf(out, "  %s", cm->state);
	if (cm->protocol != TRACE_CM_STATE_IDLE)
		fprintf(out, ", %s", protocol ? protocol : "?");
	if (cm->qpn)
		fprintf(out, ", QP 0x%06x", cm->qpn);
	if (cm->queued)
		fprintf(out, ", %u events not read", cm->queued);
	putc('\n', out);
}

void report_live(const struct trace_reader *t, FILE *out)
{
	const struct trace_info *info = trace_info(t);
	struct counters total = total_of(t);
	struct regions r = {.t = t};
	const struct trace_object *mr, *o;
	uint64_t bytes;
	size_t pinned = count_regions(t, false, &bytes);

	fprintf(out, "%s (pid %d)\n", info->program, info->pid);
	report_head(out);
	while ((mr = next_region(&r))) {
		if (mr->gone || !mr->mr.on_demand)
			continue;
		text_mr(out, mr);
		if (mr->mr.map[0])
			fprintf(out, "    [%.*s] %" PRIu64 " pages\n", TRACE_MAP_CELLS,
				mr->mr.map, mr->mr.cached);
	}
	text_row(out, "total, also of closed", "", &total);
	if (pinned)
		fprintf(out, "  and %zu pinned\n", pinned);
	for (size_t i = 0; (o = trace_object(t, i)); i++)
		if (o->kind == TRACE_OBJ_CM_ID)
			text_cm_id(out, o);
}

/* --- JSON (RFC 8259) -------------------------------------------------------------- */

static void json_counters(FILE *out, const char *indent, const struct counters *c)
{
	fprintf(out, "%s\"faults\": %" PRIu64, indent, faults(c));
	for (size_t i = 0; i < TRACE_N_ODP; i++)
		fprintf(out, ",\n%s\"%s\": %" PRIu64, indent, odp_names[i], c->n[i]);
	putc('\n', out);
}

static void json_mr(FILE *out, const struct trace_object *o)
{
	const struct trace_mr *mr = &o->mr;
	struct counters c = counters_of(o);
	char map[TRACE_MAP_CELLS + 1];

	fprintf(out, "    {\n      \"key\": %" PRIu32 ",\n      \"name\": ", o->id);
	trace_json_string(out, o->name);
	fprintf(out, ",\n      \"kind\": \"%s\",\n",
		mr->implicit	? "implicit"
		: mr->on_demand ? "on-demand"
				: "pinned");
	fprintf(out, "      \"registered\": %s,\n", o->gone ? "false" : "true");
	fprintf(out, "      \"address\": %" PRIu64 ",\n      \"length\": %" PRIu64 ",\n",
		mr->addr, mr->length);
	fprintf(out,
		"      \"page_size\": %" PRIu32 ",\n      \"pages_cached\": %" PRIu64
		",\n",
		mr->page_size, mr->cached);
	snprintf(map, sizeof(map), "%.*s", TRACE_MAP_CELLS, mr->map);
	if (map[0])
		fprintf(out, "      \"page_map\": \"%s\",\n", map);
	json_counters(out, "      ", &c);
	fprintf(out, "    }");
}

static void json_devices(FILE *out, const struct trace_reader *t)
{
	const struct trace_object *o;
	bool first = true;

	fprintf(out, "  \"devices\": [");
	for (size_t i = 0; (o = trace_object(t, i)); i++) {
		if (o->kind != TRACE_OBJ_DEVICE)
			continue;
		fprintf(out, "%s\n    {\n      \"name\": ", first ? "" : ",");
		trace_json_string(out, o->name);
		fprintf(out, ",\n      \"interface\": ");
		trace_json_string(out, o->dev.ifname);
		for (size_t k = 0; k < TRACE_N_HW; k++)
			fprintf(out, ",\n      \"%s\": %" PRIu64, hw_names[k],
				o->dev.counter[k]);
		fprintf(out, "\n    }");
		first = false;
	}
	fprintf(out, "\n  ],\n");
}

static void json_network(FILE *out, const struct trace_info *info)
{
	fprintf(out, "  \"network\": {\n");
	for (size_t i = 0; i < TRACE_N_NET; i++)
		fprintf(out, "    \"%s\": %" PRIu64 "%s\n", net_names[i], info->net[i],
			i + 1 < TRACE_N_NET ? "," : "");
	fprintf(out, "  }\n");
}

/* Which process of which host it was, so that reports of several can be joined */
static void json_who(FILE *out, const struct trace_info *info)
{
	char *end;
	unsigned long rank = strtoul(info->rank, &end, 10);

	fprintf(out, "{\n  \"program\": ");
	trace_json_string(out, info->program);
	fprintf(out, ",\n  \"pid\": %d,\n  \"host\": ", info->pid);
	trace_json_string(out, info->host);
	if (info->rank[0] && !*end)
		fprintf(out, ",\n  \"rank\": %lu,\n", rank);
	else
		fprintf(out, ",\n  \"rank\": null,\n");
}

void report_json(const struct trace_reader *t, FILE *out)
{
	const struct trace_info *info = trace_info(t);
	struct counters total = total_of(t);
	struct regions r = {.t = t};
	const struct trace_object *mr;
	bool first = true;

	json_who(out, info);
	fprintf(out, "  \"userfaultfd\": %s,\n  \"userfaultfd_events\": %" PRIu64 ",\n",
		info->uffd ? "true" : "false", info->uffd_events);
	json_devices(out, t);
	fprintf(out, "  \"memory_regions\": [");
	for (; (mr = next_region(&r)); first = false) {
		fprintf(out, "%s\n", first ? "" : ",");
		json_mr(out, mr);
	}
	fprintf(out, "\n  ],\n  \"total\": {\n");
	json_counters(out, "    ", &total);
	fprintf(out, "  },\n");
	json_network(out, info);
	fprintf(out, "}\n");
}

/* --- where it goes ---------------------------------------------------------------- */

/*
 * struct report_names - what stands for %p, %h and %r in the name of a file
 * @rank:	NULL or empty: there is none
 */
struct report_names {
	int pid;
	const char *host, *rank;
};

/* The text for %@letter; NULL: it stands for itself */
static const char *name_of(char letter, const struct report_names *who, char number[16])
{
	switch (letter) {
	case 'p':
		snprintf(number, 16, "%d", who->pid);
		return number;
	case 'h':
		return who->host;
	case 'r':
		return who->rank && *who->rank ? who->rank : "none";
	default:
		return NULL;
	}
}

/* 0 or -ENAMETOOLONG */
static int expand(const char *pattern, const struct report_names *who, char *path,
		  size_t size)
{
	size_t n = 0;

	for (const char *p = pattern; *p && n < size; p++) {
		char number[16];
		const char *name = *p == '%' ? name_of(p[1], who, number) : NULL;

		if (!name) {
			path[n++] = *p;
			continue;
		}
		/* a name of a host may be anything; it must not lead elsewhere */
		for (; *name && n < size; name++)
			path[n++] = *name == '/' ? '-' : *name;
		p++;
	}
	if (n >= size)
		return -ENAMETOOLONG;
	path[n] = '\0';
	return 0;
}

int report_expand_own(const char *pattern, char *path, size_t size)
{
	char host[65] = "";
	const struct report_names own = {(int)getpid(), host, rank_text()};

	if (gethostname(host, sizeof(host) - 1))
		host[0] = '\0';
	return expand(pattern, &own, path, size);
}

bool report_is_pattern(const char *pattern)
{
	return strstr(pattern, "%p") || strstr(pattern, "%h") || strstr(pattern, "%r");
}

/* A pipe or a terminal */
static int write_special(const struct trace_reader *t, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		return -errno;
	report_json(t, out);
	return fclose(out) ? -errno : 0;
}

/* A new file beside @path, under a name that nobody has; NULL with errno */
static FILE *open_beside(const char *path, int pid, char tmp[PATH_MAX])
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	int fd = -1;
	FILE *out;

	for (unsigned int i = 0; fd < 0 && i < 100; i++) {
		if (snprintf(tmp, PATH_MAX, "%s.%d.%u", path, pid, i) >= PATH_MAX) {
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
static int write_file(const struct trace_reader *t, const char *path)
{
	char tmp[PATH_MAX];
	struct stat st;
	FILE *out;
	int ret = 0;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return write_special(t, path);
	out = open_beside(path, (int)getpid(), tmp);
	if (!out)
		return -errno;
	errno = 0;
	report_json(t, out);
	if (ferror(out))
		ret = errno ? -errno : -EIO;
	if (fclose(out) && !ret)
		ret = -errno;
	if (!ret && rename(tmp, path))
		ret = -errno;
	if (ret)
		unlink(tmp);
	return ret;
}

/* One write, so that reports of several processes do not mix */
static void write_text(const struct trace_reader *t, FILE *out)
{
	char *text = NULL;
	size_t len = 0;
	FILE *mem = open_memstream(&text, &len);

	if (!mem)
		return;
	report_text(t, mem);
	fclose(mem);
	fwrite(text, 1, len, out);
	fflush(out);
	free(text);
}

void report_write(const struct trace_reader *t, const char *spec, FILE *fallback)
{
	const struct trace_info *i = trace_info(t);
	const struct report_names who = {i->pid, i->host, i->rank};
	char path[PATH_MAX];
	struct xfsz x;
	int ret;

	if (strncmp(spec, "json:", 5)) {
		xfsz_hold(&x);
		write_text(t, fallback);
		xfsz_release(&x);
		return;
	}
	xfsz_hold(&x);
	ret = expand(spec + 5, &who, path, sizeof(path));
	if (!ret)
		ret = write_file(t, path);
	if (ret)
		fprintf(fallback, "urxe: --stats: %s: %s%s\n", spec + 5, strerror(-ret),
			reason_hint(-ret));
	xfsz_release(&x);
}
