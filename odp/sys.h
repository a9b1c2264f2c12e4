/*
 * sys.h - system calls without libc's names, which are interposed in the process that
 * this code lives in. Private to odp/. Return what libc's do, with errno.
 */
#ifndef URXE_ODP_SYS_H
#define URXE_ODP_SYS_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/outside.h"

static inline int sys_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

static inline int sys_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static inline ssize_t sys_read(int fd, void *buf, size_t len)
{
	return syscall(SYS_read, fd, buf, len);
}

static inline ssize_t sys_pread(int fd, void *buf, size_t len, off_t off)
{
	return syscall(SYS_pread64, fd, buf, len, off);
}

static inline ssize_t sys_write(int fd, const void *buf, size_t len)
{
	return syscall(SYS_write, fd, buf, len);
}

static inline int sys_ioctl(int fd, unsigned long cmd, void *arg)
{
	return (int)syscall(SYS_ioctl, fd, cmd, arg);
}

static inline int sys_madvise(uintptr_t addr, size_t len, int advice)
{
	return (int)syscall(SYS_madvise, addr, len, advice);
}

/* Descriptors below this are left to the program, some count theirs. */
#define SYS_FD_MIN 200
/* Where the program does not meet it; as it is if there is no room, or it is an error */
static inline int sys_out_of_the_way(int fd)
{
	int high = fd < 0 ? -1 : outside_dup(fd);

	if (high < 0)
		high = fd < 0 ? -1
			      : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, SYS_FD_MIN);

	if (high < 0)
		return fd;
	sys_close(fd);
	return high;
}

/* Private memory of no file; MAP_FAILED with errno */
static inline void *sys_map_anon(size_t len, int prot)
{
	return (void *)syscall(SYS_mmap, NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0l);
}

static inline int sys_munmap(void *p, size_t len)
{
	return (int)syscall(SYS_munmap, p, len);
}

static inline int sys_mprotect(void *p, size_t len, int prot)
{
	return (int)syscall(SYS_mprotect, p, len, prot);
}

#endif
