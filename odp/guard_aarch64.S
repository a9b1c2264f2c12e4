/*
 * guard_aarch64.S - guarded copies and atomics; see guard_asm.h.
 *
 * Stores may become visible in any order here, so a barrier stands before the last ones:
 * a program that polls on the last byte of a message finds the rest there.
 */
	.text

	.macro	FUNC name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 5
\name:
	.cfi_startproc
	hint	#34			/* bti c */
	.endm

	.macro	ENDFUNC name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.macro	MARK name
	.globl	\name
	.hidden	\name
\name:
	.endm

MARK guard_asm_text

/* int guard_asm_copy(void *dst, const void *src, size_t len) */
FUNC guard_asm_copy
	add	x3, x1, x2		/* ends */
	add	x4, x0, x2
	cmp	x2, #16
	b.hi	.Lover16
	tbnz	x2, #4, .L16
	tbnz	x2, #3, .L8
	tbnz	x2, #2, .L4
	tbnz	x2, #1, .L2
	cbz	x2, 1f
	ldrb	w5, [x1]
	strb	w5, [x0]
1:	mov	w0, #0
	ret
.L2:	ldrh	w5, [x1]
	ldrh	w6, [x3, #-2]
	strh	w5, [x0]
	dmb	ishst
	strh	w6, [x4, #-2]
	mov	w0, #0
	ret
.L4:	ldr	w5, [x1]
	ldr	w6, [x3, #-4]
	str	w5, [x0]
	dmb	ishst
	str	w6, [x4, #-4]
	mov	w0, #0
	ret
.L8:	ldr	x5, [x1]
	ldr	x6, [x3, #-8]
	str	x5, [x0]
	dmb	ishst
	str	x6, [x4, #-8]
	mov	w0, #0
	ret
.L16:	ldp	x5, x6, [x1]
	str	x5, [x0]
	dmb	ishst
	str	x6, [x0, #8]
	mov	w0, #0
	ret
.Lover16:
	/* 64 bytes a turn, then 16, then the last 16 behind the barrier */
	subs	x2, x2, #80
	b.lo	3f
2:	ldp	q0, q1, [x1]
	ldp	q2, q3, [x1, #32]
	stp	q0, q1, [x0]
	stp	q2, q3, [x0, #32]
	add	x1, x1, #64
	add	x0, x0, #64
	subs	x2, x2, #64
	b.hs	2b
3:	adds	x2, x2, #64		/* what remains, less the last 16 */
	b.le	5f
4:	ldr	q0, [x1], #16
	str	q0, [x0], #16
	subs	x2, x2, #16
	b.gt	4b
5:	ldr	x5, [x3, #-16]
	ldr	x6, [x3, #-8]
	str	x5, [x4, #-16]
	dmb	ishst
	str	x6, [x4, #-8]
	mov	w0, #0
	ret
ENDFUNC guard_asm_copy

/* int guard_asm_cmp_swap(uint64_t *p, uint64_t cmp, uint64_t swap, uint64_t *orig) */
FUNC guard_asm_cmp_swap
1:	ldaxr	x4, [x0]
	cmp	x4, x1
	b.ne	2f
	stlxr	w5, x2, [x0]
	cbnz	w5, 1b
	b	3f
2:	clrex
3:	str	x4, [x3]
	mov	w0, #0
	ret
ENDFUNC guard_asm_cmp_swap

/* int guard_asm_fetch_add(uint64_t *p, uint64_t add, uint64_t *orig) */
FUNC guard_asm_fetch_add
1:	ldaxr	x4, [x0]
	add	x5, x4, x1
	stlxr	w6, x5, [x0]
	cbnz	w6, 1b
	str	x4, [x2]
	mov	w0, #0
	ret
ENDFUNC guard_asm_fetch_add

/* int guard_asm_store64(uint64_t *p, uint64_t v) */
FUNC guard_asm_store64
	stlr	x1, [x0]
	mov	w0, #0
	ret
ENDFUNC guard_asm_store64

/* int guard_asm_touch_read(const void *p) */
FUNC guard_asm_touch_read
	ldrb	w1, [x0]
	mov	w0, #0
	ret
ENDFUNC guard_asm_touch_read

/* int guard_asm_touch_write(void *p) */
FUNC guard_asm_touch_write
1:	ldxrb	w1, [x0]
	stxrb	w2, w1, [x0]
	cbnz	w2, 1b
	mov	w0, #0
	ret
ENDFUNC guard_asm_touch_write

MARK guard_asm_text_end

FUNC guard_asm_landing
	mov	w0, #-14		/* -EFAULT */
	ret
ENDFUNC guard_asm_landing

	.section .note.GNU-stack, "", %progbits
