/* objects.c - programs that leave objects behind, or cannot destroy them */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "corpus.h"
#include "kit.h"

#define LOCAL IBV_ACCESS_LOCAL_WRITE

static void leak_at_close(bool wrong)
{
	struct ibv_mr *mr;
	struct kit k;

	kit_open(&k);
	mr = kit_reg(&k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL);
	kit_destroy_qps(&k);
	if (!wrong) {
		kit_dereg(mr);
		kit_close_rest(&k);
		return;
	}
	NEED(!ibv_destroy_cq(k.left_cq));
	NEED(!ibv_destroy_cq(k.right_cq));
	NEED(!ibv_close_device(k.ctx));
}

static void make_cq(void *arg)
{
	struct kit *k = arg;

	NEED(k->left_cq = ibv_create_cq(k->ctx, 8, NULL, NULL, 0));
}

static void leak_at_close_of_a_thread(bool wrong)
{
	struct kit k;

	kit_device(&k);
	kit_in_thread(make_cq, &k);
	if (!wrong)
		NEED(!ibv_destroy_cq(k.left_cq));
	NEED(!ibv_dealloc_pd(k.pd));
	NEED(!ibv_close_device(k.ctx));
}

static void leak_at_exit(bool wrong)
{
	struct kit k;

	kit_open(&k);
	if (!wrong)
		kit_close(&k);
}

/* In a child of fork, which ends as programs do */
static void leak_at_exit_of_a_child(bool wrong)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		leak_at_exit(wrong);
		exit(0);
	}
	NEED(waitpid(pid, &status, 0) == pid && !status);
}

static void destroy_busy(bool wrong)
{
	struct ibv_mr *mr;
	struct kit k;

	kit_device(&k);
	mr = kit_reg(&k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL);
	if (wrong)
		NEED(ibv_dealloc_pd(k.pd));
	kit_dereg(mr);
	kit_close_rest(&k);
}

static void destroy_busy_cq(bool wrong)
{
	struct kit k;

	kit_open(&k);
	if (wrong)
		NEED(ibv_destroy_cq(k.left_cq));
	kit_close(&k);
}

static void registered_again(bool wrong)
{
	char *p = kit_map(KIT_PAGE);
	struct ibv_mr *mr[8];
	struct kit k;

	kit_device(&k);
	for (int i = 0; i < 8; i++) {
		mr[i] = kit_reg(&k, p, KIT_PAGE, LOCAL);
		if (!wrong)
			kit_dereg(mr[i]);
	}
	for (int i = 0; i < 8 && wrong; i++)
		kit_dereg(mr[i]);
	kit_close_rest(&k);
}

/* struct many - a registration for each message, in a thread */
struct many {
	struct kit k;
	struct ibv_mr *mr[20];
	char *p;
	bool wrong;
};

static void register_many(void *arg)
{
	struct many *m = arg;

	/* the right one registers parts that differ */
	for (int i = 0; i < 20; i++)
		m->mr[i] = kit_reg(&m->k, m->p + (m->wrong ? 0 : i * 64), 64, LOCAL);
}

static void registered_again_in_a_thread(bool wrong)
{
	struct many m = {.wrong = wrong, .p = kit_map(KIT_PAGE)};

	kit_device(&m.k);
	kit_in_thread(register_many, &m);
	for (int i = 0; i < 20; i++)
		kit_dereg(m.mr[i]);
	kit_close_rest(&m.k);
}

const struct program object_programs[] = {
    {"leak-at-close", "plain", leak_at_close},
    {"leak-at-close", "thread", leak_at_close_of_a_thread},
    {"leak-at-exit", "plain", leak_at_exit},
    {"leak-at-exit", "after-fork", leak_at_exit_of_a_child},
    {"destroy-busy", "plain", destroy_busy},
    {"destroy-busy", "cq", destroy_busy_cq},
    {"registered-again", "plain", registered_again},
    {"registered-again", "thread", registered_again_in_a_thread},
    {NULL, NULL, NULL},
};
