/*
 * render.c - see render.h.
 */
#include "trace/render.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* --- values ----------------------------------------------------------------------- */

/* Three digits; what would be rounded to 1000 has the next unit */
const char *trace_time_text(uint64_t ns, char buf[32])
{
	double s = (double)ns / 1e9;

	if (ns < 1000)
		snprintf(buf, 32, "%" PRIu64 " ns", ns);
	else if (ns < 999500)
		snprintf(buf, 32, "%.3g us", s * 1e6);
	else if (ns < 999500000)
		snprintf(buf, 32, "%.3g ms", s * 1e3);
	else
		snprintf(buf, 32, s < 9999.5 ? "%.4g s" : "%.0f s", s);
	return buf;
}

/* One decimal, where there is more than the unit and the number is short */
const char *trace_size_text(uint64_t bytes, char buf[32])
{
	static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
					    "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	size_t u = 0;

	for (; v >= 1024 && u + 1 < sizeof(units) / sizeof(units[0]); u++)
		v /= 1024;
	snprintf(buf, 32, u && v < 99.95 && v != (uint64_t)v ? "%.1f %s" : "%.0f %s", v,
		 units[u]);
	return buf;
}

const char *trace_ip_text(const struct trace_ip *ip, char buf[64])
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

	if (!memcmp(ip->b, v4, sizeof(v4)))
		inet_ntop(AF_INET, ip->b + 12, buf, 64);
	else
		inet_ntop(AF_INET6, ip->b, buf, 64);
	return buf;
}

/* IBTA tables 44 to 46 */
int trace_syndrome_text(uint8_t s, char *buf, size_t size)
{
	static const char *const naks[] = {
	    "NAK (PSN sequence error)", "NAK (invalid request)",
	    "NAK (remote access error)", "NAK (remote operational error)"};

	switch (s & 0xe0) {
	case 0x00:
		return snprintf(buf, size, "ACK");
	case 0x20:
		return snprintf(buf, size, "RNR NAK (timer %u)", s & 0x1fu);
	case 0x60:
		if ((s & 0x1f) < sizeof(naks) / sizeof(naks[0]))
			return snprintf(buf, size, "%s", naks[s & 0x1f]);
		break;
	}
	return snprintf(buf, size, "syndrome 0x%02x", s);
}

static int attr_text(uint32_t mask, char *buf, size_t size)
{
	int n = 0;

	if (size)
		buf[0] = '\0';
	for (unsigned int bit = 0; bit < 32; bit++) {
		const char *name = trace_attr_name(bit);

		if (!(mask & 1u << bit))
			continue;
		if ((size_t)n >= size)
			break;
		if (name)
			n += snprintf(buf + n, size - (size_t)n, "%s%s", n ? "," : "",
				      name);
		else
			n += snprintf(buf + n, size - (size_t)n, "%sbit %u", n ? "," : "",
				      bit);
	}
	return n;
}

static int errno_text(int64_t v, char *buf, size_t size)
{
	const char *name = v < 0 && v > -4096 ? strerrorname_np((int)-v) : NULL;

	if (!v)
		return snprintf(buf, size, "ok");
	if (name)
		return snprintf(buf, size, "%s", name);
	return snprintf(buf, size, "%" PRId64, v);
}

static int number_text(enum trace_unit unit, uint64_t v, char *buf, size_t size)
{
	const char *name = trace_name(unit, v);
	char text[32];

	if (name)
		return snprintf(buf, size, "%s", name);
	switch (unit) {
	case TRACE_QPN:
		return snprintf(buf, size, "0x%06" PRIx64, v);
	case TRACE_HEX:
	case TRACE_ADDR:
		return snprintf(buf, size, "0x%" PRIx64, v);
	case TRACE_BYTES:
		return snprintf(buf, size, "%s", trace_size_text(v, text));
	case TRACE_NS:
		return snprintf(buf, size, "%s", trace_time_text(v, text));
	case TRACE_PAGES:
		return snprintf(buf, size, "%" PRIu64 " page%s", v, v == 1 ? "" : "s");
	case TRACE_BOOL:
		return snprintf(buf, size, "%s", v ? "yes" : "no");
	case TRACE_ERRNO:
		return errno_text((int64_t)v, buf, size);
	case TRACE_SYNDROME:
		return trace_syndrome_text((uint8_t)v, buf, size);
	case TRACE_ATTR:
		return attr_text((uint32_t)v, buf, size);
	case TRACE_NUM:
	case TRACE_PSN:
	case TRACE_IP:
	case TRACE_OPCODE:
	case TRACE_WR:
	case TRACE_WC:
	case TRACE_STATUS:
	case TRACE_STATE:
	case TRACE_TYPE:
	case TRACE_EVENT:
	case TRACE_CM_MSG:
	case TRACE_CM_EVENT:
	case TRACE_CM_CALL:
	case TRACE_ADVICE:
	case TRACE_WHY:
	case TRACE_DROP:
	case TRACE_CAUSE:
	case TRACE_TIMER:
	case TRACE_WAIT:
	case TRACE_MODEL:
	case TRACE_INVAL:
	case TRACE_OBJECT:
	case TRACE_VERB:
	case TRACE_NOTE:
	case TRACE_CM_REASON:
	case TRACE_CM_STATE:
	case TRACE_CM_CAUSE:
	case TRACE_ID_STATE:
	case TRACE_N_UNITS:
		break; /* the others have no name for it */
	}
	return snprintf(buf, size, "%" PRIu64, v);
}

