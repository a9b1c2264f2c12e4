/*
 * diagnose_key.c - which of key, protection domain, right and range is wrong, and by how much.
 *
 * It looks again at what emu_lkey_check() and emu_rkey_check() refused (mr.c), in their order.
 */
#include <inttypes.h>
#include <stdio.h>

#include "emu/diagnose.h"

/* struct place - memory as a key describes it, and what stands for it in a sentence */
struct place {
	const struct emu_pd *pd;
	uint64_t base, length;
	int access;
	char name[128];
};

static const struct {
	int bit;
	const char *name;
} rights[] = {
    {IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"},
    {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
    {IBV_ACCESS_REMOTE_READ, "REMOTE_READ"},
    {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
    {EMU_ACCESS_FLUSH_GLOBAL, "FLUSH_GLOBAL"},
    {EMU_ACCESS_FLUSH_PERSISTENT, "FLUSH_PERSISTENT"},
};

/* The rights of @access, separated by @between */
static void rights_text(int access, char *buf, size_t size)
{
	size_t n = 0;

	snprintf(buf, size, "none");
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (access & rights[i].bit && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%sIBV_ACCESS_%s",
					      n ? "|" : "", rights[i].name);
}

static void mr_place(const struct emu_mr *mr, struct place *p)
{
	struct odp_mr_info info;

	odp_mr_describe(mr->odp, &info);
	*p = (struct place){
	    .pd = mr->pd, .base = mr->iova, .length = mr->length, .access = mr->access};
	snprintf(p->name, sizeof(p->name),
		 "MR 0x%x%s%s%s (%" PRIu64 " bytes at 0x%" PRIx64 ")", mr->k.key,
		 info.name[0] ? " \"" : "", info.name, info.name[0] ? "\"" : "",
		 mr->length, mr->iova);
}

static void mw_place(const struct emu_mw *mw, struct place *p)
{
	*p = (struct place){
	    .pd = mw->pd, .base = mw->addr, .length = mw->length, .access = mw->access};
	if (mw->access & IBV_ACCESS_ZERO_BASED)
		p->base = 0;
	snprintf(p->name, sizeof(p->name),
		 "memory window 0x%x (%" PRIu64 " bytes at 0x%" PRIx64 ")", mw->k.key,
		 mw->length, p->base);
}

/* An MR of the PD in which all of the range is, or NULL */
static const struct emu_mr *mr_around(struct emu_hca *hca, const struct emu_use *use)
{
	for (uint32_t id = 0; id < hca->keys.size; id++) {
		const struct emu_key *k = emu_table_get(&hca->keys, id);
		const struct emu_mr *mr = (const struct emu_mr *)k;

		if (k && !k->is_mw && mr->pd == use->pd &&
		    emu_range_in(use->va, use->len, mr->iova, mr->length))
			return mr;
	}
	return NULL;
}

static void unknown_key(struct emu_hca *hca, const struct emu_use *use,
			struct trouble *out)
{
	const struct emu_key *same = emu_table_get(&hca->keys, use->key >> 8);
	const struct emu_mr *around = mr_around(hca, use);
	struct place p;
	int n;

	out->cause = TRACE_NOTE_KEY;
	n = snprintf(out->text, sizeof(out->text), "no MR has %s 0x%x",
		     use->qp ? "R_Key" : "L_Key", use->key);
	if (around) {
		mr_place(around, &p);
		snprintf(out->text + n, sizeof(out->text) - (size_t)n,
			 "; the address, 0x%" PRIx64 ", is in %s, whose key is 0x%x",
			 use->va, p.name, around->k.key);
	} else if (same) {
		snprintf(out->text + n, sizeof(out->text) - (size_t)n,
			 " any more: 0x%x has taken its place", same->key);
	}
}

static void wrong_range(const struct emu_use *use, const struct place *p,
			struct trouble *out)
{
	uint64_t end = p->base + p->length;
	const char *how = "ends";
	uint64_t by = use->va + use->len - end;
	const char *where = "behind the end of";

	out->cause = TRACE_NOTE_KEY_RANGE;
	if (use->va < p->base) {
		how = "begins";
		by = p->base - use->va;
		where = "before";
	} else if (use->va >= end) {
		how = "begins";
		by = use->va - end;
	}
	snprintf(out->text, sizeof(out->text),
		 "%" PRIu64 " bytes at 0x%" PRIx64 ": that %s %" PRIu64 " bytes %s %s",
		 use->len, use->va, how, by, where, p->name);
}

static void missing_right(const struct emu_use *use, const struct place *p,
			  struct trouble *out)
{
	char want[96], have[160];

	out->cause = TRACE_NOTE_KEY_RIGHT;
	rights_text(use->access & ~p->access, want, sizeof(want));
	rights_text(p->access, have, sizeof(have));
	snprintf(out->text, sizeof(out->text), "%s lacks %s; it was registered with %s",
		 p->name, want, have);
}

/* All that the key says is right: then the memory itself is not as it was */
static void wrong_memory(const struct emu_use *use, const struct place *p,
			 struct trouble *out)
{
	out->cause = TRACE_NOTE_MEMORY;
	snprintf(out->text, sizeof(out->text),
		 "%s: among the %" PRIu64 " bytes at 0x%" PRIx64
		 " is memory that cannot be %s: it was unmapped or freed, or is "
		 "protected",
		 p->name, use->len, use->va,
		 use->access & ~IBV_ACCESS_REMOTE_READ ? "written" : "read");
}

/* A window that the QP may not use; NULL: it may */
static const char *window_refused(const struct emu_key *k, const struct emu_use *use)
{
	const struct emu_mw *mw = (const struct emu_mw *)k;

	if (!k->is_mw)
		return NULL;
	if (!mw->mr)
		return "is not bound";
	return mw->type == IBV_MW_TYPE_2 && mw->qp != use->qp ? "is bound to another QP"
							      : NULL;
}

void diagnose_key(struct emu_hca *hca, const struct emu_use *use, struct trouble *out)
{
	struct emu_key *k = emu_key_find(hca, use->key);
	struct place p;

	*out = (struct trouble){.detail = use->key};
	if (!k || (k->is_mw && !use->qp)) {
		unknown_key(hca, use, out);
		return;
	}
	if (k->is_mw)
		mw_place((const struct emu_mw *)k, &p);
	else
		mr_place((const struct emu_mr *)k, &p);
	if (p.pd != use->pd) {
		out->cause = TRACE_NOTE_KEY_PD;
		snprintf(out->text, sizeof(out->text),
			 "%s is in another protection domain than the QP", p.name);
	} else if (window_refused(k, use)) {
		out->cause = TRACE_NOTE_KEY;
		snprintf(out->text, sizeof(out->text), "%s %s", p.name,
			 window_refused(k, use));
	} else if (use->access & ~p.access) {
		missing_right(use, &p, out);
	} else if (!emu_range_in(use->va, use->len, p.base, p.length)) {
		wrong_range(use, &p, out);
	} else {
		wrong_memory(use, &p, out);
	}
}

/* Fill in the entry; true: it is one that may not be used */
static bool entry_refused(const struct tr_sg *sg, uint32_t i, int access,
			  struct emu_use *use)
{
	struct rxe_sge sge = sge_load(&sg->sge[i]);
	struct emu_mem mem;

	*use = (struct emu_use){.pd = sg->pd,
				.key = sge.lkey,
				.va = sge.addr,
				.len = sge.length,
				.access = access};
	return sge.length && emu_lkey_check(sg->hca, sg->pd, sge.lkey, sge.addr,
					    sge.length, access, &mem);
}

void diagnose_sg(const struct tr_sg *sg, int access, struct trouble *out)
{
	struct emu_use use = {.pd = sg->pd, .access = access};
	uint32_t i;

	for (i = 0; i < sg->num_sge; i++)
		if (entry_refused(sg, i, access, &use))
			break;
	if (i < sg->num_sge || i == 1) {
		diagnose_key(sg->hca, &use, out);
		return;
	}
	*out = (struct trouble){.cause = TRACE_NOTE_MEMORY};
	snprintf(
	    out->text, sizeof(out->text),
	    "memory of one of its %u SGEs cannot be %s: it was unmapped or freed, or "
	    "is protected",
	    i, access ? "written" : "read");
}
