/*
 * filesize.h - how large a file may be made, memory files (memfd_create(2)) among them.
 */
#ifndef URXE_NET_FILESIZE_H
#define URXE_NET_FILESIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* ftruncate(2) beyond the limit of file sizes would end the program with SIGXFSZ */
static inline bool filesize_allowed(uint64_t size)
{
	struct rlimit r;

	return getrlimit(RLIMIT_FSIZE, &r) == 0 && size <= r.rlim_cur;
}

#endif
