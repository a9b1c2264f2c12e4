/* prefetch_fatal.c - takes the failure of advice for one of the memory. */
#include "side.h"

#include <stdio.h>

static bool warm_up(struct side *s)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, SIDE_BYTES, s->mr->lkey};
	int err = ibv_advise_mr(s->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, /* HERE */
				IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);

	if (err)
		fprintf(stderr, "no prefetch: %d\n", err);
	return !err || !FAULTY;
}

int main(void)
{
	struct ibv_wc wc[2];
	bool good = false;
	struct side s;

	if (!side_open(&s))
		return 1;
	if (warm_up(&s) && side_connect(&s))
		good = !side_receive(&s) && !side_post(&s, 64) && side_wait(&s, &wc[0]) &&
		       wc[0].status == IBV_WC_SUCCESS && side_wait(&s, &wc[1]) &&
		       wc[1].status == IBV_WC_SUCCESS;
	side_close(&s);
	return !good;
}
