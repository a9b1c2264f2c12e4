/*
 * guard_x86_64.S - guarded copies and atomics; see guard_asm.h.
 *
 * The copies go upwards in plain stores and end with the last bytes: x86 keeps the order
 * of stores, so that a program which polls on the last byte of a message finds the rest there.
 * `rep movsb` would not do: the stores of one fast-string operation may become visible in
 * any order (Intel SDM vol. 3, "Fast-String Operation and Out-of-Order Stores").
 */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

	.text

	.macro	FUNC name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 5
\name:
	.cfi_startproc
	_CET_ENDBR
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

	/* Up to 16 bytes; the longer ones have gone to \longer */
	.macro	COPY_SMALL
	cmpq	$8, %rdx
	jae	8f
	cmpq	$4, %rdx
	jae	4f
	cmpq	$2, %rdx
	jae	2f
	testq	%rdx, %rdx
	jz	1f
	movzbl	(%rsi), %eax
	movb	%al, (%rdi)
1:	xorl	%eax, %eax
	ret
2:	movzwl	(%rsi), %eax
	movzwl	-2(%rsi,%rdx), %ecx
	movw	%ax, (%rdi)
	movw	%cx, -2(%rdi,%rdx)
	xorl	%eax, %eax
	ret
4:	movl	(%rsi), %eax
	movl	-4(%rsi,%rdx), %ecx
	movl	%eax, (%rdi)
	movl	%ecx, -4(%rdi,%rdx)
	xorl	%eax, %eax
	ret
8:	movq	(%rsi), %rax
	movq	-8(%rsi,%rdx), %rcx
	movq	%rax, (%rdi)
	movq	%rcx, -8(%rdi,%rdx)
	xorl	%eax, %eax
	ret
	.endm

MARK guard_asm_text

/* int guard_asm_copy(void *dst, const void *src, size_t len) */
FUNC guard_asm_copy
	cmpq	$16, %rdx
	ja	.Lsse
	COPY_SMALL
.Lsse:
	cmpq	$32, %rdx
	ja	.Lsse_over32
	movdqu	(%rsi), %xmm0
	movdqu	-16(%rsi,%rdx), %xmm1
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, -16(%rdi,%rdx)
	xorl	%eax, %eax
	ret
.Lsse_over32:
	cmpq	$64, %rdx
	ja	.Lsse_over64
	movdqu	(%rsi), %xmm0
	movdqu	16(%rsi), %xmm1
	movdqu	-32(%rsi,%rdx), %xmm2
	movdqu	-16(%rsi,%rdx), %xmm3
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, -32(%rdi,%rdx)
	movdqu	%xmm3, -16(%rdi,%rdx)
	xorl	%eax, %eax
	ret
.Lsse_over64:
	/* align the destination, then 64 bytes a turn, then the last 64 once more */
	movdqu	(%rsi), %xmm0
	movdqu	%xmm0, (%rdi)
	movq	%rdi, %rcx
	andq	$15, %rcx
	subq	$16, %rcx
	subq	%rcx, %rdi
	subq	%rcx, %rsi
	addq	%rcx, %rdx
	cmpq	$64, %rdx
	jbe	2f
	.p2align 4
1:	movdqu	(%rsi), %xmm0
	movdqu	16(%rsi), %xmm1
	movdqu	32(%rsi), %xmm2
	movdqu	48(%rsi), %xmm3
	movdqa	%xmm0, (%rdi)
	movdqa	%xmm1, 16(%rdi)
	movdqa	%xmm2, 32(%rdi)
	movdqa	%xmm3, 48(%rdi)
	addq	$64, %rsi
	addq	$64, %rdi
	subq	$64, %rdx
	cmpq	$64, %rdx
	ja	1b
2:	movdqu	-64(%rsi,%rdx), %xmm0
	movdqu	-48(%rsi,%rdx), %xmm1
	movdqu	-32(%rsi,%rdx), %xmm2
	movdqu	-16(%rsi,%rdx), %xmm3
	movdqu	%xmm0, -64(%rdi,%rdx)
	movdqu	%xmm1, -48(%rdi,%rdx)
	movdqu	%xmm2, -32(%rdi,%rdx)
	movdqu	%xmm3, -16(%rdi,%rdx)
	xorl	%eax, %eax
	ret
ENDFUNC guard_asm_copy

