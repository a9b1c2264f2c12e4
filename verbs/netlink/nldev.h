/*
 * nldev.h - the answers of NETLINK_RDMA to queries about devices and their objects.
 *
 * What goes in and out are messages of <rdma/rdma_netlink.h>, which is the contract. nldev.c turns a
 * request into an answer from a list of devices and objects, and knows neither sockets nor where the
 * list comes from; nldev_look.c makes the list, of the processes of the user's runs.
 */
#ifndef URXE_VERBS_NETLINK_NLDEV_H
#define URXE_VERBS_NETLINK_NLDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/format.h"

#define NLDEV_MAX_DEVICES 16
#define NLDEV_CHUNK                                                                      \
	8192 /* bytes of a datagram at most, which is what programs read at once */

/*
 * struct nldev_device
 * @ifindex:	of @ifname
 * @counter:	added up over all processes
 */
struct nldev_device {
	char name[16], ifname[16], fw_ver[64];
	uint32_t ifindex;
	uint64_t guid_be;
	bool up;
	uint64_t counter[TRACE_N_HW];
};

/*
 * struct nldev_object - one of a process
 * @pid:	its process
 * @device:	index in the list of devices
 * @o:		as the process shows it
 */
struct nldev_object {
	int32_t pid;
	uint32_t device;
	struct trace_object o;
};

/* struct nldev_world - what there is */
struct nldev_world {
	struct nldev_device device[NLDEV_MAX_DEVICES];
	unsigned int n_devices;
	struct nldev_object *object;
	size_t n_objects, room;
};

/* nldev_look - 0 or -errno; nldev_forget() in any case */
int nldev_look(struct nldev_world *w);
void nldev_forget(struct nldev_world *w);

/*
 * struct nldev_answer - datagrams one behind the other
 * @end:	of each, in @data
 */
struct nldev_answer {
	uint8_t *data;
	size_t len, room;
	size_t *end;
	size_t n, n_room;
	bool failed; /* without memory */
};

/*
 * nldev_answer - what the kernel answers to the messages in @req of the socket @portid. False: no
 * memory. To be ended by nldev_answer_end()
 */
bool nldev_answer(const struct nldev_world *w, const void *req, size_t len,
		  uint32_t portid, struct nldev_answer *out);
void nldev_answer_end(struct nldev_answer *a);

#endif
