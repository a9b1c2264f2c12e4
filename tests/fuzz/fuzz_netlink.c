/*
 * fuzz_netlink.c - requests of NETLINK_RDMA: whatever is in them, the answers are whole messages in
 * datagrams that fit what programs read.
 */
#include <linux/netlink.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "verbs/netlink/nldev.h"

#define REQUEST 512

/* Two devices with objects of all kinds, some of them with any content */
static void make_world(struct nldev_world *w, struct nldev_object *o, size_t n,
		       struct input *in)
{
	*w = (struct nldev_world){.n_devices = 2, .object = o, .n_objects = n};
	memcpy(w->device[0].name, "rxe0", 5);
	memcpy(w->device[1].name, "rxe1", 5);
	memcpy(w->device[1].ifname, "0123456789abcde", 16);
	for (size_t i = 0; i < n; i++) {
		take(in, &o[i].o, i % 4 ? 0 : 64);
		o[i].pid = (int32_t)i / 4;
		o[i].device = i % 3 == 2;
		o[i].o.kind = (uint32_t)(i % TRACE_N_OBJECTS);
		o[i].o.id = (uint32_t)i << 8;
	}
}

static void must_be_whole(const struct nldev_answer *a)
{
	size_t at = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (a->end[i] <= at || a->end[i] - at > NLDEV_CHUNK)
			abort();
		while (at < a->end[i]) {
			const struct nlmsghdr *h = (const void *)(a->data + at);

			if (h->nlmsg_len < NLMSG_HDRLEN ||
			    NLMSG_ALIGN(h->nlmsg_len) > a->end[i] - at)
				abort();
			at += NLMSG_ALIGN(h->nlmsg_len);
		}
	}
	if (at != a->len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct nldev_object object[300];
	_Alignas(8) uint8_t request[REQUEST];
	struct input in = {data, size};
	struct nldev_answer answer;
	struct nldev_world world;
	size_t n = take16(&in) % 301, len;

	memset(object, 0, sizeof(object));
	len = in.n < REQUEST ? in.n : REQUEST;
	take(&in, request, len);
	make_world(&world, object, n, &in);
	if (nldev_answer(&world, request, len, 1, &answer))
		must_be_whole(&answer);
	nldev_answer_end(&answer);
	return 0;
}