/* What an id is, which a field beside it says: QPNs and keys are hexadecimal elsewhere, too. */
static enum trace_unit unit_of(const struct trace_record *r,
			       const struct trace_field_desc *f)
{
	const struct trace_kind_desc *k = trace_kind(r->kind);
	const struct trace_field_desc *object =
	    !strcmp(f->name, "id") ? trace_field_named(k, "object") : NULL;
	uint64_t kind = object ? trace_field(r, object) : TRACE_OBJ_FREE;

	return kind == TRACE_OBJ_QP			      ? TRACE_QPN
	       : kind == TRACE_OBJ_MR || kind == TRACE_OBJ_MW ? TRACE_HEX
	       : object					      ? TRACE_NUM
							      : f->unit;
}

int trace_field_text(const struct trace_record *r, const struct trace_field_desc *f,
		     char *buf, size_t size)
{
	struct trace_ip ip;
	char text[64];

	if (f->unit == TRACE_IP) {
		memcpy(&ip, r->u.bytes + f->offset, sizeof(ip));
		return snprintf(buf, size, "%s", trace_ip_text(&ip, text));
	}
	return number_text(unit_of(r, f), trace_field(r, f), buf, size);
}

/* --- text ------------------------------------------------------------------------- */

/* What stands for "{name}" or "{name:text}", @len bytes between the braces */
static int expand(const struct trace_record *r, const struct trace_kind_desc *k,
		  const char *what, size_t len, char *buf, size_t size)
{
	const char *colon = memchr(what, ':', len);
	size_t n = colon ? (size_t)(colon - what) : len;
	const struct trace_field_desc *f;
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)n, what);
	f = trace_field_named(k, name);
	if (!f)
		return snprintf(buf, size, "{%s}", name);
	if (!colon)
		return trace_field_text(r, f, buf, size);
	if (!trace_field(r, f))
		return snprintf(buf, size, "%s", "");
	return snprintf(buf, size, "%.*s", (int)(len - n - 1), colon + 1);
}

int trace_text(const struct trace_record *r, char *buf, size_t size)
{
	const struct trace_kind_desc *k = trace_kind(r->kind);
	size_t n = 0;

	if (size)
		buf[0] = '\0';
	for (const char *p = k ? k->text : ""; *p && n < size;) {
		const char *end = *p == '{' ? strchr(p, '}') : NULL;

		if (!end) {
			n += (size_t)snprintf(buf + n, size - n, "%c", *p++);
			continue;
		}
		n +=
		    (size_t)expand(r, k, p + 1, (size_t)(end - p - 1), buf + n, size - n);
		p = end + 1;
	}
	return (int)n;
}

/* --- JSON ------------------------------------------------------------------------- */

