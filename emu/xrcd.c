/*
 * xrcd.c - XRC domains: what XRC SRQs and XRC_RECV QPs must have in common (IBTA annex
 * A14).
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/objects.h"

int emu_xrcd_create(struct emu_hca *hca, struct emu_xrcd **out)
{
	struct emu_xrcd *xrcd;

	if (!(hca->limits.device_cap_flags & IBV_DEVICE_XRC))
		return -EOPNOTSUPP;
	if (hca->num_xrcds >= EMU_MAX_XRCD)
		return -ENOMEM;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return -ENOMEM;
	xrcd->hca = hca;
	hca->num_xrcds++;
	*out = xrcd;
	return 0;
}

int emu_xrcd_destroy(struct emu_xrcd *xrcd)
{
	if (xrcd->users)
		return -EBUSY;
	xrcd->hca->num_xrcds--;
	free(xrcd);
	return 0;
}
