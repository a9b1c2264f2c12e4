/*
 * page_data.c - see page_data.h.
 *
 * Records are far apart in meaning and near in bytes: many have the same kind, QP and key, and
 * what differs grows by one. So a block of them is laid out byte by byte (all first bytes, all
 * second bytes ...) and compressed by zlib, which leaves some bytes of each record. The page's
 * script undoes it. tools/page/data.js has the same layout.
 */
#include "tools/page_data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/callstack.h"
#include "tools/findings.h"
#include "tools/timeline.h"
#include "trace/render.h"

#define BLOCK 16384			      /* records in a block */
#define ROW   (8 + 1 + 1 + 4 + TRACE_PAYLOAD) /* time, kind, trace, thread, fields */

/*
 * struct page_records - records on their way to the page
 * @base:	time of the page's zero, that of the first record
 * @total:	records put up to now
 * @row, @raw, @packed, @text: a block of them, as they come, byte by byte, compressed, as text
 */
struct page_records {
	uint64_t base, total;
	uint8_t row[BLOCK][ROW];
	uint8_t raw[BLOCK * ROW];
	uint8_t packed[BLOCK * ROW + BLOCK];
	char text[(BLOCK * ROW + BLOCK) / 3 * 4 + 8];
};

struct page_records *page_records_new(void)
{
	return calloc(1, sizeof(struct page_records));
}

void page_records_free(struct page_records *p)
{
	free(p);
}

/* --- records ---------------------------------------------------------------------- */

static size_t to_base64(const uint8_t *b, size_t n, char *text)
{
	static const char digit[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *p = text;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)b[i] << 16 | (i + 1 < n ? b[i + 1] : 0u) << 8 |
			     (i + 2 < n ? b[i + 2] : 0u);

		*p++ = digit[v >> 18];
		*p++ = digit[v >> 12 & 63];
		*p++ = i + 1 < n ? digit[v >> 6 & 63] : '=';
		*p++ = i + 2 < n ? digit[v & 63] : '=';
	}
	return (size_t)(p - text);
}

static void put_little(uint8_t *b, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		b[i] = (uint8_t)(v >> (8 * i));
}

static void fill_row(uint8_t *row, const struct moment *m, uint64_t before)
{
	put_little(row, m->time - before, 8);
	row[8] = (uint8_t)m->r.kind;
	row[9] = (uint8_t)m->from;
	put_little(row + 10, m->r.thread, 4);
	memcpy(row + 14, m->r.u.bytes, TRACE_PAYLOAD);
}

static int put_block(struct page_records *p, size_t n, page_block_fn *fn, void *arg)
{
	uLongf len = sizeof(p->packed);

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < ROW; k++)
			p->raw[k * n + i] = p->row[i][k];
	if (compress2(p->packed, &len, p->raw, n * ROW, 6) != Z_OK)
		return -ENOMEM;
	fn(arg, p->text, to_base64(p->packed, len, p->text));
	p->total += n;
	return 0;
}

int page_records_put(struct page_records *p, struct timeline *tl, struct findings *f,
		     page_block_fn *fn, void *arg)
{
	uint64_t before = p->base;
	struct moment m;
	size_t n = 0;
	int ret = 0;

	while (!ret && timeline_next(tl, &m)) {
		if (!p->total && !n)
			before = p->base = m.time;
		findings_add(f, &m);
		fill_row(p->row[n++], &m, before);
		before = m.time;
		if (n < BLOCK)
			continue;
		ret = put_block(p, n, fn, arg);
		before = p->base;
		n = 0;
	}
	return n && !ret ? put_block(p, n, fn, arg) : ret;
}

/* --- what the fields are ---------------------------------------------------------- */

/* How units without names of their own are shown; data.js knows these words. */
static const char *const unit_word[] = {
    [TRACE_NUM] = "num",     [TRACE_HEX] = "hex",     [TRACE_QPN] = "qpn",
    [TRACE_PSN] = "psn",     [TRACE_BYTES] = "bytes", [TRACE_NS] = "ns",
    [TRACE_PAGES] = "pages", [TRACE_ADDR] = "addr",   [TRACE_BOOL] = "bool",
    [TRACE_IP] = "ip",	     [TRACE_ERRNO] = "errno", [TRACE_SYNDROME] = "syndrome",
    [TRACE_ATTR] = "attr"};

static const char *word_of(enum trace_unit unit)
{
	if ((size_t)unit < sizeof(unit_word) / sizeof(unit_word[0]))
		return unit_word[unit];
	return NULL;
}

