/*
 * sim_run.c - running scenarios one by one or by the thousand, and telling of failures.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_gen.h"

#define LADDER_LINES 600

bool sim_one(enum sim_kind kind, uint64_t seed, void (*trace)(void *, const char *),
	     void *arg, char *why, size_t why_len, struct sim_stats *stats)
{
	static struct sim_world world; /* keeps what it allocated from run to run */
	struct sim_world *w = &world;

	sim_world_init(w, kind, seed);
	w->trace = trace;
	w->trace_arg = arg;
	sim_scenario(w);
	for (uint32_t i = 0; i < w->nhosts; i++)
		sim_objects_destroy(&w->host[i]);
	sim_hosts_destroy(w);
	sim_world_fini(w);
	if (w->failed && why)
		snprintf(why, why_len, "%s", w->fail);
	stats->scenarios++;
	stats->judged += w->judged;
	stats->packets += w->pkts;
	stats->runs += w->runs;
	stats->lost += w->lost;
	stats->injected += w->injected;
	stats->completions += w->wcs;
	stats->faults += w->faults_seen;
	return !w->failed;
}

/* The last lines of a replay */
struct ladder {
	char *line[LADDER_LINES];
	uint64_t n;
};

static void ladder_add(void *arg, const char *text)
{
	struct ladder *l = arg;
	char **slot = &l->line[l->n++ % LADDER_LINES];

	free(*slot);
	*slot = strdup(text);
}

static void ladder_print(struct ladder *l)
{
	uint64_t from = l->n > LADDER_LINES ? l->n - LADDER_LINES : 0;

	if (from)
		fprintf(stderr, "  ... %llu lines before\n", (unsigned long long)from);
	for (uint64_t i = from; i < l->n; i++)
		fprintf(stderr, "%s\n", l->line[i % LADDER_LINES]);
	for (uint32_t i = 0; i < LADDER_LINES; i++)
		free(l->line[i]);
}

bool sim_many(enum sim_kind kind, uint64_t start, uint64_t n, struct sim_stats *stats)
{
	for (uint64_t seed = start; seed < start + n; seed++) {
		char why[512],
		    again[512] =
			"it did not fail again: the simulator is not deterministic";
		struct sim_stats unused = {0};
		struct ladder l = {0};

		if (sim_one(kind, seed, NULL, NULL, why, sizeof(why), stats))
			continue;
		sim_one(kind, seed, ladder_add, &l, again, sizeof(again), &unused);
		fprintf(stderr, "sim: kind %s seed %llu: %s\n", sim_kind_name(kind),
			(unsigned long long)seed, why);
		ladder_print(&l);
		fprintf(stderr, "sim: kind %s seed %llu: %s\n", sim_kind_name(kind),
			(unsigned long long)seed, again);
		fprintf(stderr, "sim: replay with: sim --kind %s --seed %llu\n",
			sim_kind_name(kind), (unsigned long long)seed);
		return false;
	}
	return true;
}
