/*
 * id_table.c - numbers for objects: the slab of ids, and the QPNs.
 *
 * Owns the coding of free slots and the order in which ids are given out; knows no
 * object.
 *
 * An id that was freed waits in a queue until at least QUARANTINE others wait behind it,
 * as long as there are ids that were never used: a peer that still uses an old key or QPN
 * finds nobody instead of somebody else.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/objects.h"

#define QUARANTINE 256
#define FIRST_SIZE 64

_Static_assert(sizeof(void *) == 8, "a free slot is coded in 64 bits");

/*
 * A free slot: bit 0 set, bits 1..31 the next free id, bits 32..39 what the last owner
 * left
 */
static void *free_slot(uint32_t next, uint8_t leave)
{
	return (void *)((uintptr_t)leave << 32 | (uintptr_t)next << 1 | 1);
}

static bool slot_is_free(const void *slot)
{
	return (uintptr_t)slot & 1;
}

static uint32_t slot_next(const void *slot)
{
	return ((uintptr_t)slot & 0xffffffff) >> 1;
}

static uint8_t slot_left(const void *slot)
{
	return (uintptr_t)slot >> 32;
}

void emu_table_init(struct emu_table *t, uint32_t first, uint32_t max)
{
	*t = (struct emu_table){.fresh = first, .max = max};
}

void emu_table_fini(struct emu_table *t)
{
	free(t->slot);
	t->slot = NULL;
}

static int table_grow(struct emu_table *t)
{
	uint32_t size = t->size ? t->size * 2 : FIRST_SIZE;
	void **slot;

	slot = realloc(t->slot, size * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	memset(slot + t->size, 0, (size - t->size) * sizeof(*slot));
	t->slot = slot;
	t->size = size;
	return 0;
}

static uint32_t table_pop(struct emu_table *t, uint8_t *last)
{
	uint32_t id = t->head;

	*last = slot_left(t->slot[id]);
	t->head = slot_next(t->slot[id]);
	t->nfree--;
	return id;
}

int emu_table_add(struct emu_table *t, void *obj, uint32_t *id, uint8_t *last)
{
	*last = 0;
	if (t->nfree > QUARANTINE || (t->nfree && t->fresh >= t->max)) {
		*id = table_pop(t, last);
	} else {
		if (t->fresh >= t->max)
			return -ENOMEM;
		if (t->fresh >= t->size && table_grow(t))
			return -ENOMEM;
		*id = t->fresh++;
	}
	t->slot[*id] = obj;
	t->used++;
	return 0;
}

void *emu_table_get(const struct emu_table *t, uint32_t id)
{
	/* no slots yet while size is 0 */
	if (id >= t->size || slot_is_free(t->slot[id]))
		return NULL;
	return t->slot[id];
}

void emu_table_del(struct emu_table *t, uint32_t id, uint8_t leave)
{
	t->slot[id] = free_slot(0, leave);
	if (t->nfree)
		t->slot[t->tail] = free_slot(id, slot_left(t->slot[t->tail]));
	else
		t->head = id;
	t->tail = id;
	t->nfree++;
	t->used--;
}

#define QPN_BITS  12 /* of each level */
#define QPN_SLOTS (1u << QPN_BITS)
#define QPN_MAX	  0xffffffu

static void **qpn_slot(const struct emu_qpns *q, uint32_t qpn)
{
	void **l2 = q->l1 && qpn <= QPN_MAX ? q->l1[qpn >> QPN_BITS] : NULL;

	return l2 ? &l2[qpn & (QPN_SLOTS - 1)] : NULL;
}

/* The slot of a QPN that is used for the first time */
static void **qpn_make_slot(struct emu_qpns *q, uint32_t qpn)
{
	void ***l2;

	if (!q->l1)
		q->l1 = calloc(QPN_SLOTS, sizeof(*q->l1));
	if (!q->l1)
		return NULL;
	l2 = &q->l1[qpn >> QPN_BITS];
	if (!*l2)
		*l2 = calloc(QPN_SLOTS, sizeof(**l2));
	return *l2 ? qpn_slot(q, qpn) : NULL;
}

/* Take another lease when the last is used up. What is not a QPN for users is skipped. */
static bool qpn_have_fresh(struct emu_hca *hca)
{
	struct emu_qpns *q = &hca->qpns;

	if (!q->left && hca->ops->qpn_lease(hca->arg, &q->base, &q->left))
		q->left = 0;
	while (q->left && (q->base < EMU_FIRST_QPN || q->base >= QPN_MAX)) {
		q->base++;
		q->left--;
	}
	return q->left > 0;
}

int emu_qpn_alloc(struct emu_hca *hca, struct emu_qp *qp, uint32_t *qpn)
{
	struct emu_qpns *q = &hca->qpns;
	void **slot;

	if (q->nfree > QUARANTINE || (q->nfree && !qpn_have_fresh(hca))) {
		*qpn = q->head;
		slot = qpn_slot(q, *qpn);
		q->head = slot_next(*slot);
		q->nfree--;
	} else {
		if (!qpn_have_fresh(hca))
			return -ENOMEM;
		slot = qpn_make_slot(q, q->base);
		if (!slot)
			return -ENOMEM;
		*qpn = q->base++;
		q->left--;
	}
	*slot = qp;
	q->used++;
	return 0;
}

void emu_qpn_free(struct emu_hca *hca, uint32_t qpn)
{
	struct emu_qpns *q = &hca->qpns;

	*qpn_slot(q, qpn) = free_slot(0, 0);
	if (q->nfree)
		*qpn_slot(q, q->tail) = free_slot(qpn, 0);
	else
		q->head = qpn;
	q->tail = qpn;
	q->nfree++;
	q->used--;
}

struct emu_qp *emu_hca_qp(const struct emu_hca *hca, uint32_t qpn)
{
	void **slot = qpn_slot(&hca->qpns, qpn);

	return slot && !slot_is_free(*slot) ? *slot : NULL;
}

void emu_qps_each(struct emu_hca *hca, void (*fn)(struct emu_qp *qp))
{
	void ***l1 = hca->qpns.l1;

	for (uint32_t i = 0; l1 && i < QPN_SLOTS; i++)
		for (uint32_t k = 0; l1[i] && k < QPN_SLOTS; k++)
			if (l1[i][k] && !slot_is_free(l1[i][k]))
				fn(l1[i][k]);
}

void emu_qpns_fini(struct emu_qpns *q)
{
	for (uint32_t i = 0; q->l1 && i < QPN_SLOTS; i++)
		free(q->l1[i]);
	free(q->l1);
	q->l1 = NULL;
}
