/*
 * vfile.h - open files of the emulated devices.
 *
 * A vfile is what an emulated character device or event channel has behind a descriptor;
 * the descriptor itself is a real one (memfd or eventfd), so that mmap, poll, epoll, dup
 * and fork behave. The table follows open, dup, close; the interposed calls look
 * descriptors up here and pass what belongs to a vfile to its operations. Knows no
 * device.
 */
#ifndef URXE_VERBS_ENGINE_VFILE_H
#define URXE_VERBS_ENGINE_VFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vfile;

/*
 * struct vfile_ops - NULL members answer as a device without the operation (EINVAL,
 * ENOTTY). All return a count or -errno. @fd is the descriptor that the application used.
 * @read: may block unless O_NONBLOCK is set on @fd
 * @write_waits: a write may block, and its thread be cancelled meanwhile; others are not
 *	cancelled before it is done
 * @release: the last descriptor was closed
 */
struct vfile_ops {
	ssize_t (*read)(struct vfile *vf, int fd, void *buf, size_t len);
	ssize_t (*write)(struct vfile *vf, int fd, const void *buf, size_t len);
	bool write_waits;
	int (*ioctl)(struct vfile *vf, int fd, unsigned long cmd, void *arg);
	void (*release)(struct vfile *vf);
};

/*
 * struct vfile - embedded in the device's own structure
 * @rdev: 0, or the device number that fstat(2) must report (S_IFCHR)
 * @refs: descriptors and borrowed references; managed by vfile.c
 */
struct vfile {
	const struct vfile_ops *ops;
	dev_t rdev;
	int refs;
};

/*
 * vfile_follow_fork - have the table's lock held over fork(2), from the first entry on at
 * the latest. Who takes that lock with another one held, and holds that over fork as
 * well, must call this before pthread_atfork(3): prepare handlers run in reverse order.
 */
void vfile_follow_fork(void);

/* Tie @fd to @vf (refs becomes 1). 0 or -errno; on failure @fd stays open and untied. */
int vfile_install(int fd, struct vfile *vf);
/*
 * A borrowed reference to what @fd is, or NULL; give it back with vfile_put(). Lock-free
 * miss.
 */
struct vfile *vfile_get(int fd);
/* Is this the process whose descriptors are in the table (or its vfork child), not a copy of it? */
bool vfile_is_home(void);
void vfile_put(struct vfile *vf);
/* The same if @fd is a vfile with these operations, else NULL */
struct vfile *vfile_get_as(int fd, const struct vfile_ops *ops);
/* @newfd is now what @oldfd is (dup); or nothing, if @oldfd is no vfile */
void vfile_dup(int oldfd, int newfd);
/*
 * vfile_adopt - @fd came from somewhere (SCM_RIGHTS): it is what any descriptor of the
 * same open file is
 */
void vfile_adopt(int fd);
/*
 * vfile_use - call @fn with a descriptor of @vf, which is not closed meanwhile. Its result (not
 * -EBADF), or -EBADF if there is none. Under the table's lock: @fn makes a system call
 */
int vfile_use(struct vfile *vf, int (*fn)(void *arg, int fd), void *arg);
/* @fd is being closed (called before the real close) */
void vfile_close(int fd);
/* vfile_has_stderr - descriptor 2 is what it was, or what dup2(2) has made of it on purpose */
bool vfile_has_stderr(void);
/* Close a descriptor that the application never got to know */
void vfile_discard(int fd);

/*
 * Private descriptors are the library's own: the application's close(2) of one answers
 * EBADF, its close_range(2) leaves it out. A child of fork has them as common
 * descriptors.
 *
 * vfile_private_dup - a private duplicate of @fd, close-on-exec, above the
 * application's limit if that can be (base/outside.c), else out of the way of its numbers; @fd stays as it is. The descriptor or -errno.
 */
int vfile_private_dup(int fd);
/*
 * vfile_private_move - a private duplicate takes the place of @fd; @fd itself if there is
 * none
 */
int vfile_private_move(int fd);
/*
 * vfile_private_move_near - likewise, but within the limit of descriptors, which costs less:
 * for what is soon closed again
 */
int vfile_private_move_near(int fd);
/* @fd, out of the way already, is private from now on. */
void vfile_private_mark(int fd);
/* Really close a private descriptor; nothing happens if it is none (any more). */
void vfile_private_close(int fd);
bool vfile_is_private(int fd);
/* All entries are below this descriptor. */
unsigned int vfile_limit(void);

#endif
