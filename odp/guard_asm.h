/*
 * guard_asm.h - the guarded instructions (guard_x86_64.S, guard_aarch64.S).
 *
 * Each routine is a leaf without a stack frame, so that a fault at any of its
 * instructions can be turned into a return of -EFAULT by moving the program counter to
 * the landing that belongs to the range. Plain C cannot promise that. Private to guard.c.
 */
#ifndef URXE_ODP_GUARD_ASM_H
#define URXE_ODP_GUARD_ASM_H

#include <stddef.h>
#include <stdint.h>

/* [text, text_end) return through landing */
extern const char guard_asm_text[], guard_asm_text_end[], guard_asm_landing[];

int guard_asm_copy(void *dst, const void *src, size_t len);
int guard_asm_cmp_swap(uint64_t *p, uint64_t cmp, uint64_t swap, uint64_t *orig);
int guard_asm_fetch_add(uint64_t *p, uint64_t add, uint64_t *orig);
int guard_asm_store64(uint64_t *p, uint64_t v);
int guard_asm_touch_read(const void *p);
int guard_asm_touch_write(void *p);

#ifdef __x86_64__
/* The same with AVX: its own landing clears the upper halves of the registers. */
extern const char guard_avx_text[], guard_avx_text_end[], guard_avx_landing[];
int guard_avx_copy(void *dst, const void *src, size_t len);
#endif

#endif
