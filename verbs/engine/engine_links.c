/*
 * engine_links.c - the interfaces under the devices: state, MTU and addresses, and their
 * changes.
 *
 * A NETLINK_ROUTE socket tells that something changed; what changed is read anew
 * (netdev.h), so that a lost message does no harm. An address keeps its GID index for as
 * long as it lives, as ib_core's table does; a new one takes the first free index, or the first free
 * pair where the device has both types of GIDs.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/engine/engine_internal.h"
#include "verbs/host/netdev.h"

void engine_links_open(struct engine *e)
{
	struct sockaddr_nl addr = {
	    .nl_family = AF_NETLINK,
	    .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd =
	    socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0)
		return;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return;
	}
	e->link_fd = fd;
}

static bool listed(const struct netdev_info *info, const struct net_ip *ip)
{
	unsigned int i;

	for (i = 0; i < info->n_ips; i++) {
		if (net_ip_eq(&info->ip[i], ip))
			return true;
	}
	return false;
}

static void drop_gone(struct engine_device *d, const struct netdev_info *info)
{
	struct net_ip gid;
	unsigned int i;

	for (i = 0; i < EMU_GID_TABLE_LEN; i++) {
		if (emu_get_gid(d->hca, i, &gid) || listed(info, &gid))
			continue;
		emu_set_gid(d->hca, i, NULL);
		if (!emu_gid_is_v1(d->hca, i))
			net_port_del_ip(d->engine->port, &gid);
	}
}

static bool has_gid(struct engine_device *d, const struct net_ip *ip, int *free_index)
{
	struct net_ip gid;
	unsigned int i;

	*free_index = -1;
	for (i = 0; i < EMU_GID_TABLE_LEN; i += emu_gid_step(d->hca)) {
		if (emu_get_gid(d->hca, i, &gid)) {
			if (*free_index < 0)
				*free_index = (int)i;
		} else if (net_ip_eq(&gid, ip)) {
			return true;
		}
	}
	return false;
}

/*
 * An address that cannot be bound (tentative, or of another network namespace's making)
 * is tried again with the next change.
 */
static void add_new(struct engine_device *d, const struct netdev_info *info)
{
	unsigned int i;
	int index;

	for (i = 0; i < info->n_ips; i++) {
		if (has_gid(d, &info->ip[i], &index) || index < 0)
			continue;
		if (net_port_add_ip(d->engine->port, &info->ip[i], d->ifname))
			continue;
		for (unsigned int k = 0; k < emu_gid_step(d->hca); k++)
			emu_set_gid(d->hca, (unsigned int)index + k, &info->ip[i]);
	}
}

int engine_links_init(struct engine_device *d)
{
	struct netdev_info info;
	int ret = netdev_read(d->ifname, &info);

	if (ret)
		return ret;
	drop_gone(d, &info);
	add_new(d, &info);
	emu_set_port(d->hca, info.exists && info.up, netdev_ib_mtu(info.mtu));
	return 0;
}

void engine_links_changed(struct engine *e)
{
	char buf[4096];
	unsigned int i;

	while (recv(e->link_fd, buf, sizeof(buf), 0) > 0 || errno == ENOBUFS)
		;
	for (i = 0; i < e->n_dev; i++)
		engine_links_init(&e->dev[i]);
}
