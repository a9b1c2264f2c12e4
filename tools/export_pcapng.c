/*
 * export_pcapng.c - the packets of traces for Wireshark.
 *
 * A record has the headers that matter and no payload. So each packet is built again from its
 * record, cut off behind its transport headers, with the length that it had. Options: a
 * comment with what the record says, and the direction.
 */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "net/ip_header.h"
#include "net/rocev2.h"
#include "tools/export.h"
#include "trace/reader.h"
#include "trace/render.h"

#define ETH_LEN	    14
#define FRAME_MAX   (ETH_LEN + IP6_HDR_LEN + UDP_HDR_LEN + ROCE_HDR_MAX)
#define BLOCK_MAX   1024
#define SHB	    0x0a0d0d0au
#define IDB	    1u
#define EPB	    6u
#define OPT_COMMENT 1
#define OPT_NAME    2
#define OPT_FLAGS   2
#define OPT_TSRESOL 9

/* struct block - one that is being made; @n bytes of it are there */
struct block {
	uint8_t b[BLOCK_MAX];
	size_t n;
};

static void put(struct block *b, const void *data, size_t len)
{
	static const uint8_t zero[4];

	if (b->n + len + 4 > sizeof(b->b))
		return;
	if (len)
		memcpy(b->b + b->n, data, len);
	b->n += len;
	memcpy(b->b + b->n, zero, (0 - len) & 3);
	b->n += (0 - len) & 3;
}

static void put32(struct block *b, uint32_t v)
{
	put(b, &v, sizeof(v));
}

static void put_option(struct block *b, uint16_t code, const void *data, size_t len)
{
	uint16_t head[2] = {code, (uint16_t)len};

	put(b, head, sizeof(head));
	put(b, data, len);
}

static void begin(struct block *b, uint32_t type)
{
	b->n = 0;
	put32(b, type);
	put32(b, 0);
}

static void end(struct block *b, FILE *out)
{
	uint32_t len = (uint32_t)b->n + 4;

	put32(b, len);
	memcpy(b->b + 4, &len, sizeof(len));
	fwrite(b->b, 1, b->n, out);
}

static void put_section(FILE *out)
{
	static const char note[] = "made from traces of urxe: payload is not recorded";
	const uint16_t version[2] = {1, 0};
	struct block b;

	begin(&b, SHB);
	put32(&b, 0x1a2b3c4d);
	put(&b, version, sizeof(version));
	put32(&b, 0xffffffff);
	put32(&b, 0xffffffff);
	put_option(&b, OPT_COMMENT, note, strlen(note));
	put_option(&b, 0, NULL, 0);
	end(&b, out);
}

static void put_interface(const struct trace_info *i, FILE *out)
{
	const uint16_t link[2] = {1, 0}; /* Ethernet */
	const uint8_t nanoseconds = 9;
	char name[256];
	struct block b;

	snprintf(name, sizeof(name), "%s (pid %d) on %s", i->program, i->pid, i->host);
	begin(&b, IDB);
	put(&b, link, sizeof(link));
	put32(&b, 0);
	put_option(&b, OPT_NAME, name, strlen(name));
	put_option(&b, OPT_TSRESOL, &nanoseconds, 1);
	put_option(&b, 0, NULL, 0);
	end(&b, out);
}

/* The headers of a packet from @path.src to @path.dst; how long they are */
static size_t make_frame(uint8_t *frame, const struct net_path *path,
			 const struct roce_hdr *h, uint32_t length, uint32_t *whole)
{
	bool v4 = net_ip_is_v4(&path->dst);
	uint32_t hdr_len, udp_len;
	uint8_t *p = frame;

	roce_opcode_info(h->opcode, &hdr_len);
	udp_len = UDP_HDR_LEN + hdr_len + length + h->pad + ROCE_ICRC_LEN;
	memset(p, 0, ETH_LEN);
	p[0] = p[6] = 0x02;
	put_be16(p + 12, v4 ? 0x0800 : 0x86dd);
	p += ETH_LEN;
	if (v4) {
		ip4_header(p, path, 0, 64, 0, udp_len);
		ip4_put_checksum(p);
		p += IP4_HDR_LEN;
	} else {
		p = ip6_header(p, path, 0, 64, 0, udp_len);
	}
	put_be16(p, 0xc000);
	put_be16(p + 2, ROCE_UDP_PORT);
	put_be16(p + 4, (uint16_t)udp_len);
	put_be16(p + 6, 0);
	p += UDP_HDR_LEN;
	*whole = (uint32_t)(p - frame) - UDP_HDR_LEN + udp_len;
	return (size_t)(p - frame) + roce_build(p, h);
}

