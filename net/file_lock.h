/*
 * file_lock.h - locks of one byte of a file that belong to the open file description: a
 * forked child keeps nothing, and the kernel returns them when the process dies.
 */
#ifndef URXE_NET_FILE_LOCK_H
#define URXE_NET_FILE_LOCK_H

#include <errno.h>
#include <fcntl.h>

/*
 * @cmd: F_OFD_SETLK, F_OFD_SETLKW or F_OFD_GETLK; @type: F_RDLCK, F_WRLCK, F_UNLCK
 * 0 or -errno; F_OFD_GETLK: 1 if somebody has a lock that stands in the way
 */
static inline int lock_byte(int fd, int cmd, short type, unsigned int byte)
{
	struct flock fl = {
	    .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};

	if (fcntl(fd, cmd, &fl) < 0)
		return -errno;
	return cmd == F_OFD_GETLK && fl.l_type != F_UNLCK;
}

#endif
