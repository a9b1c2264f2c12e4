/*
 * fuzz_ucma.c - commands to the rdma_cm device: two event channels, whose identifiers find and
 * connect each other through real sockets, and end with the input. Identifiers, addresses and
 * pointers are mostly such as there are; the rest is any bytes.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/fuzz/fuzz.h"
#include "verbs/engine/vfile.h"
#include "verbs/ucma/ucma.h"

#define STEPS	 32
#define BODY	 560
#define CHANNELS 2
#define IDS	 8
#define PAGE	 65536u
#define NONE	 0xffff

/*
 * struct layout - of a command's request
 * @size:	that it must have
 * @response, @id, @addr:
 *		where these are in it, or NONE
 */
struct layout {
	uint16_t size, response, id, addr[2];
};

#define AT(of, member) offsetof(struct rdma_ucm_##of, member)
#define SIZE(of)       sizeof(struct rdma_ucm_##of)

static const struct layout layouts[] = {
    [RDMA_USER_CM_CMD_CREATE_ID] = {SIZE(create_id),
				    AT(create_id, response),
				    NONE,
				    {NONE, NONE}},
    [RDMA_USER_CM_CMD_DESTROY_ID] = {SIZE(destroy_id),
				     AT(destroy_id, response),
				     AT(destroy_id, id),
				     {NONE, NONE}},
    [RDMA_USER_CM_CMD_BIND_IP] = {SIZE(bind_ip),
				  AT(bind_ip, response),
				  AT(bind_ip, id),
				  {AT(bind_ip, addr), NONE}},
    [RDMA_USER_CM_CMD_RESOLVE_IP] = {SIZE(resolve_ip),
				     NONE,
				     AT(resolve_ip, id),
				     {AT(resolve_ip, src_addr),
				      AT(resolve_ip, dst_addr)}},
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {SIZE(resolve_route),
					NONE,
					AT(resolve_route, id),
					{NONE, NONE}},
    [RDMA_USER_CM_CMD_QUERY_ROUTE] = {SIZE(query),
				      AT(query, response),
				      AT(query, id),
				      {NONE, NONE}},
    [RDMA_USER_CM_CMD_CONNECT] = {SIZE(connect), NONE, AT(connect, id), {NONE, NONE}},
    [RDMA_USER_CM_CMD_LISTEN] = {SIZE(listen), NONE, AT(listen, id), {NONE, NONE}},
    [RDMA_USER_CM_CMD_ACCEPT] = {SIZE(accept), NONE, AT(accept, id), {NONE, NONE}},
    [RDMA_USER_CM_CMD_REJECT] = {SIZE(reject), NONE, AT(reject, id), {NONE, NONE}},
    [RDMA_USER_CM_CMD_DISCONNECT] = {SIZE(disconnect),
				     NONE,
				     AT(disconnect, id),
				     {NONE, NONE}},
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = {SIZE(init_qp_attr),
				       AT(init_qp_attr, response),
				       AT(init_qp_attr, id),
				       {NONE, NONE}},
    [RDMA_USER_CM_CMD_GET_EVENT] = {SIZE(get_event),
				    AT(get_event, response),
				    NONE,
				    {NONE, NONE}},
    [RDMA_USER_CM_CMD_SET_OPTION] = {SIZE(set_option),
				     AT(set_option, optval),
				     AT(set_option, id),
				     {NONE, NONE}},
    [RDMA_USER_CM_CMD_NOTIFY] = {SIZE(notify), NONE, AT(notify, id), {NONE, NONE}},
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {SIZE(join_ip_mcast),
					AT(join_ip_mcast, response),
					AT(join_ip_mcast, id),
					{AT(join_ip_mcast, addr), NONE}},
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = {SIZE(destroy_id),
				      AT(destroy_id, response),
				      AT(destroy_id, id),
				      {NONE, NONE}},
    [RDMA_USER_CM_CMD_MIGRATE_ID] = {SIZE(migrate_id),
				     AT(migrate_id, response),
				     AT(migrate_id, id),
				     {NONE, NONE}},
    [RDMA_USER_CM_CMD_QUERY] = {SIZE(query),
				AT(query, response),
				AT(query, id),
				{NONE, NONE}},
    [RDMA_USER_CM_CMD_BIND] = {SIZE(bind), NONE, AT(bind, id), {AT(bind, addr), NONE}},
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = {SIZE(resolve_addr),
				       NONE,
				       AT(resolve_addr, id),
				       {AT(resolve_addr, src_addr),
					AT(resolve_addr, dst_addr)}},
    [RDMA_USER_CM_CMD_JOIN_MCAST] = {SIZE(join_mcast),
				     AT(join_mcast, response),
				     AT(join_mcast, id),
				     {AT(join_mcast, addr), NONE}},
    /* WRITE_CM_EVENT, which older headers do not have */
    [RDMA_USER_CM_CMD_JOIN_MCAST + 1] = {24, NONE, 0, {NONE, NONE}},
};

#define COMMANDS (sizeof(layouts) / sizeof(layouts[0]))

struct request {
	struct rdma_ucm_cmd_hdr hdr;
	uint8_t body[BODY];
} __attribute__((aligned(8)));

