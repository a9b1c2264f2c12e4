/*
 * Description: requests of NETLINK_RDMA get the answers that the kernel gives: one thing, all things
 * over as many datagrams as it takes, and the right errors for what cannot be had.
 */
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <malloc.h>
#include <rdma/rdma_netlink.h>

#include "tests/verbs/util.h"
#include "verbs/netlink/nldev.h"

#define SEQ    77
#define PORTID 4242
#define MANY   1000

static struct nldev_object object[MANY];
static struct nldev_world world;
static struct nldev_answer answer;
static uint8_t request[256];
static size_t len;

static void setup(void)
{
	memset(object, 0, sizeof(object));
	world = (struct nldev_world){.n_devices = 2, .object = object};
	strcpy(world.device[0].name, "rxe0");
	strcpy(world.device[0].ifname, "lo");
	world.device[0].ifindex = 1;
	world.device[0].up = true;
	world.device[0].guid_be = 0x0807060504030201u;
	strcpy(world.device[1].name, "rxe1");
	memset(&answer, 0, sizeof(answer));
}

static void teardown(void)
{
	nldev_answer_end(&answer);
}

static struct nldev_object *add(enum trace_object_kind kind, uint32_t id, int pid)
{
	struct nldev_object *o = &object[world.n_objects++];

	o->pid = pid;
	o->o.kind = (uint32_t)kind;
	o->o.id = id;
	return o;
}

static void begin(unsigned int command, unsigned int flags)
{
	struct nlmsghdr h = {.nlmsg_len = NLMSG_HDRLEN,
			     .nlmsg_type =
				 (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
			     .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
			     .nlmsg_seq = SEQ};

	memcpy(request, &h, sizeof(h));
	len = sizeof(h);
}

static void with(unsigned int type, uint32_t v)
{
	struct nlattr a = {.nla_len = NLA_HDRLEN + 4, .nla_type = (uint16_t)type};
	uint32_t all;

	memcpy(request + len, &a, sizeof(a));
	memcpy(request + len + sizeof(a), &v, sizeof(v));
	len += 8;
	all = (uint32_t)len;
	memcpy(request, &all, sizeof(all));
}

static void ask(void)
{
	nldev_answer_end(&answer);
	ck_assert(nldev_answer(&world, request, len, PORTID, &answer));
	for (size_t i = 0; i < answer.n; i++)
		ck_assert_uint_le(answer.end[i] - (i ? answer.end[i - 1] : 0),
				  NLDEV_CHUNK);
}

/* Datagram @i, which must be one message */
static const struct nlmsghdr *datagram(size_t i)
{
	const struct nlmsghdr *h;

	ck_assert_uint_lt(i, answer.n);
	h = (const void *)(answer.data + (i ? answer.end[i - 1] : 0));
	ck_assert_uint_eq(NLMSG_ALIGN(h->nlmsg_len),
			  answer.end[i] - (i ? answer.end[i - 1] : 0));
	ck_assert_uint_eq(h->nlmsg_seq, SEQ);
	ck_assert_uint_eq(h->nlmsg_pid, PORTID);
	return h;
}

static void is_error(size_t i, int err)
{
	const struct nlmsghdr *h = datagram(i);
	const struct nlmsgerr *e = NLMSG_DATA(h);

	ck_assert_uint_eq(h->nlmsg_type, NLMSG_ERROR);
	ck_assert_int_eq(e->error, err);
	ck_assert_uint_eq(e->msg.nlmsg_seq, SEQ);
}

/* The attribute of @type among those of @n bytes at @p, or NULL */
static const struct nlattr *attr_in(const void *p, size_t n, unsigned int type)
{
	for (const char *at = p; n >= sizeof(struct nlattr);) {
		const struct nlattr *a = (const void *)at;
		size_t aligned;

		ck_assert_uint_ge(a->nla_len, NLA_HDRLEN);
		ck_assert_uint_le(a->nla_len, n);
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
		aligned = NLA_ALIGN((size_t)a->nla_len);
		at += aligned;
		n -= aligned < n ? aligned : n;
	}
	return NULL;
}

static const struct nlattr *attr(size_t i, unsigned int type)
{
	const struct nlmsghdr *h = datagram(i);

	return attr_in(NLMSG_DATA(h), h->nlmsg_len - NLMSG_HDRLEN, type);
}

static uint64_t number(const struct nlattr *a)
{
	uint64_t v = 0;

	ck_assert_ptr_nonnull(a);
	ck_assert_uint_le(a->nla_len, NLA_HDRLEN + sizeof(v));
	memcpy(&v, a + 1, (size_t)(a->nla_len - NLA_HDRLEN));
	return v;
}

static unsigned int entries(const struct nlattr *table, unsigned int type)
{
	const char *p = (const char *)(table + 1);
	size_t n = table->nla_len - NLA_HDRLEN;
	unsigned int count = 0;

	while (n) {
		const struct nlattr *a = (const void *)p;

		ck_assert_uint_eq(a->nla_type & NLA_TYPE_MASK, type);
		ck_assert_uint_le(a->nla_len, n);
		p += a->nla_len;
		n -= a->nla_len;
		count++;
	}
	return count;
}

START_TEST(all_devices_and_an_end)
{
	begin(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK);
	ask();
	ck_assert_uint_eq(answer.n, 3);
	ck_assert_str_eq((const char *)(attr(0, RDMA_NLDEV_ATTR_DEV_NAME) + 1), "rxe0");
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_NODE_GUID)),
			  0x0102030405060708u);
	ck_assert_uint_eq(datagram(0)->nlmsg_flags, NLM_F_MULTI);
	ck_assert_str_eq((const char *)(attr(1, RDMA_NLDEV_ATTR_DEV_NAME) + 1), "rxe1");
	ck_assert_ptr_null(attr(0, RDMA_NLDEV_ATTR_FW_VERSION));
	ck_assert_uint_eq(datagram(2)->nlmsg_type, NLMSG_DONE);
	ck_assert_int_eq(*(const int *)NLMSG_DATA(datagram(2)), 0);
	/* nothing of the process's memory goes out between attributes */
	ck_assert_mem_eq(attr(0, RDMA_NLDEV_ATTR_DEV_NAME) + 1, "rxe0\0\0\0", 8);
}
END_TEST

