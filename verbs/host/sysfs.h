/*
 * sysfs.h - the generated tree: what /sys and /dev show of the emulated devices.
 *
 * Written once, by the first program that looks, as ordinary files and links. Attributes that
 * change while it runs (GIDs, port state, counters) are made anew when they are
 * opened: see sysfs_dynamic().
 */
#ifndef URXE_VERBS_HOST_SYSFS_H
#define URXE_VERBS_HOST_SYSFS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hca.h"
#include "net/path.h"
#include "verbs/host/profile.h"

/*
 * struct sysfs_device
 * @name:	"rxe0"
 * @ifname:	network interface below it
 * @guid_be:	node GUID, network order
 * @up:		state of the port
 * @gid:	@n_gids of them, as netdev_read() orders them
 * @profile:	the device that it answers as; NULL: rxe
 */
struct sysfs_device {
	char name[16];
	char ifname[16];
	uint64_t guid_be;
	bool up;
	unsigned int n_gids;
	struct net_ip gid[EMU_GID_TABLE_LEN];
	const struct profile *profile;
};

/* sysfs_device_init - fill @d from the interface; 0, -ENODEV, or -errno */
int sysfs_device_init(struct sysfs_device *d, const char *name, const char *ifname);

/*
 * sysfs_write_tree - write the tree of @n devices (uverbs0 ... in their order) into @dir,
 * which exists. 0, or -errno with a line in @err.
 */
int sysfs_write_tree(const char *dir, const struct sysfs_device *devs, unsigned int n,
		     char *err, size_t errlen);

/*
 * sysfs_remove_tree - remove what sysfs_write_tree() made below @root, by name: other
 * files, and what is behind a symbolic link, stay. Not thread-safe.
 */
void sysfs_remove_tree(int root);

/*
 * struct sysfs_live - where sysfs_dynamic() asks for the present state of a device, @arg
 * given
 * @device:	is there a device of that name? its index or -1
 * @gid:	entry @i; false: empty
 * @v1:		is it of RoCE v1?
 * @port:	state, as emu_query_port()
 * @counter:	a hw_counter by name; false: no such
 * @cm:		messages of the connection manager; @which, @msg: in the order of the names in
 *		sysfs.c, which is that of struct emu_cm_counters
 */
struct sysfs_live {
	int (*device)(void *arg, const char *name);
	bool (*gid)(void *arg, int dev, unsigned int i, struct net_ip *ip);
	bool (*v1)(void *arg, int dev, unsigned int i);
	bool (*port)(void *arg, int dev, struct ibv_port_attr *attr);
	bool (*counter)(void *arg, int dev, const char *name, uint64_t *value);
	uint64_t (*cm)(void *arg, int dev, unsigned int which, unsigned int msg);
	const char *(*ifname)(void *arg, int dev);
	void *arg;
};

/*
 * sysfs_dynamic - the content of an attribute that may have changed since the tree was
 * written
 * @path: as the application knows it, "/sys/class/infiniband/rxe0/ports/1/..."
 *
 * The length of what was written to @buf, -EINVAL where the real attribute would answer
 * that (type of an empty GID), or -ENOENT: not a dynamic attribute, the file in the tree
 * is right.
 */
int sysfs_dynamic(const struct sysfs_live *live, const char *path, char *buf,
		  size_t size);

#endif