static uint8_t *answer; /* a page, and nothing behind it */
static int channel[CHANNELS];
static uint32_t ids[IDS];
static unsigned int n_ids;

static void put_address(uint8_t *at, struct input *in)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	uint8_t what = take8(in);

	v4.sin_port = v6.sin6_port =
	    htons((uint16_t)(what & 8 ? 20000 + (what >> 4) % 4 : 0));
	v4.sin_addr.s_addr = htonl(what & 4 ? INADDR_LOOPBACK : INADDR_ANY);
	if (what % 4 == 1)
		memcpy(at, &v6, sizeof(v6));
	else if (what % 4)
		memcpy(at, &v4, sizeof(v4));
}

/* Fields that mean nothing with any bytes; a byte of the input decides whether they stay any */
static void make_sense(struct request *q, const struct layout *l, struct input *in)
{
	uint8_t keep = take8(in);
	uint64_t where = (uintptr_t)answer + (keep & 0x80 ? PAGE - take8(in) : 0u);
	uint32_t id = n_ids ? ids[take8(in) % n_ids] : 0;

	if (l->response != NONE && !(keep & 1))
		memcpy(q->body + l->response, &where, sizeof(where));
	if (l->id != NONE && !(keep & 2))
		memcpy(q->body + l->id, &id, sizeof(id));
	for (int i = 0; i < 2; i++)
		if (l->addr[i] != NONE && !(keep & 4 << i))
			put_address(q->body + l->addr[i], in);
	q->hdr.in = keep & 16 ? take16(in) % BODY : l->size;
	q->hdr.out = keep & 32 ? take8(in) : 400;
}

static void small_fields(struct request *q, struct input *in)
{
	static const uint16_t spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB,
					  RDMA_PS_IPOIB};
	struct rdma_ucm_create_id *create = (void *)q->body;
	struct rdma_ucm_resolve_addr *resolve = (void *)q->body;
	struct rdma_ucm_bind *bind = (void *)q->body;
	struct rdma_ucm_migrate_id *move = (void *)q->body;
	uint8_t what = take8(in);

	if (what & 1)
		return;
	if (q->hdr.cmd == RDMA_USER_CM_CMD_CREATE_ID) {
		create->ps = spaces[(what >> 1) % 4];
		create->qp_type = (uint8_t)(2 + (what >> 3) % 4);
	} else if (q->hdr.cmd == RDMA_USER_CM_CMD_BIND) {
		bind->addr_size =
		    what & 2 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	} else if (q->hdr.cmd == RDMA_USER_CM_CMD_RESOLVE_ADDR) {
		resolve->dst_size =
		    what & 2 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
		resolve->src_size = what & 4 ? resolve->dst_size : 0;
		resolve->timeout_ms = what;
	} else if (q->hdr.cmd == RDMA_USER_CM_CMD_MIGRATE_ID) {
		move->fd = (uint32_t)channel[(what >> 1) % CHANNELS];
	}
}

static void remember(uint32_t id)
{
	ids[n_ids < IDS ? n_ids++ : id % IDS] = id;
}

static void command(struct input *in, int fd)
{
	struct request *q = malloc(sizeof(*q));
	const struct rdma_ucm_event_resp *ev = (const void *)answer;
	struct vfile *vf = vfile_get(fd);
	uint16_t any = take8(in) % BODY;
	ssize_t ret;

	if (!q || !vf)
		abort();
	q->hdr.cmd = take8(in) % (COMMANDS + 1);
	memset(q->body, 0, sizeof(q->body));
	take(in, q->body, any);
	if (q->hdr.cmd < COMMANDS)
		make_sense(q, &layouts[q->hdr.cmd], in);
	small_fields(q, in);
	memset(answer, 0, sizeof(*ev));
	ret = vf->ops->write(vf, fd, q, sizeof(q->hdr) + q->hdr.in % BODY);
	vfile_put(vf);
	if (ret > 0 && q->hdr.cmd == RDMA_USER_CM_CMD_CREATE_ID)
		remember(*(const uint32_t *)(const void *)answer);
	if (ret > 0 && q->hdr.cmd == RDMA_USER_CM_CMD_GET_EVENT)
		remember(ev->id);
	free(q);
}

/* What the other end was sent arrives; a channel on which nothing is to come costs little */
static void wait_a_little(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	ppoll(&p, 1, &(struct timespec){.tv_nsec = 200000}, NULL);
}

static void begin(void)
{
	if (!answer) {
		answer =
		    mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (answer == MAP_FAILED ||
		    mprotect(answer, PAGE, PROT_READ | PROT_WRITE))
			abort();
		setenv("URXE_DEVICE", "rxe0=lo", 1);
	}
	n_ids = 0;
	for (int i = 0; i < CHANNELS; i++) {
		channel[i] = ucma_open(O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (channel[i] < 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	begin();
	for (int i = 0; i < STEPS && in.n; i++) {
		uint8_t what = take8(&in);

		if (what % 8)
			command(&in, channel[what / 8 % CHANNELS]);
		else
			wait_a_little(channel[what / 8 % CHANNELS]);
	}
	for (int i = 0; i < CHANNELS; i++)
		vfile_discard(channel[i]);
	return 0;
}
