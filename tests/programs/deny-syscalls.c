/*
 * deny-syscalls.c - run a program that may use neither userfaultfd nor io_uring.
 *
 * What the seccomp profile of a container does: the calls fail with EPERM. Usage:
 * deny-syscalls PROGRAM [argument...]
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "name the architecture for seccomp(2)"
#endif

#define LOAD(member)                                                                     \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
/* Skip @n instructions if the value is not @v. */
#define UNLESS(v, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), 0, (n))
#define RETURN(v)    BPF_STMT(BPF_RET | BPF_K, (v))

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
	    LOAD(arch),
	    UNLESS(ARCH, 5), /* another ABI: let it pass */
	    LOAD(nr),
	    UNLESS(SYS_userfaultfd, 1),
	    RETURN(SECCOMP_RET_ERRNO | EPERM),
	    UNLESS(SYS_io_uring_setup, 1),
	    RETURN(SECCOMP_RET_ERRNO | EPERM),
	    RETURN(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (argc < 2) {
		fprintf(stderr, "usage: deny-syscalls PROGRAM [argument...]\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)) {
		perror("seccomp");
		return 125;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
