/* cm_conn.c - see cm_conn.h */
#include "emu/cm_conn.h"

#include <stdlib.h>

#include "base/splitmix.h"

#define INDEX_MIN 64 /* buckets */
#define ID_MASK	  ((1u << EMU_CM_ID_BITS) - 1)

/* --- indexes ---------------------------------------------------------------------- */

/* Spread @a and @b over 64 bits. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	return splitmix_mix(a + b * SPLITMIX_STEP);
}

/*
 * Grow when there are more entries than buckets; if memory is short, chains get longer.
 */
static bool index_grow(struct cm_index *x)
{
	uint32_t n = x->n_buckets ? x->n_buckets * 2 : INDEX_MIN;
	struct cm_link **b = calloc(n, sizeof(*b));
	uint32_t i;

	if (!b)
		return x->n_buckets != 0;
	for (i = 0; i < x->n_buckets; i++) {
		struct cm_link *l = x->bucket[i], *next;

		for (; l; l = next) {
			next = l->next;
			l->next = b[l->hash & (n - 1)];
			b[l->hash & (n - 1)] = l;
		}
	}
	free(x->bucket);
	x->bucket = b;
	x->n_buckets = n;
	return true;
}

static bool index_add(struct cm_index *x, struct cm_link *l, struct emu_cm_conn *c,
		      uint64_t hash)
{
	struct cm_link **b;

	if (x->count >= x->n_buckets && !index_grow(x))
		return false;
	b = &x->bucket[hash & (x->n_buckets - 1)];
	*l = (struct cm_link){.next = *b, .conn = c, .hash = hash, .in = true};
	*b = l;
	x->count++;
	return true;
}

static void index_del(struct cm_index *x, struct cm_link *l)
{
	struct cm_link **p;

	if (!l->in)
		return;
	p = &x->bucket[l->hash & (x->n_buckets - 1)];
	while (*p != l)
		p = &(*p)->next;
	*p = l->next;
	l->in = false;
	x->count--;
}

