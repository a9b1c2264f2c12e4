/*
 * maps.h - what is mapped at an address: PROCMAP_QUERY (Linux 6.11), else the text of
 * /proc/self/maps. Private to odp/. Allocates nothing.
 */
#ifndef URXE_ODP_MAPS_H
#define URXE_ODP_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * struct vma - a mapping
 * @end:	first byte after it
 * @page_size:	of its pages, 0 if unknown
 * @dev, @inode: of the file, both 0 for anonymous memory
 */
struct vma {
	uintptr_t start, end;
	bool readable, writable, shared;
	size_t page_size;
	dev_t dev;
	uint64_t inode;
};

/* struct maps - /proc/self/maps, opened for a few queries */
struct maps {
	int fd;
	bool query;
};

/* 0 or -errno */
int maps_open(struct maps *m);
void maps_close(struct maps *m);
/* The mapping at @addr, or the next above. False if there is none. */
bool maps_find(struct maps *m, uintptr_t addr, struct vma *vma);
/* For kernels where maps_find() leaves vma.page_size 0; slow. 0 if unknown */
size_t maps_page_size(uintptr_t addr);

#endif
