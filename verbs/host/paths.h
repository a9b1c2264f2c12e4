/*
 * paths.h - which paths of the application lead to the emulated devices.
 *
 * Exactly these, and what is below them, are taken to the generated tree in DIR: the RDMA
 * classes of /sys, the device directory that they link to, and /dev/infiniband. The tree
 * has ordinary files, so that nearly everything relative to one of its directories works
 * without us; interpose_relative.c does the rest.
 */
#ifndef URXE_VERBS_HOST_PATHS_H
#define URXE_VERBS_HOST_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The parent of the emulated devices as programs see it; exists on no real machine */
#define PATHS_DEVICES "/sys/devices/urxe"

/* Device numbers as the kernel gives them: IB_UVERBS_MAJOR, MISC_MAJOR */
#define PATHS_UVERBS_MAJOR  231
#define PATHS_UVERBS_MINOR  192
#define PATHS_MISC_MAJOR    10
#define PATHS_RDMA_CM_MINOR 119
#define PATHS_UVERBS_MAX    32

/* paths_dir - the session directory (URXE_DIR); NULL when not started under urxe */
const char *paths_dir(void);

/*
 * paths_map - where @path really is: @path itself, or its place below @dir, written to
 * @buf. NULL with ENAMETOOLONG.
 */
const char *paths_map(const char *dir, const char *path, char buf[PATH_MAX]);

/*
 * paths_unmap - the opposite, in place: a path below @dir as the application must see it.
 * True if it was one.
 */
bool paths_unmap(const char *dir, char *path);

/* The device node that @path names: N of uverbsN, PATHS_NODE_CM, or PATHS_NODE_NONE */
#define PATHS_NODE_NONE -1
#define PATHS_NODE_CM	-2
int paths_node(const char *path);
dev_t paths_node_rdev(int node);

/* Has paths_map() a place below the tree for it? */
bool paths_is_ours(const char *path);

#endif