START_TEST(one_device_and_an_acknowledge_if_it_is_asked_for)
{
	begin(RDMA_NLDEV_CMD_PORT_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	ask();
	ck_assert_uint_eq(answer.n, 2);
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_PORT_STATE)), 4);
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_NDEV_INDEX)), 1);
	is_error(1, 0);
	begin(RDMA_NLDEV_CMD_PORT_GET, 0);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	with(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	ask();
	ck_assert_uint_eq(answer.n, 1);
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_PORT_STATE)), 1);
}
END_TEST

START_TEST(many_objects_take_many_datagrams_and_none_is_lost)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < MANY; i++)
		add(TRACE_OBJ_QP, 0x10000 + i, 5)->o.qp.type = IBV_QPT_RC;
	begin(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	ask();
	ck_assert_uint_gt(answer.n, 10);
	for (size_t i = 0; i + 1 < answer.n; i++)
		n += entries(attr(i, RDMA_NLDEV_ATTR_RES_QP),
			     RDMA_NLDEV_ATTR_RES_QP_ENTRY);
	ck_assert_uint_eq(n, MANY);
	ck_assert_uint_eq(datagram(answer.n - 1)->nlmsg_type, NLMSG_DONE);
}
END_TEST

START_TEST(an_object_is_found_by_its_number)
{
	add(TRACE_OBJ_QP, 0x11, 5);
	add(TRACE_OBJ_MR, 0x1234, 6)->o.mr.length = 4097;
	begin(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_RES_MRN, 0x12);
	ask();
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_RES_MRLEN)), 4097);
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_RES_PID)), 6);
	is_error(1, 0);
	begin(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_RES_MRN, 0x13);
	ask();
	ck_assert_uint_eq(answer.n, 1);
	is_error(0, -ENOENT);
}
END_TEST

