/*
 * interpose_dl.c - libraries that are loaded in ways that would keep them from us.
 *
 * Theory of operation
 *
 * dlopen(3) with RTLD_DEEPBIND lets a library, and those that come with it, find libc's
 * functions before those of a preloaded library. libibverbs loaded so opens the machine's
 * own devices, of which there are none, without a word. So the flag is dropped for the
 * RDMA libraries; those that would come with some other library are loaded before it,
 * without the flag. For them it changes nothing else: they need no private copies of
 * functions.
 *
 * In a namespace of its own (dlmopen(3)) a library has a libc of its own, too, and we are
 * not in it: that is said.
 *
 * The loader looks who called it, for the caller's RUNPATH and namespace. Hence the
 * functions below are jumps to the next definition, with the caller's return address.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "verbs/host/paths.h"
#include "verbs/preload/interpose.h"

/* What the jumps go to; found at the first call */
__attribute__((used, visibility("hidden"))) void *urxe_dl_next[2];

__attribute__((used, visibility("hidden"))) void urxe_dl_find(void);
__attribute__((used, visibility("hidden"))) int urxe_dl_flags(const char *name,
							      int flags);
__attribute__((used, visibility("hidden"))) void urxe_dl_namespace(Lmid_t ns,
								   const char *name);

EARLY void urxe_dl_find(void)
{
	libc_next(&urxe_dl_next[0], "dlopen");
	libc_next(&urxe_dl_next[1], "dlmopen");
}

static bool is_rdma(const char *name)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;

	return !strncmp(base, "libibverbs.so", 13) ||
	       !strncmp(base, "librdmacm.so", 12) || !strncmp(base, "libibumad.so", 12) ||
	       strstr(base, "-rdmav");
}

static void load_before(const char *name)
{
	/* The linker sends calls of what this file defines here, not past it. */
	void *lib = REAL(dlopen)(name, RTLD_LAZY | RTLD_NOLOAD);

	/* It stays: whoever comes with it must not be loaded anew. */
	if (!lib)
		REAL(dlopen)(name, RTLD_LAZY | RTLD_LOCAL);
	else
		dlclose(lib);
}

/* dlopen(@name, @flags) with RTLD_DEEPBIND: the flags to take */
int urxe_dl_flags(const char *name, int flags)
{
	if (!name || !paths_dir() || flags & RTLD_NOLOAD)
		return flags;
	if (is_rdma(name))
		return flags & ~RTLD_DEEPBIND;
	load_before("libibverbs.so.1");
	load_before("librdmacm.so.1");
	return flags;
}

void urxe_dl_namespace(Lmid_t ns, const char *name)
{
	if (ns != LM_ID_BASE && name && paths_dir() && is_rdma(name))
		fprintf(
		    stderr,
		    "urxe: %s is loaded into a namespace of its own (dlmopen): it will "
		    "not see the devices\n",
		    name);
}

#if defined(__x86_64__)
/* clang-format off */
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	endbr64\n"
	"	test	$8, %esi\n" /* RTLD_DEEPBIND */
	"	jz	1f\n"
	"	push	%rdi\n"
	"	call	urxe_dl_flags\n"
	"	pop	%rdi\n"
	"	mov	%eax, %esi\n"
	"1:	mov	urxe_dl_next(%rip), %rax\n"
	"	test	%rax, %rax\n"
	"	jz	2f\n"
	"	jmp	*%rax\n"
	"2:	push	%rdi\n"
	"	push	%rsi\n"
	"	sub	$8, %rsp\n"
	"	call	urxe_dl_find\n"
	"	add	$8, %rsp\n"
	"	pop	%rsi\n"
	"	pop	%rdi\n"
	"	jmp	1b\n"
	".size dlopen, . - dlopen\n"
	".globl dlmopen\n"
	".type dlmopen, @function\n"
	"dlmopen:\n"
	"	endbr64\n"
	"	push	%rdi\n"
	"	push	%rsi\n"
	"	push	%rdx\n"
	"	call	urxe_dl_namespace\n"
	"	call	urxe_dl_find\n"
	"	pop	%rdx\n"
	"	pop	%rsi\n"
	"	pop	%rdi\n"
	"	mov	8+urxe_dl_next(%rip), %rax\n"
	"	jmp	*%rax\n"
	".size dlmopen, . - dlmopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, %function\n"
	"dlopen:\n"
	"	stp	x29, x30, [sp, #-32]!\n"
	"	stp	x0, x1, [sp, #16]\n"
	"	tbz	w1, #3, 1f\n" /* RTLD_DEEPBIND */
	"	bl	urxe_dl_flags\n"
	"	str	x0, [sp, #24]\n"
	"1:	bl	urxe_dl_find\n"
	"	ldp	x0, x1, [sp, #16]\n"
	"	ldp	x29, x30, [sp], #32\n"
	"	adrp	x16, urxe_dl_next\n"
	"	ldr	x16, [x16, #:lo12:urxe_dl_next]\n"
	"	br	x16\n"
	".size dlopen, . - dlopen\n"
	".globl dlmopen\n"
	".type dlmopen, %function\n"
	"dlmopen:\n"
	"	stp	x29, x30, [sp, #-48]!\n"
	"	stp	x0, x1, [sp, #16]\n"
	"	str	x2, [sp, #32]\n"
	"	bl	urxe_dl_namespace\n"
	"	bl	urxe_dl_find\n"
	"	ldp	x0, x1, [sp, #16]\n"
	"	ldr	x2, [sp, #32]\n"
	"	ldp	x29, x30, [sp], #48\n"
	"	adrp	x16, urxe_dl_next\n"
	"	add	x16, x16, #:lo12:urxe_dl_next\n"
	"	ldr	x16, [x16, #8]\n"
	"	br	x16\n"
	".size dlmopen, . - dlmopen\n");
#else
#error "write the jumps of dlopen(3) for this machine"
#endif
