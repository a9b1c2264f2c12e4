/*
 * reg_mr.h - registration in one step, for tests, where nobody waits for memory.
 */
#ifndef URXE_TESTS_EMU_REG_MR_H
#define URXE_TESTS_EMU_REG_MR_H

#include "emu/hca.h"

static inline int reg_mr(struct emu_pd *pd, uint64_t start, uint64_t length,
			 uint64_t iova, int access, struct emu_mr **out)
{
	struct emu_mr *mr;
	int ret = emu_mr_reg_begin(pd, start, length, iova, access, &mr);

	if (!ret)
		ret = emu_mr_reg_end(mr, emu_mr_memory_make(mr));
	if (!ret)
		*out = mr;
	return ret;
}

static inline int rereg_mr(struct emu_mr *mr, int flags, struct emu_pd *pd,
			   uint64_t start, uint64_t length, uint64_t iova, int access)
{
	struct emu_mr *want;
	int ret = emu_mr_rereg_begin(mr, flags, pd, start, length, iova, access, &want);

	return ret ? ret : emu_mr_rereg_end(mr, want, emu_mr_rereg_memory(mr, want));
}

#endif