START_TEST(counters_are_of_regions_on_demand_only)
{
	const struct nlattr *table;
	struct nldev_object *o;

	add(TRACE_OBJ_MR, 0x100, 5);
	o = add(TRACE_OBJ_MR, 0x200, 5);
	o->o.mr.on_demand = true;
	o->o.mr.counter[TRACE_ODP_pages_prefetched] = 9;
	begin(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_MR);
	ask();
	ck_assert_uint_eq(answer.n, 2);
	table = attr(0, RDMA_NLDEV_ATTR_RES_MR);
	ck_assert_uint_eq(entries(table, RDMA_NLDEV_ATTR_RES_MR_ENTRY), 1);
	table++; /* the entry */
	table = attr_in(table + 1, table->nla_len - NLA_HDRLEN,
			RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	ck_assert_ptr_nonnull(table);
	ck_assert_uint_eq(entries(table, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY), 3);
}
END_TEST

START_TEST(pds_and_users_of_cqs_follow_from_what_names_them)
{
	struct nldev_object *o = add(TRACE_OBJ_QP, 0x11, 5);

	o->o.qp.pd = 3;
	o->o.qp.send_cq = o->o.qp.recv_cq = 8;
	add(TRACE_OBJ_MR, 0x100, 5)->o.mr.pd = 3;
	add(TRACE_OBJ_MR, 0x100, 6)->o.mr.pd = 3; /* of another process */
	add(TRACE_OBJ_CQ, 8, 5);
	add(TRACE_OBJ_CQ, 8, 6);
	begin(RDMA_NLDEV_CMD_RES_PD_GET, NLM_F_DUMP);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	ask();
	ck_assert_uint_eq(
	    entries(attr(0, RDMA_NLDEV_ATTR_RES_PD), RDMA_NLDEV_ATTR_RES_PD_ENTRY), 2);
	begin(RDMA_NLDEV_CMD_RES_PD_GET, 0);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_RES_PDN, 3);
	ask();
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_RES_USECNT)), 2);
	begin(RDMA_NLDEV_CMD_RES_CQ_GET, 0);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_RES_CQN, 8);
	ask();
	ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_RES_USECNT)), 2);
}
END_TEST

/* The table that the first answer has, and the first entry in it */
static const struct nlattr *first_entry(unsigned int table)
{
	const struct nlattr *a = attr(0, table);

	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(a->nla_type, table | NLA_F_NESTED);
	return a + 1;
}

static uint64_t number_in(const struct nlattr *entry, unsigned int type)
{
	return number(attr_in(entry + 1, entry->nla_len - NLA_HDRLEN, type));
}

static void dump_of(unsigned int command, uint32_t device)
{
	begin(command, NLM_F_DUMP);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, device);
	ask();
}

/* Two devices of one process, which have objects of the same numbers */
START_TEST(objects_are_those_of_the_device)
{
	const struct nlattr *entry;

	for (uint32_t i = 0; i < 2; i++) {
		struct nldev_object *o = add(TRACE_OBJ_QP, 0x11, 5);

		o->device = i;
		o->o.qp.pd = 3;
		o->o.qp.type = IBV_QPT_RC;
		o->o.qp.peer = 0x100 + i;
		o->o.qp.send_cq = o->o.qp.recv_cq = 8;
		add(TRACE_OBJ_CQ, 8, 5)->device = i;
	}
	add(TRACE_OBJ_QP, 0x12, 6)->o.qp.send_cq = 8; /* of another process */
	for (uint32_t i = 0; i < 2; i++) {
		dump_of(RDMA_NLDEV_CMD_RES_QP_GET, i);
		entry = first_entry(RDMA_NLDEV_ATTR_RES_QP);
		ck_assert_uint_eq(entries(attr(0, RDMA_NLDEV_ATTR_RES_QP),
					  RDMA_NLDEV_ATTR_RES_QP_ENTRY),
				  i ? 1 : 2);
		ck_assert_uint_eq(number_in(entry, RDMA_NLDEV_ATTR_RES_RQPN), 0x100 + i);
		dump_of(RDMA_NLDEV_CMD_RES_PD_GET, i);
		entry = first_entry(RDMA_NLDEV_ATTR_RES_PD);
		ck_assert_uint_eq(number_in(entry, RDMA_NLDEV_ATTR_RES_USECNT), 1);
		dump_of(RDMA_NLDEV_CMD_RES_CQ_GET, i);
		entry = first_entry(RDMA_NLDEV_ATTR_RES_CQ);
		ck_assert_uint_eq(number_in(entry, RDMA_NLDEV_ATTR_RES_USECNT), 2);
		begin(RDMA_NLDEV_CMD_RES_GET, 0);
		with(RDMA_NLDEV_ATTR_DEV_INDEX, i);
		ask();
		entry = first_entry(RDMA_NLDEV_ATTR_RES_SUMMARY);
		ck_assert_uint_eq(
		    number_in(entry, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR),
		    1); /* PDs */
	}
}
END_TEST

