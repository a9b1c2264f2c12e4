/*
 * export_findings.c - what was found, as JSON and as JUnit's XML; see export.h.
 */
#include <errno.h>
#include <inttypes.h>

#include "tools/export.h"
#include "tools/findings.h"
#include "tools/timeline.h"
#include "trace/render.h"

/*
 * struct found - all that the traces say
 * @first:	the common time of the first record
 */
struct found {
	struct timeline *tl;
	struct findings *f;
	const struct finding *list;
	size_t n;
	uint64_t first, records;
};

static void forget(struct found *d)
{
	findings_free(d->f);
	timeline_close(d->tl);
}

static int find(struct trace_reader **t, int n, struct found *d)
{
	struct moment m;

	*d = (struct found){.tl = timeline_open(t, n)};
	d->f = d->tl ? findings_new(t, n, d->tl) : NULL;
	if (!d->f) {
		forget(d);
		return -ENOMEM;
	}
	while (timeline_next(d->tl, &m)) {
		if (!d->records++)
			d->first = m.time;
		findings_add(d->f, &m);
	}
	d->list = findings_list(d->f, &d->n);
	return 0;
}

static uint64_t since_first(const struct found *d, uint64_t time)
{
	return time > d->first ? time - d->first : 0;
}

static unsigned int count(const struct found *d, enum finding_level level, int from)
{
	unsigned int n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += d->list[i].level == level && (from < 0 || d->list[i].from == from);
	return n;
}

/* --- JSON ------------------------------------------------------------------------- */

static void put_process(const struct trace_reader *t, FILE *out)
{
	const struct trace_info *i = trace_info(t);

	fprintf(out, "{\"pid\":%d,\"program\":", i->pid);
	trace_json_string(out, i->program);
	fputs(",\"host\":", out);
	trace_json_string(out, i->host);
	fprintf(out,
		",\"full\":%s,\"overwritten\":%" PRIu64 ",\"lost\":%" PRIu64
		",\"unreadable\":%" PRIu64 "}",
		i->full ? "true" : "false", i->overwritten, i->lost, trace_unreadable(t));
}

static void put_finding(const struct found *d, const struct finding *x, FILE *out)
{
	const struct trace_kind_desc *k = trace_kind(x->kind);

	fprintf(out, "{\"level\":\"%s\",\"t\":%" PRIu64 ",\"process\":%d",
		finding_level_name(x->level), since_first(d, x->time), x->from);
	if (k)
		fprintf(out, ",\"kind\":\"%s\"", k->name);
	if (x->qpn)
		fprintf(out, ",\"qpn\":%u", x->qpn);
	if (x->mr)
		fprintf(out, ",\"mr\":%u", x->mr);
	fprintf(out, ",\"cost\":%" PRIu64 ",\"text\":", x->cost);
	trace_json_string(out, x->text);
	putc('}', out);
}

int report_json_findings(struct trace_reader **t, int n, FILE *out)
{
	struct found d;
	int ret = find(t, n, &d);

	if (ret)
		return ret;
	fprintf(out,
		"{\"format\":\"urxe-report\",\"version\":1,\"records\":%" PRIu64
		",\"failed\":%u,\"slow\":%u,\n\"processes\":[",
		d.records, count(&d, FINDING_FAILED, -1), count(&d, FINDING_SLOW, -1));
	for (int i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", out);
		put_process(t[i], out);
	}
	fputs("],\n\"findings\":[", out);
	for (size_t i = 0; i < d.n; i++) {
		fputs(i ? ",\n" : "\n", out);
		put_finding(&d, &d.list[i], out);
	}
	fputs("]}\n", out);
	forget(&d);
	return 0;
}

/* --- JUnit ------------------------------------------------------------------------ */

/* Text of XML 1.0, which has no control characters */
static void put_xml(const char *s, FILE *out)
{
	for (; *s; s++)
		switch (*s) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			putc(*s < 0x20 || *s == 0x7f ? '?' : *s, out);
		}
}

static void put_failures(const struct found *d, int from, FILE *out)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct finding *x = &d->list[i];

		if (x->from != from || x->level != FINDING_FAILED)
			continue;
		fputs("<failure message=\"", out);
		put_xml(x->text, out);
		fprintf(out, "\">%.6f ms: ", (double)since_first(d, x->time) / 1e6);
		put_xml(x->text, out);
		fputs("</failure>\n", out);
	}
}

static void put_test(const struct found *d, struct trace_reader *t, int from, FILE *out)
{
	const struct trace_info *i = trace_info(t);

	fputs("<testcase classname=\"urxe.", out);
	put_xml(i->program, out);
	fprintf(out, "\" name=\"pid %d on ", i->pid);
	put_xml(i->host, out);
	fputs("\">\n", out);
	put_failures(d, from, out);
	fputs("<system-out>", out);
	for (size_t k = 0; k < d->n; k++)
		if (d->list[k].from == from && d->list[k].level != FINDING_FAILED) {
			put_xml(d->list[k].text, out);
			putc('\n', out);
		}
	fputs("</system-out>\n</testcase>\n", out);
}

int report_junit(struct trace_reader **t, int n, FILE *out)
{
	unsigned int bad = 0;
	struct found d;
	int ret = find(t, n, &d);

	if (ret)
		return ret;
	for (int i = 0; i < n; i++)
		bad += count(&d, FINDING_FAILED, i) != 0;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"urxe\" "
		"tests=\"%d\" failures=\"%u\">\n",
		n, bad);
	for (int i = 0; i < n; i++)
		put_test(&d, t[i], i, out);
	fputs("</testsuite>\n", out);
	forget(&d);
	return 0;
}
