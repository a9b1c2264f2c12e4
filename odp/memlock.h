/*
 * memlock.h - how much memory may be pinned; private to odp/.
 */
#ifndef URXE_ODP_MEMLOCK_H
#define URXE_ODP_MEMLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "odp/odp.h"

/* The bytes that this process may have pinned now, UINT64_MAX for all it likes */
uint64_t memlock_limit(const struct odp_config *cfg);
/* ENOMEM does not say that there is memory enough: one line on stderr does */
void memlock_tell(const struct odp_config *cfg, uint64_t bytes, uint64_t limit);

#endif