/* Of what has a peer, and of what has none */
START_TEST(queue_pairs_are_told_as_their_transport_is)
{
	static const struct {
		uint8_t type;
		bool connected;
	} c[] = {{IBV_QPT_RC, true}, {IBV_QPT_UC, true}, {IBV_QPT_UD, false}};

	for (uint32_t i = 0; i < 3; i++)
		add(TRACE_OBJ_QP, 0x20 + i, 5)->o.qp.type = c[i].type;
	for (uint32_t i = 0; i < 3; i++) {
		begin(RDMA_NLDEV_CMD_RES_QP_GET, 0);
		with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
		with(RDMA_NLDEV_ATTR_RES_LQPN, 0x20 + i);
		ask();
		ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_RES_TYPE)), c[i].type);
		ck_assert_int_eq(attr(0, RDMA_NLDEV_ATTR_RES_RQPN) != NULL,
				 c[i].connected);
		ck_assert_int_eq(attr(0, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE) != NULL,
				 c[i].connected);
	}
}
END_TEST

START_TEST(identifiers_have_addresses_and_states)
{
	static const struct {
		const char *name;
		uint8_t state;
	} c[] = {{"LISTENING", 8}, {"CONNECTED", 5},	  {"addr_bound", 7},
		 {"IDLE", 0},	   {"SOMETHING_ELSE", 0}, {"DEVICE_REMOVAL", 9}};
	const struct trace_ip v4 = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 7}};
	const struct trace_ip v6 = {{0xfe, 0x80, [15] = 7}};

	for (uint32_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct nldev_object *o = add(TRACE_OBJ_CM_ID, 100 + i, 5);
		struct sockaddr_in four;
		struct sockaddr_in6 six;

		/* the text may be as long as its room */
		memset(o->o.cm.state, 0, sizeof(o->o.cm.state));
		memcpy(o->o.cm.state, c[i].name,
		       strnlen(c[i].name, sizeof(o->o.cm.state)));
		o->o.cm.local = v4;
		o->o.cm.local_port = 0x1234;
		o->o.cm.remote = v6;
		o->o.cm.remote_port = 0x5678;
		begin(RDMA_NLDEV_CMD_RES_CM_ID_GET, 0);
		with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
		with(RDMA_NLDEV_ATTR_RES_CM_IDN, 100 + i);
		ask();
		ck_assert_uint_eq(number(attr(0, RDMA_NLDEV_ATTR_RES_STATE)), c[i].state);
		ck_assert_ptr_null(attr(0, RDMA_NLDEV_ATTR_RES_LQPN));
		memcpy(&four, attr(0, RDMA_NLDEV_ATTR_RES_SRC_ADDR) + 1, sizeof(four));
		ck_assert_uint_eq(four.sin_family, AF_INET);
		ck_assert_uint_eq(ntohs(four.sin_port), 0x1234);
		ck_assert_uint_eq(ntohl(four.sin_addr.s_addr), 0x0a000007);
		memcpy(&six, attr(0, RDMA_NLDEV_ATTR_RES_DST_ADDR) + 1, sizeof(six));
		ck_assert_uint_eq(six.sin6_family, AF_INET6);
		ck_assert_uint_eq(ntohs(six.sin6_port), 0x5678);
		ck_assert_mem_eq(&six.sin6_addr, v6.b, 16);
	}
}
END_TEST

