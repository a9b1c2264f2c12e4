/*
 * pd.c - protection domains: a number and a count of users.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/objects.h"

int emu_pd_create(struct emu_hca *hca, struct emu_pd **out)
{
	struct emu_pd *pd;

	if (hca->num_pds >= hca->limits.max_pd)
		return -ENOMEM;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->hca = hca;
	pd->num = ++hca->next_pd;
	hca->num_pds++;
	emu_made(hca, TRACE_OBJ_PD, pd->num, 0, 0, 0);
	*out = pd;
	return 0;
}

int emu_pd_destroy(struct emu_pd *pd)
{
	emu_ended(pd->hca, TRACE_OBJ_PD, pd->num, pd->users ? -EBUSY : 0);
	if (pd->users)
		return -EBUSY;
	pd->hca->num_pds--;
	free(pd);
	return 0;
}
