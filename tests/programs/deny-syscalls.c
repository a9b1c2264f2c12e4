/*
 * deny-syscalls.c - run a program that may use neither userfaultfd nor io_uring nor perf_event_open.
 *
 * What the seccomp profile of a container does: the calls fail with EPERM. With --memfd no
 * memory files either. Usage: deny-syscalls [--memfd] PROGRAM [argument...]
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
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

static int deny(int nr)
{
	struct sock_filter code[] = {
	    LOAD(arch),
	    UNLESS(ARCH, 3), /* another ABI: let it pass */
	    LOAD(nr),
	    UNLESS((unsigned int)nr, 1),
	    RETURN(SECCOMP_RET_ERRNO | EPERM),
	    RETURN(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

int main(int argc, char **argv)
{
	bool memfd = argc > 1 && !strcmp(argv[1], "--memfd");

	argv += memfd;
	if (argc < 2 + memfd) {
		fprintf(stderr, "usage: deny-syscalls [--memfd] PROGRAM [argument...]\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || deny(SYS_userfaultfd) ||
	    deny(SYS_io_uring_setup) || deny(SYS_perf_event_open) ||
	    (memfd && deny(SYS_memfd_create))) {
		perror("seccomp");
		return 125;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
