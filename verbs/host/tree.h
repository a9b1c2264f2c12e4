/*
 * tree.h - the generated tree of a session: made when the first program looks.
 *
 * Most programs that run below `urxe run` are shells and tools which never look at an
 * RDMA device; writing some hundred files for each of them would cost more than starting
 * them.
 */
#ifndef URXE_VERBS_HOST_TREE_H
#define URXE_VERBS_HOST_TREE_H

#include <limits.h>

#include "verbs/host/options.h"

/*
 * tree_devices - if no device is chosen, choose one for each interface as netdev_list()
 * has them: rxe0, rxe1, ... 0 (also when there are none) or -errno
 */
int tree_devices(struct options *o);

/*
 * tree_map - where @path really is: @path itself, or its place in the tree of the
 * session, written to @buf. NULL with ENAMETOOLONG. Keeps errno otherwise.
 */
const char *tree_map(const char *path, char buf[PATH_MAX]);

/*
 * tree_remove - remove the tree, and what those left of it who were killed while they
 * wrote it, from the session directory @dir: what it has by name, nothing else. Not
 * thread-safe.
 */
void tree_remove(int dir);

#endif