void trace_json_string(FILE *out, const char *s)
{
	putc('"', out);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f || c == '<' || c == '>' || c == '&')
			fprintf(out, "\\u%04x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

static const char *const severities[] = {"detail", "info", "notice", "warning", "error"};
static const char *const ends[] = {"none", "reported", "replaced"};

/* Numbers that may be above 2^53 are texts: addresses and wr_ids */
static void json_field(FILE *out, const struct trace_record *r,
		       const struct trace_field_desc *f)
{
	char text[256];

	fprintf(out, ",\"%s\":", f->name);
	switch (f->unit) {
	case TRACE_NUM:
	case TRACE_QPN:
	case TRACE_PSN:
	case TRACE_BYTES:
	case TRACE_NS:
	case TRACE_PAGES:
	case TRACE_HEX:
	case TRACE_SYNDROME:
		if (f->is_signed)
			fprintf(out, "%" PRId64, (int64_t)trace_field(r, f));
		else
			fprintf(out, "%" PRIu64, trace_field(r, f));
		break;
	case TRACE_BOOL:
		fputs(trace_field(r, f) ? "true" : "false", out);
		break;
	case TRACE_ADDR:
	case TRACE_IP:
	case TRACE_ERRNO:
	case TRACE_OPCODE:
	case TRACE_WR:
	case TRACE_WC:
	case TRACE_STATUS:
	case TRACE_STATE:
	case TRACE_TYPE:
	case TRACE_EVENT:
	case TRACE_CM_MSG:
	case TRACE_CM_EVENT:
	case TRACE_CM_CALL:
	case TRACE_ADVICE:
	case TRACE_ATTR:
	case TRACE_WHY:
	case TRACE_DROP:
	case TRACE_CAUSE:
	case TRACE_TIMER:
	case TRACE_WAIT:
	case TRACE_MODEL:
	case TRACE_INVAL:
	case TRACE_OBJECT:
	case TRACE_VERB:
	case TRACE_NOTE:
	case TRACE_CM_REASON:
	case TRACE_CM_STATE:
	case TRACE_CM_CAUSE:
	case TRACE_ID_STATE:
	case TRACE_N_UNITS:
		trace_field_text(r, f, text, sizeof(text));
		trace_json_string(out, text);
	}
}

static void json_record(FILE *out, const struct trace_record *r)
{
	const struct trace_kind_desc *k = trace_kind(r->kind);

	fprintf(out,
		"{\"n\":%" PRIu64 ",\"t\":%" PRIu64
		",\"thread\":%u,\"kind\":\"%s\",\"severity\":\"%s\"",
		r->number, r->time, r->thread, k->name, severities[k->severity]);
	for (unsigned int i = 0; i < k->n_fields; i++)
		if (strcmp(k->field[i].name, "unused"))
			json_field(out, r, &k->field[i]);
	putc('}', out);
}

static void json_word(FILE *out, const char *name, enum trace_unit unit, uint64_t v)
{
	char text[64];

	number_text(unit, v, text, sizeof(text));
	fprintf(out, ",\"%s\":", name);
	trace_json_string(out, text);
}

static void json_number(FILE *out, const char *name, uint64_t v)
{
	fprintf(out, ",\"%s\":%" PRIu64, name, v);
}

static void json_ip(FILE *out, const char *name, const struct trace_ip *ip)
{
	char text[64];

	fprintf(out, ",\"%s\":\"%s\"", name, trace_ip_text(ip, text));
}

#define NAME(member, name, unit, text) #name,
static const char *const odp_names[] = {TRACE_ODP_COUNTERS(NAME)};
static const char *const net_names[] = {TRACE_NET_COUNTERS(NAME)};
#undef NAME
#define NAME(id, name) name,
static const char *const hw_names[] = {TRACE_HW_COUNTERS(NAME)};
#undef NAME

static void json_counters(FILE *out, const char *const *names, size_t n,
			  const uint64_t *value)
{
	fputs(",\"counters\":{", out);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", names[i], value[i]);
	putc('}', out);
}

static void json_mr(FILE *out, const struct trace_mr *mr)
{
	uint64_t counter[TRACE_N_ODP];
	char map[TRACE_MAP_CELLS + 1];

	for (size_t i = 0; i < TRACE_N_ODP; i++)
		counter[i] = mr->counter[i];
	snprintf(map, sizeof(map), "%.*s", TRACE_MAP_CELLS, mr->map);
	json_word(out, "addr", TRACE_ADDR, mr->addr);
	json_word(out, "iova", TRACE_ADDR, mr->iova);
	json_number(out, "length", mr->length);
	json_number(out, "page_size", mr->page_size);
	json_number(out, "access", mr->access);
	json_number(out, "pd", mr->pd);
	fprintf(out, ",\"on_demand\":%s,\"implicit\":%s",
		mr->on_demand ? "true" : "false", mr->implicit ? "true" : "false");
	if (!mr->on_demand)
		return;
	json_word(out, "model", TRACE_MODEL, mr->model);
	json_number(out, "latency", mr->latency);
	json_number(out, "cached", mr->cached);
	fputs(",\"map\":", out);
	trace_json_string(out, map);
	json_counters(out, odp_names, TRACE_N_ODP, counter);
}

static void json_queue(FILE *out, const char *name, const struct trace_queue *q)
{
	fprintf(out, ",\"%s\":{\"depth\":%u", name, q->depth);
	json_number(out, "posted", q->posted);
	json_number(out, "taken", q->taken);
	json_word(out, "waits", TRACE_WAIT, q->wait);
	json_number(out, "since", q->since);
	json_word(out, "wr_id", TRACE_ADDR, q->wr_id);
	putc('}', out);
}

static void json_packet(FILE *out, const char *name, const struct trace_packet *p)
{
	fprintf(out, ",\"%s\":{\"count\":%" PRIu64, name, p->count);
	if (p->count) {
		json_number(out, "t", p->time);
		json_word(out, "opcode", TRACE_OPCODE, p->opcode);
		json_number(out, "psn", p->psn);
	}
	putc('}', out);
}

static void json_qp(FILE *out, const struct trace_qp *qp)
{
	json_word(out, "type", TRACE_TYPE, qp->type);
	json_word(out, "state", TRACE_STATE, qp->state);
	json_number(out, "since", qp->since);
	json_word(out, "cause", TRACE_CAUSE, qp->cause);
	json_word(out, "status", TRACE_STATUS, qp->status);
	json_number(out, "peer", qp->peer);
	json_ip(out, "local", &qp->local);
	json_ip(out, "remote", &qp->remote);
	json_number(out, "pd", qp->pd);
	json_number(out, "send_cq", qp->send_cq);
	json_number(out, "recv_cq", qp->recv_cq);
	json_number(out, "srq", qp->srq);
	json_number(out, "mtu", qp->mtu);
	json_number(out, "timeout", qp->timeout);
	json_number(out, "retry_cnt", qp->retry_cnt);
	json_number(out, "rnr_retry", qp->rnr_retry);
	json_number(out, "min_rnr_timer", qp->min_rnr_timer);
	json_number(out, "max_rd_atomic", qp->max_rd_atomic);
	json_number(out, "max_dest_rd_atomic", qp->max_dest_rd_atomic);
	json_number(out, "una", qp->una);
	json_number(out, "next_psn", qp->next_psn);
	json_number(out, "expected_psn", qp->epsn);
	json_number(out, "rnr_naks", qp->rnr_naks);
	json_number(out, "timeouts", qp->timeouts);
	json_number(out, "rnr_sent", qp->rnr_sent);
	json_queue(out, "sq", &qp->sq);
	json_queue(out, "rq", &qp->rq);
	json_packet(out, "last_out", &qp->out);
	json_packet(out, "last_in", &qp->in);
}

static void json_cq(FILE *out, const struct trace_cq *cq)
{
	json_number(out, "size", cq->size);
	json_number(out, "produced", cq->produced);
	json_number(out, "polled", cq->polled);
	json_number(out, "waiting_since", cq->waiting);
	json_number(out, "events", cq->events);
	fprintf(out, ",\"armed\":%s,\"overrun\":%s", cq->armed ? "true" : "false",
		cq->overrun ? "true" : "false");
}

static void json_cm_id(FILE *out, const struct trace_cm_id *cm)
{
	json_ip(out, "local", &cm->local);
	json_number(out, "local_port", cm->local_port);
	json_ip(out, "remote", &cm->remote);
	json_number(out, "remote_port", cm->remote_port);
	json_number(out, "qpn", cm->qpn);
	json_number(out, "since", cm->since);
	fputs(",\"state\":", out);
	trace_json_string(out, cm->state);
	json_word(out, "protocol", TRACE_CM_STATE, cm->protocol);
	json_number(out, "protocol_since", cm->protocol_since);
	json_word(out, "type", TRACE_TYPE, cm->type);
	fprintf(out, ",\"passive\":%s", cm->passive ? "true" : "false");
	json_number(out, "local_id", cm->local_id);
	json_number(out, "remote_id", cm->remote_id);
	if (cm->sent)
		json_word(out, "message", TRACE_CM_MSG, cm->message);
	json_number(out, "sent", cm->sent);
	json_number(out, "first_sent", cm->first_sent);
	json_number(out, "last_sent", cm->last_sent);
	json_number(out, "give_up", cm->give_up);
	if (cm->event_at)
		json_word(out, "event", TRACE_CM_EVENT, cm->event);
	json_number(out, "events_given", cm->given);
	json_number(out, "events_queued", cm->queued);
	json_number(out, "queued_since", cm->queued_since);
	json_number(out, "backlog", cm->backlog);
	json_number(out, "not_taken", cm->not_taken);
}

static void json_note(FILE *out, const struct trace_note *n)
{
	json_word(out, "about", TRACE_OBJECT, n->about);
	json_number(out, "about_id", n->about_id);
	json_word(out, "cause", TRACE_NOTE, n->cause);
	json_number(out, "count", n->count);
	json_number(out, "last", n->last);
	fputs(",\"text\":", out);
	trace_json_string(out, n->text);
}

static void json_device(FILE *out, const struct trace_device *d)
{
	fputs(",\"interface\":", out);
	trace_json_string(out, d->ifname);
	json_number(out, "mtu", d->mtu);
	fprintf(out, ",\"up\":%s", d->up ? "true" : "false");
	json_counters(out, hw_names, TRACE_N_HW, d->counter);
}

static void json_stack(FILE *out, const struct trace_stack *s)
{
	fputs(",\"frames\":[", out);
	for (uint32_t i = 0; i < s->n; i++)
		fprintf(out, "%s{\"module\":%u,\"addr\":\"0x%" PRIx64 "\"}", i ? "," : "",
			s->frame[i].module, s->frame[i].addr);
	fputs("]", out);
}

static void json_object(FILE *out, const struct trace_object *o)
{
	fputs("{\"object\":", out);
	trace_json_string(out, trace_name(TRACE_OBJECT, o->kind));
	json_number(out, "id", o->id);
	json_number(out, "device", o->device);
	fputs(",\"name\":", out);
	trace_json_string(out, o->name);
	json_number(out, "created", o->created);
	json_number(out, "ended", o->ended);
	fprintf(out, ",\"gone\":%s", o->gone ? "true" : "false");
	if (o->kind == TRACE_OBJ_MR)
		json_mr(out, &o->mr);
	else if (o->kind == TRACE_OBJ_QP)
		json_qp(out, &o->qp);
	else if (o->kind == TRACE_OBJ_CQ)
		json_cq(out, &o->cq);
	else if (o->kind == TRACE_OBJ_CM_ID)
		json_cm_id(out, &o->cm);
	else if (o->kind == TRACE_OBJ_STACK)
		json_stack(out, &o->stack);
	else if (o->kind == TRACE_OBJ_MODULE) {
		fputs(",\"path\":", out);
		trace_json_string(out, o->module.path);
	} else if (o->kind == TRACE_OBJ_DEVICE)
		json_device(out, &o->dev);
	else if (o->kind == TRACE_OBJ_NOTE)
		json_note(out, &o->note);
	putc('}', out);
}

static void json_info(FILE *out, const struct trace_info *i)
{
	fprintf(out, "\"pid\":%d,\"uid\":%u,\"program\":", i->pid, i->uid);
	trace_json_string(out, i->program);
	fputs(",\"host\":", out);
	trace_json_string(out, i->host);
	fprintf(out, ",\"clock\":{\"monotonic\":%" PRIu64 ",\"realtime\":%" PRIu64 "}",
		i->mono, i->real);
	fprintf(out, ",\"full\":%s,\"end\":\"%s\"", i->full ? "true" : "false",
		i->end < sizeof(ends) / sizeof(ends[0]) ? ends[i->end] : "?");
	json_number(out, "full_from", i->full_from);
	json_number(out, "full_until", i->full_until);
	json_number(out, "overwritten", i->overwritten);
	json_number(out, "lost", i->lost);
	json_number(out, "unlisted_objects", i->unlisted);
	json_counters(out, net_names, TRACE_N_NET, i->net);
}

void trace_json_about(const struct trace_reader *t, FILE *out)
{
	fprintf(out, "\"format\":\"urxe-trace\",\"version\":%d,", TRACE_VERSION);
	json_info(out, trace_info(t));
	fputs(",\n\"objects\":[", out);
	for (size_t i = 0; i < trace_object_count(t); i++) {
		fputs(i ? ",\n" : "\n", out);
		json_object(out, trace_object(t, i));
	}
	fputs("]", out);
}

int trace_json(struct trace_reader *t, FILE *out)
{
	struct trace_record r;
	bool first = true;

	trace_rewind(t);
	fputs("{", out);
	trace_json_about(t, out);
	fputs(",\n\"records\":[", out);
	for (; trace_next(t, &r); first = false) {
		fputs(first ? "\n" : ",\n", out);
		json_record(out, &r);
	}
	fprintf(out, "],\n\"unreadable\":%" PRIu64 "}", trace_unreadable(t));
	return ferror(out) ? -EIO : 0;
}