START_TEST(counters_of_a_port_are_those_of_its_device)
{
	const struct nlattr *entry;

	for (uint32_t i = 0; i < 2; i++)
		for (size_t k = 0; k < TRACE_N_HW; k++)
			world.device[i].counter[k] = 100 * i + k;
	for (uint32_t i = 0; i < 2; i++) {
		begin(RDMA_NLDEV_CMD_STAT_GET, 0);
		with(RDMA_NLDEV_ATTR_DEV_INDEX, i);
		with(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
		ask();
		entry = first_entry(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
		ck_assert_uint_eq(
		    number_in(entry, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE),
		    100 * i);
		ck_assert_uint_eq(entries(attr(0, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS),
					  RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY),
				  TRACE_N_HW);
	}
}
END_TEST

START_TEST(a_device_with_firmware_says_which)
{
	strcpy(world.device[1].fw_ver, "20.1.2");
	begin(RDMA_NLDEV_CMD_GET, 0);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	ask();
	ck_assert_str_eq((const char *)(attr(0, RDMA_NLDEV_ATTR_FW_VERSION) + 1),
			 "20.1.2");
	begin(RDMA_NLDEV_CMD_PORT_GET, 0);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	ask();
	ck_assert_str_eq((const char *)(attr(0, RDMA_NLDEV_ATTR_NDEV_NAME) + 1), "lo");
}
END_TEST

/* --- what comes in ------------------------------------------------------------------ */

/* The header of the request, changed */
static struct nlmsghdr *header(void)
{
	return (struct nlmsghdr *)request;
}

START_TEST(requests_in_a_row_are_all_answered)
{
	size_t one;

	begin(RDMA_NLDEV_CMD_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	one = len;
	memcpy(request + one, request, one);
	memcpy(request + 2 * one, request, one);
	len = 3 * one;
	ask();
	ck_assert_uint_eq(answer.n, 6);
	/* the last one is cut off */
	len--;
	ask();
	ck_assert_uint_eq(answer.n, 4);
}
END_TEST

START_TEST(what_is_no_request_is_not_answered)
{
	begin(RDMA_NLDEV_CMD_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	header()->nlmsg_flags = NLM_F_ACK;
	ask();
	ck_assert_uint_eq(answer.n, 1);
	is_error(0, 0);
	header()->nlmsg_flags = 0;
	ask();
	ck_assert_uint_eq(answer.n, 0);
	/* a control message */
	header()->nlmsg_flags = NLM_F_REQUEST;
	header()->nlmsg_type = NLMSG_NOOP;
	ask();
	ck_assert_uint_eq(answer.n, 0);
	/* of another client of the same protocol */
	header()->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_IWCM, RDMA_NLDEV_CMD_GET);
	ask();
	is_error(0, -EINVAL);
}
END_TEST

/* All, and not a part of what means all */
START_TEST(half_a_dump_is_none)
{
	begin(RDMA_NLDEV_CMD_GET, NLM_F_ROOT);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	ask();
	ck_assert_uint_eq(answer.n, 1);
	ck_assert_str_eq((const char *)(attr(0, RDMA_NLDEV_ATTR_DEV_NAME) + 1), "rxe1");
}
END_TEST

START_TEST(attributes_may_have_flags_and_unknown_numbers)
{
	begin(RDMA_NLDEV_CMD_GET, 0);
	with(RDMA_NLDEV_ATTR_MAX, 7); /* the first that there is not */
	with(0x3fff, 7);
	with(RDMA_NLDEV_ATTR_DEV_INDEX | NLA_F_NET_BYTEORDER, 1);
	ask();
	ck_assert_str_eq((const char *)(attr(0, RDMA_NLDEV_ATTR_DEV_NAME) + 1), "rxe1");
}
END_TEST

START_TEST(counters_are_of_ports_and_regions)
{
	begin(RDMA_NLDEV_CMD_STAT_GET, 0);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	ask();
	is_error(0, -EINVAL); /* no port */
	/* of QPs there are none, which is no error */
	begin(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	add(TRACE_OBJ_MR, 0x200, 5)->o.mr.on_demand = true;
	ask();
	ck_assert_uint_eq(answer.n, 1);
	ck_assert_uint_eq(datagram(0)->nlmsg_type, NLMSG_DONE);
}
END_TEST

START_TEST(what_changes_something_is_not_supported)
{
	static const unsigned int commands[] = {RDMA_NLDEV_CMD_SET,
						RDMA_NLDEV_CMD_NEWLINK,
						RDMA_NLDEV_CMD_DELLINK,
						RDMA_NLDEV_CMD_SYS_SET,
						RDMA_NLDEV_CMD_STAT_SET,
						RDMA_NLDEV_CMD_STAT_DEL,
						1000};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		begin(commands[i], NLM_F_ACK);
		with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
		ask();
		ck_assert_uint_eq(answer.n, 1);
		is_error(0, -EOPNOTSUPP);
	}
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
	begin(RDMA_NLDEV_CMD_GET, NLM_F_ACK);
	ask();
	is_error(0, -EINVAL);
	begin(RDMA_NLDEV_CMD_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 2);
	ask();
	is_error(0, -EINVAL);
	begin(RDMA_NLDEV_CMD_PORT_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	with(RDMA_NLDEV_ATTR_PORT_INDEX, 2);
	ask();
	is_error(0, -EINVAL);
	begin(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);
	ask();
	is_error(0, -EINVAL);
	ck_assert_uint_eq(answer.n, 1);
}
END_TEST

START_TEST(what_is_cut_off_is_no_request)
{
	begin(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	for (len = 0; len < NLMSG_HDRLEN; len++) {
		ask();
		ck_assert_uint_eq(answer.n, 0);
	}
	/* an attribute that says it is longer than the message */
	begin(RDMA_NLDEV_CMD_GET, NLM_F_ACK);
	with(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	request[NLMSG_HDRLEN] = 9;
	ask();
	is_error(0, -EINVAL);
	/* and one that is too short for its value */
	request[NLMSG_HDRLEN] = 7;
	ask();
	is_error(0, -EINVAL);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, all_devices_and_an_end);
	tcase_add_test(tc, one_device_and_an_acknowledge_if_it_is_asked_for);
	tcase_add_test(tc, many_objects_take_many_datagrams_and_none_is_lost);
	tcase_add_test(tc, an_object_is_found_by_its_number);
	tcase_add_test(tc, counters_are_of_regions_on_demand_only);
	tcase_add_test(tc, pds_and_users_of_cqs_follow_from_what_names_them);
	tcase_add_test(tc, objects_are_those_of_the_device);
	tcase_add_test(tc, queue_pairs_are_told_as_their_transport_is);
	tcase_add_test(tc, identifiers_have_addresses_and_states);
	tcase_add_test(tc, counters_of_a_port_are_those_of_its_device);
	tcase_add_test(tc, a_device_with_firmware_says_which);
	tcase_add_test(tc, requests_in_a_row_are_all_answered);
	tcase_add_test(tc, what_is_no_request_is_not_answered);
	tcase_add_test(tc, half_a_dump_is_none);
	tcase_add_test(tc, attributes_may_have_flags_and_unknown_numbers);
	tcase_add_test(tc, counters_are_of_ports_and_regions);
	tcase_add_test(tc, what_changes_something_is_not_supported);
	tcase_add_test(tc, what_is_not_there_is_refused);
	tcase_add_test(tc, what_is_cut_off_is_no_request);
}

int main(void)
{
	mallopt(M_PERTURB, 0xa5);
	return util_run("netlink", add_tests);
}
