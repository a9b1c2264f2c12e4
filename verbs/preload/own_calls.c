/*
 * own_calls.c - what the library itself calls is libc's, not the interposer of that name.
 *
 * An interposer looks whether a call concerns an emulated device, and may take locks of the
 * library for it; no layer below expects to come back to the top by a call of read(2). So
 * the linker lets each call from inside of a function in interposed.txt end at __wrap_NAME
 * (ld's --wrap, see meson.build), which goes to libc. Whoever calls one that has no
 * __wrap_NAME yet is told by the linker, and adds it here. Those that make or end
 * descriptors are in own_fd.c.
 *
 * Of some functions libc has several; which of them a call means depends on
 * _FILE_OFFSET_BITS and on _FORTIFY_SOURCE.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/preload/interpose.h"

/* Declared for fortified programs only */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t room);
ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t len, size_t room);
char *__getcwd_chk(char *buf, size_t size, size_t room);

#define OWN(type, name, params, args)                                                    \
	type __wrap_##name params;                                                       \
	EARLY type __wrap_##name params                                                  \
	{                                                                                \
		return REAL(name) args;                                                  \
	}

/* Whatever the last argument is, it was passed like a pointer. */
#define OWN_CONTROL(name, command)                                                       \
	int __wrap_##name(int fd, command cmd, ...);                                     \
	EARLY int __wrap_##name(int fd, command cmd, ...)                                \
	{                                                                                \
		va_list ap;                                                              \
		void *arg;                                                               \
                                                                                         \
		va_start(ap, cmd);                                                       \
		arg = va_arg(ap, void *);                                                \
		va_end(ap);                                                              \
		return REAL(name)(fd, cmd, arg);                                         \
	}

#define OWN_OPENAT(name)                                                                 \
	int __wrap_##name(int dirfd, const char *path, int flags, ...);                  \
	EARLY int __wrap_##name(int dirfd, const char *path, int flags, ...)             \
	{                                                                                \
		mode_t mode;                                                             \
                                                                                         \
		INTERPOSE_MODE(flags, mode);                                             \
		return REAL(name)(dirfd, path, flags, mode);                             \
	}

/* --- descriptors ------------------------------------------------------------------ */

OWN(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len))
OWN(ssize_t, __read_chk, (int fd, void *buf, size_t len, size_t room),
    (fd, buf, len, room))
OWN(ssize_t, write, (int fd, const void *buf, size_t len), (fd, buf, len))
OWN(ssize_t, send, (int fd, const void *buf, size_t len, int flags),
    (fd, buf, len, flags))
OWN(ssize_t, sendto,
    (int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
     socklen_t to_len),
    (fd, buf, len, flags, to, to_len))
OWN(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
OWN(int, recvmmsg,
    (int fd, struct mmsghdr *msgs, unsigned int max, int flags, struct timespec *timeout),
    (fd, msgs, max, flags, timeout))
OWN(int, dup, (int fd), (fd))
OWN_CONTROL(fcntl, int)
OWN_CONTROL(fcntl64, int)
OWN_CONTROL(ioctl, unsigned long)

/* --- files ------------------------------------------------------------------------ */

OWN_OPENAT(openat)
OWN_OPENAT(openat64)
OWN(FILE *, fopen, (const char *path, const char *mode), (path, mode))
OWN(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
OWN(DIR *, opendir, (const char *path), (path))
OWN(int, access, (const char *path, int mode), (path, mode))
OWN(int, faccessat, (int dirfd, const char *path, int mode, int flags),
    (dirfd, path, mode, flags))
OWN(int, stat, (const char *path, struct stat *st), (path, st))
OWN(int, stat64, (const char *path, struct stat64 *st), (path, st))
OWN(int, lstat, (const char *path, struct stat *st), (path, st))
OWN(int, lstat64, (const char *path, struct stat64 *st), (path, st))
OWN(int, fstat, (int fd, struct stat *st), (fd, st))
OWN(int, fstat64, (int fd, struct stat64 *st), (fd, st))
OWN(int, fstatat, (int dirfd, const char *path, struct stat *st, int flags),
    (dirfd, path, st, flags))
OWN(int, fstatat64, (int dirfd, const char *path, struct stat64 *st, int flags),
    (dirfd, path, st, flags))
OWN(int, fallocate64, (int fd, int mode, off64_t offset, off64_t len),
    (fd, mode, offset, len))
OWN(int, fallocate, (int fd, int mode, off_t offset, off_t len), (fd, mode, offset, len))
OWN(int, ftruncate, (int fd, off_t len), (fd, len))
OWN(int, ftruncate64, (int fd, off64_t len), (fd, len))
OWN(ssize_t, readlink, (const char *path, char *buf, size_t len), (path, buf, len))
OWN(ssize_t, __readlink_chk, (const char *path, char *buf, size_t len, size_t room),
    (path, buf, len, room))
OWN(ssize_t, readlinkat, (int dirfd, const char *path, char *buf, size_t len),
    (dirfd, path, buf, len))
OWN(ssize_t, __readlinkat_chk,
    (int dirfd, const char *path, char *buf, size_t len, size_t room),
    (dirfd, path, buf, len, room))
OWN(char *, getcwd, (char *buf, size_t size), (buf, size))
OWN(char *, __getcwd_chk, (char *buf, size_t size, size_t room), (buf, size, room))

OWN(void *, dlopen, (const char *name, int flags), (name, flags))

/* --- memory and signals ----------------------------------------------------------- */

OWN(void *, mmap, (void *addr, size_t len, int prot, int flags, int fd, off_t offset),
    (addr, len, prot, flags, fd, offset))
OWN(void *, mmap64, (void *addr, size_t len, int prot, int flags, int fd, off64_t offset),
    (addr, len, prot, flags, fd, offset))
OWN(int, munmap, (void *addr, size_t len), (addr, len))
OWN(int, madvise, (void *addr, size_t len, int advice), (addr, len, advice))
OWN(int, sigaction, (int sig, const struct sigaction *act, struct sigaction *old),
    (sig, act, old))
OWN(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