/* int guard_asm_cmp_swap(uint64_t *p, uint64_t cmp, uint64_t swap, uint64_t *orig) */
FUNC guard_asm_cmp_swap
	movq	%rsi, %rax
	lock cmpxchgq %rdx, (%rdi)
	movq	%rax, (%rcx)
	xorl	%eax, %eax
	ret
ENDFUNC guard_asm_cmp_swap

/* int guard_asm_fetch_add(uint64_t *p, uint64_t add, uint64_t *orig) */
FUNC guard_asm_fetch_add
	lock xaddq %rsi, (%rdi)
	movq	%rsi, (%rdx)
	xorl	%eax, %eax
	ret
ENDFUNC guard_asm_fetch_add

/* int guard_asm_store64(uint64_t *p, uint64_t v) */
FUNC guard_asm_store64
	movq	%rsi, (%rdi)
	xorl	%eax, %eax
	ret
ENDFUNC guard_asm_store64

/* int guard_asm_touch_read(const void *p) */
FUNC guard_asm_touch_read
	movb	(%rdi), %al
	xorl	%eax, %eax
	ret
ENDFUNC guard_asm_touch_read

/* int guard_asm_touch_write(void *p) */
FUNC guard_asm_touch_write
	lock orb $0, (%rdi)
	xorl	%eax, %eax
	ret
ENDFUNC guard_asm_touch_write

MARK guard_asm_text_end

FUNC guard_asm_landing
	movl	$-14, %eax		/* -EFAULT */
	ret
ENDFUNC guard_asm_landing

MARK guard_avx_text

/* int guard_avx_copy(void *dst, const void *src, size_t len) */
FUNC guard_avx_copy
	cmpq	$16, %rdx
	ja	.Lavx
	COPY_SMALL
.Lavx:
	cmpq	$32, %rdx
	ja	.Lavx_over32
	movdqu	(%rsi), %xmm0
	movdqu	-16(%rsi,%rdx), %xmm1
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, -16(%rdi,%rdx)
	xorl	%eax, %eax
	ret
.Lavx_over32:
	cmpq	$64, %rdx
	ja	.Lavx_over64
	vmovdqu	(%rsi), %ymm0
	vmovdqu	-32(%rsi,%rdx), %ymm1
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, -32(%rdi,%rdx)
	vzeroupper
	xorl	%eax, %eax
	ret
.Lavx_over64:
	cmpq	$128, %rdx
	ja	.Lavx_over128
	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	-64(%rsi,%rdx), %ymm2
	vmovdqu	-32(%rsi,%rdx), %ymm3
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, 32(%rdi)
	vmovdqu	%ymm2, -64(%rdi,%rdx)
	vmovdqu	%ymm3, -32(%rdi,%rdx)
	vzeroupper
	xorl	%eax, %eax
	ret
.Lavx_over128:
	vmovdqu	(%rsi), %ymm0
	vmovdqu	%ymm0, (%rdi)
	movq	%rdi, %rcx
	andq	$31, %rcx
	subq	$32, %rcx
	subq	%rcx, %rdi
	subq	%rcx, %rsi
	addq	%rcx, %rdx
	cmpq	$128, %rdx
	jbe	2f
	.p2align 5
1:	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	64(%rsi), %ymm2
	vmovdqu	96(%rsi), %ymm3
	vmovdqa	%ymm0, (%rdi)
	vmovdqa	%ymm1, 32(%rdi)
	vmovdqa	%ymm2, 64(%rdi)
	vmovdqa	%ymm3, 96(%rdi)
	subq	$-128, %rsi
	subq	$-128, %rdi
	addq	$-128, %rdx
	cmpq	$128, %rdx
	ja	1b
2:	vmovdqu	-128(%rsi,%rdx), %ymm0
	vmovdqu	-96(%rsi,%rdx), %ymm1
	vmovdqu	-64(%rsi,%rdx), %ymm2
	vmovdqu	-32(%rsi,%rdx), %ymm3
	vmovdqu	%ymm0, -128(%rdi,%rdx)
	vmovdqu	%ymm1, -96(%rdi,%rdx)
	vmovdqu	%ymm2, -64(%rdi,%rdx)
	vmovdqu	%ymm3, -32(%rdi,%rdx)
	vzeroupper
	xorl	%eax, %eax
	ret
ENDFUNC guard_avx_copy

MARK guard_avx_text_end

FUNC guard_avx_landing
	vzeroupper
	movl	$-14, %eax		/* -EFAULT */
	ret
ENDFUNC guard_avx_landing

	.section .note.GNU-stack, "", @progbits
