/*
 * Description: the tree of intervals finds exactly what a search of a list finds.
 */
#include "odp/ranges.h"

#include "tests/odp/util.h"

#define NODES 400

/* struct search - what is to be found, and what was */
struct search {
	const struct range_node *nodes;
	unsigned int found[NODES];
	unsigned int total, stop_after;
};

static bool found(struct range_node *n, void *arg)
{
	struct search *s = arg;

	s->found[n - s->nodes]++;
	return ++s->total == s->stop_after;
}

static void compare(const struct ranges *r, const struct range_node *nodes,
		    const bool *in, uint64_t first, uint64_t last)
{
	struct search s = {.nodes = nodes};

	MUST(!ranges_each(r, first, last, found, &s));
	for (unsigned int i = 0; i < NODES; i++)
		MUST((s.found[i]) ==
		     (in[i] && nodes[i].first <= last && nodes[i].last >= first));
	if (s.total) {
		s.stop_after = s.total + 1;
		MUST(ranges_each(r, first, last, found, &s));
	}
}

START_TEST(finds_what_a_list_finds)
{
	static struct range_node nodes[NODES];
	static bool in[NODES];
	struct ranges r = {0};
	unsigned int seed = (unsigned int)_i;

	for (unsigned int turn = 0; turn < 5000; turn++) {
		unsigned int i = rand_r(&seed) % NODES;
		uint64_t first = rand_r(&seed) % 1000;

		if (in[i]) {
			ranges_remove(&r, &nodes[i]);
		} else {
			nodes[i].first = rand_r(&seed) % 1000;
			nodes[i].last = nodes[i].first +
					rand_r(&seed) % (rand_r(&seed) % 8 ? 10 : 800);
			if (rand_r(&seed) % 50 == 0)
				nodes[i].last = UINT64_MAX;
			ranges_insert(&r, &nodes[i]);
		}
		in[i] = !in[i];
		compare(&r, nodes, in, first, first + rand_r(&seed) % 30);
	}
	compare(&r, nodes, in, 0, UINT64_MAX);
	for (unsigned int i = 0; i < NODES; i++)
		if (in[i])
			ranges_remove(&r, &nodes[i]);
	ck_assert_ptr_null(r.root);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ranges");
	TCase *tc = tcase_create("ranges");

	tcase_add_loop_test(tc, finds_what_a_list_finds, 0, 5);
	tcase_set_timeout(tc, 30);
	suite_add_tcase(s, tc);
	return util_run(s);
}
