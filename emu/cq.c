/*
 * cq.c - completion queues: posting, arming, overrun, resizing.
 *
 * We are the producer of the ring, the application (librxe) the consumer. An entry is a
 * struct ib_uverbs_wc.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/objects.h"

static uint32_t cq_count(const struct emu_cq *cq)
{
	return (cq->ring.local - ring_consumer(&cq->ring)) & ring_mask(&cq->ring);
}

int emu_cq_create(struct emu_hca *hca, void *owner, void *cookie, uint32_t cqe,
		  struct emu_cq **out)
{
	struct emu_cq *cq;
	int ret;

	if (cqe == 0 || cqe > EMU_MAX_CQE)
		return -EINVAL;
	if (hca->num_cqs >= EMU_MAX_CQ)
		return -ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	*cq = (struct emu_cq){.hca = hca, .owner = owner, .cookie = cookie};
	ret = emu_ring_create(hca, owner, cqe, sizeof(struct ib_uverbs_wc), &cq->ring);
	if (ret) {
		free(cq);
		return ret;
	}
	cq->cqe = cq->ring.slots - 1;
	hca->num_cqs++;
	*out = cq;
	return 0;
}

int emu_cq_resize(struct emu_cq *cq, uint32_t cqe)
{
	uint32_t count = cq_count(cq);
	int ret;

	if (cqe == 0 || cqe > EMU_MAX_CQE || cqe < count)
		return -EINVAL;
	ret = emu_ring_resize(cq->hca, &cq->ring, ring_consumer(&cq->ring), count, cqe);
	if (ret)
		return ret;
	cq->ring.local = count;
	cq->cqe = cq->ring.slots - 1;
	return 0;
}

int emu_cq_destroy(struct emu_cq *cq)
{
	if (cq->users)
		return -EBUSY;
	emu_ring_destroy(cq->hca, &cq->ring);
	cq->hca->num_cqs--;
	free(cq);
	return 0;
}

uint32_t emu_cq_cqe(const struct emu_cq *cq)
{
	return cq->cqe;
}

struct emu_ring_info emu_cq_ring(const struct emu_cq *cq)
{
	return emu_ring_info(&cq->ring);
}

void emu_cq_arm(struct emu_cq *cq, bool solicited_only)
{
	if (cq->armed && !cq->solicited_only)
		return;
	cq->armed = true;
	cq->solicited_only = solicited_only;
}

void emu_cq_forget(struct emu_cq *cq, uint32_t qpn)
{
	uint32_t i;

	for (i = ring_consumer(&cq->ring); i != cq->ring.local;
	     i = (i + 1) & ring_mask(&cq->ring)) {
		struct ib_uverbs_wc *wc = ring_at(&cq->ring, i);

		if (wc->qp_num == qpn)
			wc->vendor_err = EMU_WC_FORGOTTEN;
	}
}

static void overrun(struct emu_cq *cq)
{
	cq->overrun = true;
	emu_trace(cq->hca, "CQ overrun: more than %u completions and nobody polls",
		  cq->cqe);
	emu_event(cq->hca, IBV_EVENT_CQ_ERR, cq->cookie);
}

int emu_cq_post(struct emu_cq *cq, const struct ib_uverbs_wc *wc, bool solicited)
{
	if (cq->overrun)
		return -ENOSPC;
	if (cq_count(cq) == ring_mask(&cq->ring)) {
		overrun(cq);
		return -ENOSPC;
	}
	memcpy(ring_at(&cq->ring, cq->ring.local), wc, sizeof(*wc));
	ring_set_producer(&cq->ring, cq->ring.local + 1);
	if (cq->armed && (solicited || !cq->solicited_only)) {
		cq->armed = false;
		cq->hca->ops->comp_event(cq->hca->arg, cq->cookie);
	}
	return 0;
}
