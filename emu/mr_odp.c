/*
 * mr_odp.c - on-demand paging of a device as a whole: the fault model of its new MRs, the
 * sums of the counters of all that it has and had.
 *
 * The page tables are per process (odp/), which knows no devices.
 */
#include "emu/objects.h"

void emu_mr_memory(const struct emu_mr *mr, struct emu_mr_memory *out)
{
	*out = (struct emu_mr_memory){
	    .start = mr->start, .length = mr->length, .iova = mr->iova};
}

void emu_set_fault_model(struct emu_hca *hca, enum odp_fault_model model,
			 uint64_t latency)
{
	hca->fault.set = true;
	hca->fault.model = model;
	hca->fault.latency = latency;
}

void emu_set_start(struct emu_hca *hca, enum odp_start start)
{
	hca->start = start;
}

void emu_mr_memory_new(struct emu_hca *hca, struct odp_mr *odp)
{
	if (hca->fault.set)
		odp_mr_set_model(odp, hca->fault.model, hca->fault.latency);
}

/* struct odp_counters is nothing but 64-bit counters. */
static void add(struct odp_counters *sum, const struct odp_counters *c)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)c;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

void emu_mr_memory_gone(struct emu_hca *hca, struct odp_mr *odp)
{
	struct odp_counters c;

	odp_mr_counters(odp, &c);
	add(&hca->odp_gone, &c);
	odp_mr_put(odp);
}

/* The MR behind an id of the table of keys, or NULL: there is none, or a window */
static struct emu_mr *mr_at(const struct emu_hca *hca, uint32_t id)
{
	struct emu_key *k = emu_table_get(&hca->keys, id);

	return k && !k->is_mw ? (struct emu_mr *)k : NULL;
}

void emu_odp_counters(const struct emu_hca *hca, struct odp_counters *out,
		      uint64_t *cached)
{
	*out = hca->odp_gone;
	*cached = 0;
	for (uint32_t id = 0; id < hca->keys.size; id++) {
		const struct emu_mr *mr = mr_at(hca, id);
		struct odp_mr_info info;

		if (!mr)
			continue;
		odp_mr_describe(mr->odp, &info);
		add(out, &info.counters);
		*cached += info.pages_cached;
	}
}

void emu_odp_reset_counters(struct emu_hca *hca)
{
	hca->odp_gone = (struct odp_counters){0};
	for (uint32_t id = 0; id < hca->keys.size; id++) {
		const struct emu_mr *mr = mr_at(hca, id);

		if (mr)
			odp_mr_reset_counters(mr->odp);
	}
}