static void fill_header(const struct trace_rec_packet_out *f, bool sent,
			struct roce_hdr *h)
{
	*h = (struct roce_hdr){
	    .opcode = f->opcode,
	    .pkey = ROCE_PKEY_DEFAULT,
	    .dqpn = (sent ? f->peer : f->qpn) & ROCE_QPN_MASK,
	    .psn = f->psn & ROCE_PSN_MASK,
	    .ack_req = f->ack_req,
	    .va = f->va,
	    .rkey = f->rkey,
	    .dma_len = f->dma_length,
	    .syndrome = f->syndrome,
	    .msn = f->msn,
	    .sqpn = (sent ? f->qpn : f->peer) & ROCE_QPN_MASK,
	    .pad = (0 - f->length) & 3,
	};
}

/* struct place - the last known addresses of a QP's ends */
struct place {
	uint32_t qpn;
	struct trace_ip local, remote;
	UT_hash_handle hh;
};

static void learn(struct place **places, const struct trace_rec_qp_path *r)
{
	struct place *p;

	HASH_FIND(hh, *places, &r->qpn, sizeof(r->qpn), p);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return;
		p->qpn = r->qpn;
		HASH_ADD(hh, *places, qpn, sizeof(p->qpn), p);
	}
	p->local = r->local;
	p->remote = r->remote;
}

/* By what was recorded before; if that is overwritten, by the QP if it is still there */
static void find_path(struct place *places, const struct trace_reader *t, uint32_t qpn,
		      bool sent, struct net_path *path)
{
	const struct trace_object *qp = trace_find(t, TRACE_OBJ_QP, qpn);
	const struct trace_ip *local = NULL, *remote = NULL;
	struct place *p;

	HASH_FIND(hh, places, &qpn, sizeof(qpn), p);
	if (p) {
		local = &p->local;
		remote = &p->remote;
	} else if (qp) {
		local = &qp->qp.local;
		remote = &qp->qp.remote;
	} else {
		return;
	}
	memcpy(path->src.b, (sent ? local : remote)->b, 16);
	memcpy(path->dst.b, (sent ? remote : local)->b, 16);
}

static void forget(struct place **places)
{
	struct place *p, *next;

	HASH_ITER (hh, *places, p, next) {
		HASH_DEL(*places, p);
		free(p);
	}
}

static void put_packet(const struct trace_reader *t, struct place *places,
		       uint32_t interface, const struct trace_record *r, bool sent,
		       FILE *out)
{
	const struct trace_info *i = trace_info(t);
	struct net_path path = {.src.b = {[10] = 0xff, [11] = 0xff},
				.dst.b = {[10] = 0xff, [11] = 0xff}};
	uint64_t time = r->time - i->mono + i->real;
	uint32_t flags = sent ? 2 : 1, whole, head[5];
	uint8_t frame[FRAME_MAX];
	char text[256];
	struct roce_hdr h;
	struct block b;
	size_t len;

	if (!(roce_opcode_info(r->u.packet_out.opcode, NULL) & ROCE_F_VALID))
		return;
	find_path(places, t, r->u.packet_out.qpn, sent, &path);
	fill_header(&r->u.packet_out, sent, &h);
	len = make_frame(frame, &path, &h, r->u.packet_out.length & 0xffff, &whole);
	memcpy(head,
	       (uint32_t[]){interface, (uint32_t)(time >> 32), (uint32_t)time,
			    (uint32_t)len, whole},
	       sizeof(head));
	begin(&b, EPB);
	put(&b, head, sizeof(head));
	put(&b, frame, len);
	trace_text(r, text, sizeof(text));
	put_option(&b, OPT_COMMENT, text, strlen(text));
	put_option(&b, OPT_FLAGS, &flags, sizeof(flags));
	put_option(&b, 0, NULL, 0);
	end(&b, out);
}

void export_pcapng(struct trace_reader **t, int n, FILE *out)
{
	struct place *places = NULL;
	struct trace_record r;

	put_section(out);
	for (int i = 0; i < n; i++)
		put_interface(trace_info(t[i]), out);
	for (int i = 0; i < n; i++) {
		trace_rewind(t[i]);
		while (trace_next(t[i], &r)) {
			if (r.kind == TRACE_KIND_qp_path)
				learn(&places, &r.u.qp_path);
			else if (r.kind == TRACE_KIND_packet_out ||
				 r.kind == TRACE_KIND_packet_again ||
				 r.kind == TRACE_KIND_nak_out)
				put_packet(t[i], places, (uint32_t)i, &r, true, out);
			else if (r.kind == TRACE_KIND_packet_in ||
				 r.kind == TRACE_KIND_nak_in)
				put_packet(t[i], places, (uint32_t)i, &r, false, out);
		}
		forget(&places);
	}
}