static void put_kind(unsigned int kind, FILE *out)
{
	const struct trace_kind_desc *k = trace_kind(kind);

	fputs("{\"name\":", out);
	trace_json_string(out, k ? k->name : "");
	fputs(",\"text\":", out);
	trace_json_string(out, k ? k->text : "");
	fprintf(out, ",\"severity\":%d,\"fields\":[", k ? k->severity : 0);
	for (unsigned int i = 0; k && i < k->n_fields; i++) {
		const struct trace_field_desc *d = &k->field[i];

		fprintf(out, "%s[\"%s\",", i ? "," : "", d->name);
		if (word_of(d->unit))
			fprintf(out, "\"%s\"", word_of(d->unit));
		else
			fprintf(out, "%d", d->unit);
		fprintf(out, ",%u,%u,%d]", d->offset, d->size, d->is_signed);
	}
	fputs("]}", out);
}

static void put_names(FILE *out)
{
	bool first = true, any;

	fputs(",\"names\":{", out);
	for (int unit = 0; unit < TRACE_N_UNITS; unit++) {
		any = false;
		for (unsigned int v = 0; v < 256; v++) {
			const char *name = unit == TRACE_ATTR
					       ? v < 32 ? trace_attr_name(v) : NULL
					       : trace_name((enum trace_unit)unit, v);

			if (!name)
				continue;
			if (!any)
				fprintf(out, "%s\"%d\":{", first ? "" : ",", unit);
			fprintf(out, "%s\"%u\":", any ? "," : "", v);
			trace_json_string(out, name);
			any = true;
			first = false;
		}
		if (any)
			fputs("}", out);
	}
	fprintf(out, "},\"attr\":%d,\"errnos\":{", TRACE_ATTR);
	for (int e = 1; e < 134; e++)
		if (strerrorname_np(e))
			fprintf(out, "%s\"%d\":\"%s\"", e > 1 ? "," : "", e,
				strerrorname_np(e));
	fputs("}", out);
}

/* --- what is said of it ----------------------------------------------------------- */

/* Call stacks in words, by their number */
static void put_stacks(const struct trace_reader *t, FILE *out)
{
	const struct trace_object *o;
	const char *comma = "";
	char text[256];

	fputs(",\"stacks\":{", out);
	for (size_t k = 0; (o = trace_object(t, k)); k++) {
		if (o->kind != TRACE_OBJ_STACK)
			continue;
		fprintf(out, "%s\"%u\":[", comma, o->id);
		for (uint32_t i = 0; i < o->stack.n; i++) {
			callstack_frame(t, &o->stack, i, text, sizeof(text));
			fputs(i ? "," : "", out);
			trace_json_string(out, text);
		}
		fputs("]", out);
		comma = ",";
	}
	fputs("}", out);
}

static void put_traces(struct trace_reader **t, int n, const struct timeline *tl,
		       uint64_t base, FILE *out)
{
	fputs(",\n\"traces\":[", out);
	for (int i = 0; i < n; i++) {
		const struct timeline_clock *c = timeline_clock(tl, i);

		/* a time of the trace less this is one of the page, nearly if it drifts */
		fprintf(out,
			"%s\n{\"zero\":%" PRId64 ",\"moved\":%" PRId64 ",\"drift\":%.9f,",
			i ? "," : "", (int64_t)timeline_own_time(tl, i, base), c->moved,
			c->rate);
		trace_json_about(t[i], out);
		put_stacks(t[i], out);
		fprintf(out, ",\"unreadable\":%" PRIu64 "}", trace_unreadable(t[i]));
	}
	fputs("]", out);
}

static void put_findings(struct findings *f, uint64_t base, FILE *out)
{
	size_t n;
	const struct finding *x = findings_list(f, &n);

	fputs(",\n\"findings\":[", out);
	for (size_t i = 0; i < n; i++) {
		fprintf(out,
			"%s\n{\"level\":\"%s\",\"t\":%" PRId64
			",\"trace\":%d,\"kind\":%u,\"qpn\":%u,\"mr\":%u,\"text\":",
			i ? "," : "", finding_level_name(x[i].level),
			(int64_t)(x[i].time - base), x[i].from, x[i].kind, x[i].qpn,
			x[i].mr);
		trace_json_string(out, x[i].text);
		fputs("}", out);
	}
	fputs("]", out);
}

void page_about(struct trace_reader **t, int n, const struct timeline *tl,
		struct findings *f, const struct page_records *p, FILE *out)
{
	fprintf(out,
		"{\"format\":\"urxe-page\",\"version\":1,\"base\":\"%" PRIu64
		"\",\"little\":%d,\"records\":%" PRIu64 ",\"row\":%d,\"kinds\":[",
		p->base, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, p->total, ROW);
	for (unsigned int k = 0; k < TRACE_N_KINDS; k++) {
		fputs(k ? ",\n" : "\n", out);
		put_kind(k, out);
	}
	fputs("]", out);
	put_names(out);
	put_traces(t, n, tl, p->base, out);
	put_findings(f, p->base, out);
	fputs("}", out);
}