/* The first link with @hash at or after @l; NULL for @l begins. */
static struct cm_link *index_next(const struct cm_index *x, const struct cm_link *l,
				  uint64_t hash)
{
	struct cm_link *n;

	if (!x->n_buckets)
		return NULL;
	n = l ? l->next : x->bucket[hash & (x->n_buckets - 1)];
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

/* --- deadlines -------------------------------------------------------------------- */

static void heap_put(struct emu_cm *cm, uint32_t pos, struct emu_cm_conn *c)
{
	cm->heap[pos - 1] = c;
	c->heap_pos = pos;
}

static void heap_up(struct emu_cm *cm, struct emu_cm_conn *c)
{
	uint32_t pos = c->heap_pos;

	while (pos > 1 && cm->heap[pos / 2 - 1]->deadline > c->deadline) {
		heap_put(cm, pos, cm->heap[pos / 2 - 1]);
		pos /= 2;
	}
	heap_put(cm, pos, c);
}

static void heap_down(struct emu_cm *cm, struct emu_cm_conn *c)
{
	uint32_t pos = c->heap_pos;

	for (;;) {
		uint32_t child = pos * 2;

		if (child > cm->n_heap)
			break;
		if (child < cm->n_heap &&
		    cm->heap[child]->deadline < cm->heap[child - 1]->deadline)
			child++;
		if (cm->heap[child - 1]->deadline >= c->deadline)
			break;
		heap_put(cm, pos, cm->heap[child - 1]);
		pos = child;
	}
	heap_put(cm, pos, c);
}

static void heap_remove(struct emu_cm_conn *c)
{
	struct emu_cm *cm = c->cm;
	struct emu_cm_conn *last;
	uint32_t pos = c->heap_pos;

	if (!pos)
		return;
	c->heap_pos = 0;
	last = cm->heap[--cm->n_heap];
	if (last == c)
		return;
	heap_put(cm, pos, last);
	heap_up(cm, last);
	heap_down(cm, last);
}

void cm_conn_arm(struct emu_cm_conn *c, uint64_t deadline)
{
	struct emu_cm *cm = c->cm;

	c->deadline = deadline;
	if (deadline == EMU_CM_NO_DEADLINE) {
		heap_remove(c);
		return;
	}
	if (!c->heap_pos)
		heap_put(cm, ++cm->n_heap, c);
	heap_up(cm, c);
	heap_down(cm, c);
}

struct emu_cm_conn *cm_conn_first(const struct emu_cm *cm)
{
	return cm->n_heap ? cm->heap[0] : NULL;
}

/* Room for one more, so that arming a timer cannot fail */
static bool heap_reserve(struct emu_cm *cm)
{
	uint32_t room = cm->heap_room ? cm->heap_room * 2 : INDEX_MIN;
	struct emu_cm_conn **h;

	if (cm->count < cm->heap_room)
		return true;
	h = realloc(cm->heap, room * sizeof(*h));
	if (!h)
		return false;
	cm->heap = h;
	cm->heap_room = room;
	return true;
}

/* --- connections ------------------------------------------------------------------ */

/* An ID that is not in use; 0 means "unknown" in messages, so it is none. */
static uint32_t fresh_id(struct emu_cm *cm)
{
	uint32_t i;

	for (i = 0; i <= ID_MASK; i++) {
		uint32_t id = cm->slot << EMU_CM_ID_BITS | (cm->next_id++ & ID_MASK);

		if (id && !cm_conn_find(cm, id))
			return id;
	}
	return 0;
}

struct emu_cm_conn *cm_conn_new(struct emu_cm *cm, const struct emu_cm_port *port)
{
	struct emu_cm_conn *c;
	uint32_t id;

	if (!heap_reserve(cm))
		return NULL;
	id = fresh_id(cm);
	c = id ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return NULL;
	if (!index_add(&cm->by_id, &c->id_link, c, mix(id, 0))) {
		free(c);
		return NULL;
	}
	c->cm = cm;
	c->port = *port;
	c->local_id = id;
	c->deadline = EMU_CM_NO_DEADLINE;
	c->next = cm->all;
	c->prevp = &cm->all;
	if (c->next)
		c->next->prevp = &c->next;
	cm->all = c;
	cm->count++;
	return c;
}

void cm_conn_free(struct emu_cm_conn *c)
{
	struct emu_cm *cm = c->cm;

	heap_remove(c);
	index_del(&cm->by_id, &c->id_link);
	index_del(&cm->by_peer, &c->peer_link);
	index_del(&cm->by_qp, &c->qp_link);
	*c->prevp = c->next;
	if (c->next)
		c->next->prevp = c->prevp;
	cm->count--;
	free(c);
}

struct emu_cm_conn *cm_conn_find(struct emu_cm *cm, uint32_t local_id)
{
	uint64_t hash = mix(local_id, 0);
	struct cm_link *l = NULL;

	while ((l = index_next(&cm->by_id, l, hash))) {
		if (l->conn->local_id == local_id)
			return l->conn;
	}
	return NULL;
}

static uint64_t ip_hash(const struct net_ip *ip)
{
	uint64_t w[2];

	memcpy(w, ip->b, sizeof(w));
	return mix(w[0], w[1]);
}

/* Failure only means that duplicates are not recognised. */
void cm_conn_index_peer(struct emu_cm_conn *c)
{
	bool sidr = c->state == EMU_CM_SIDR_REQ_RCVD;
	uint64_t whom = sidr ? ip_hash(&c->path.dst) : c->peer_guid_be;

	index_add(&c->cm->by_peer, &c->peer_link, c, mix(whom, c->remote_id));
}

struct emu_cm_conn *cm_conn_find_peer(struct emu_cm *cm, uint32_t remote_id,
				      uint64_t guid_be)
{
	uint64_t hash = mix(guid_be, remote_id);
	struct cm_link *l = NULL;

	while ((l = index_next(&cm->by_peer, l, hash))) {
		if (l->conn->remote_id == remote_id && l->conn->peer_guid_be == guid_be)
			return l->conn;
	}
	return NULL;
}

struct emu_cm_conn *cm_conn_find_sidr(struct emu_cm *cm, uint32_t request_id,
				      const struct net_ip *ip)
{
	uint64_t hash = mix(ip_hash(ip), request_id);
	struct cm_link *l = NULL;

	while ((l = index_next(&cm->by_peer, l, hash))) {
		if (l->conn->remote_id == request_id && net_ip_eq(&l->conn->path.dst, ip))
			return l->conn;
	}
	return NULL;
}

void cm_conn_index_qp(struct emu_cm_conn *c)
{
	index_add(&c->cm->by_qp, &c->qp_link, c, mix(c->peer_guid_be, c->remote_qpn));
}

void cm_conn_unindex_qp(struct emu_cm_conn *c)
{
	index_del(&c->cm->by_qp, &c->qp_link);
}

struct emu_cm_conn *cm_conn_find_qp(struct emu_cm *cm, uint64_t guid_be, uint32_t qpn,
				    const struct emu_cm_conn *except)
{
	uint64_t hash = mix(guid_be, qpn);
	struct cm_link *l = NULL;

	while ((l = index_next(&cm->by_qp, l, hash))) {
		if (l->conn != except && l->conn->peer_guid_be == guid_be &&
		    l->conn->remote_qpn == qpn)
			return l->conn;
	}
	return NULL;
}
