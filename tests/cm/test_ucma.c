/*
 * Description: the rdma_cm device fed by hand: wrong sizes, wrong pointers, identifiers
 * that do not exist or are another channel's, random commands. Runs under `urxe run`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../check_main.h"

#define DEVICE	"/dev/infiniband/rdma_cm"
#define N_CMDS	(RDMA_USER_CM_CMD_JOIN_MCAST + 1)
#define BAD_PTR ((uint64_t)(uintptr_t)8)

static int open_channel(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Write a command; 0 or -errno */
static int command(int fd, uint32_t cmd, const void *in, size_t in_len, size_t out_len)
{
	uint8_t buf[2048];
	struct rdma_ucm_cmd_hdr hdr = {
	    .cmd = cmd, .in = (uint16_t)in_len, .out = (uint16_t)out_len};
	ssize_t n;

	memcpy(buf, &hdr, sizeof(hdr));
	memcpy(buf + sizeof(hdr), in, in_len);
	n = write(fd, buf, sizeof(hdr) + in_len);
	if (n < 0)
		return -errno;
	ck_assert_int_eq(n, (ssize_t)(sizeof(hdr) + in_len));
	return 0;
}

static int create_id(int fd, uint16_t ps, uint64_t uid, uint32_t *id)
{
	struct rdma_ucm_create_id_resp resp = {.id = 0xffffffff};
	struct rdma_ucm_create_id cmd = {
	    .uid = uid, .response = (uintptr_t)&resp, .ps = ps, .qp_type = 2};
	int ret =
	    command(fd, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp));

	*id = resp.id;
	return ret;
}

static int destroy_id(int fd, uint32_t id, uint32_t *events)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	struct rdma_ucm_destroy_id cmd = {.response = (uintptr_t)&resp, .id = id};
	int ret =
	    command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(resp));

	if (events)
		*events = resp.events_reported;
	return ret;
}

static int get_event(int fd, struct rdma_ucm_event_resp *ev)
{
	struct rdma_ucm_get_event cmd = {.response = (uintptr_t)ev};

	return command(fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(*ev));
}

static int resolve_loopback(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_ip cmd = {.id = id, .timeout_ms = 2000};
	struct sockaddr_in dst = {.sin_family = AF_INET,
				  .sin_port = htons(9),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	memcpy(&cmd.dst_addr, &dst, sizeof(dst));
	return command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, &cmd, sizeof(cmd), 0);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

START_TEST(it_is_a_character_device)
{
	int fd = open_channel();
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert(S_ISCHR(st.st_mode));
	ck_assert_uint_eq(major(st.st_rdev), 10);
	close(fd);
}
END_TEST

START_TEST(malformed_headers_are_refused)
{
	int fd = open_channel();
	struct rdma_ucm_cmd_hdr hdr = {
	    .cmd = RDMA_USER_CM_CMD_CREATE_ID, .in = 24, .out = 4};
	void *volatile bad = (void *)(uintptr_t)BAD_PTR;
	char c;

	ck_assert(write(fd, &hdr, 0) == -1 && errno == EINVAL);
	ck_assert(write(fd, &hdr, 7) == -1 && errno == EINVAL);
	ck_assert(write(fd, &hdr, 8) == -1 && errno == EINVAL); /* 24 more are missing */
	hdr.cmd = 1000;
	hdr.in = 0;
	ck_assert(write(fd, &hdr, 8) == -1 && errno == EINVAL);
	hdr.cmd = RDMA_USER_CM_CMD_GET_OPTION;
	ck_assert(write(fd, &hdr, 8) == -1 && errno == ENOSYS);
	ck_assert(write(fd, bad, 8) == -1 && errno == EFAULT);
	ck_assert(read(fd, &c, 1) == -1 && errno == EINVAL);
	close(fd);
}
END_TEST

/* Each command with each length that is too short, and with an answer that has no room */
START_TEST(short_commands_are_refused)
{
	int fd = open_channel();
	uint8_t zero[512] = {0};
	unsigned int cmd, len;
	uint32_t id;
	int ret;

	ck_assert_int_eq(create_id(fd, RDMA_PS_TCP, 1, &id), 0);
	for (cmd = 0; cmd < N_CMDS; cmd++) {
		for (len = 0; len < 4; len++) {
			ret = command(fd, cmd, zero, len, 0xffff);
			ck_assert_msg(ret == -EINVAL || ret == -ENOSYS, "%u/%u: %d", cmd,
				      len, ret);
		}
	}
	ck_assert_int_eq(command(fd, RDMA_USER_CM_CMD_CREATE_ID, zero, 24, 3), -ENOSPC);
	ck_assert_int_eq(command(fd, RDMA_USER_CM_CMD_DESTROY_ID, zero, 16, 3), -ENOSPC);
	ck_assert_int_eq(command(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, zero, 16, 8), -ENOSPC);
	ck_assert_int_eq(command(fd, RDMA_USER_CM_CMD_QUERY, zero, 16, 8), -ENOSPC);
	ck_assert_int_eq(command(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, zero, 16, 8),
			 -ENOSPC);
	ck_assert_int_eq(command(fd, RDMA_USER_CM_CMD_GET_EVENT, zero, 8, 8), -ENOSPC);
	ck_assert_int_eq(destroy_id(fd, id, NULL), 0);
	close(fd);
}
END_TEST

START_TEST(bad_pointers_are_refused)
{
	int fd = open_channel();
	struct rdma_ucm_create_id create = {
	    .uid = 1, .response = BAD_PTR, .ps = RDMA_PS_TCP};
	struct rdma_ucm_destroy_id destroy = {.response = BAD_PTR};
	struct rdma_ucm_query query = {.response = BAD_PTR};
	struct rdma_ucm_set_option option = {.optval = BAD_PTR, .optlen = 4};
	struct rdma_ucm_event_resp ev;
	struct rdma_ucm_get_event get = {.response = BAD_PTR};
	uint32_t id, first;

	ck_assert_int_eq(create_id(fd, RDMA_PS_TCP, 1, &first), 0);
	ck_assert_int_eq(destroy_id(fd, first, NULL), 0);
	ck_assert_int_eq(
	    command(fd, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), 4), -EFAULT);
	ck_assert_int_eq(create_id(fd, RDMA_PS_TCP, 1, &id), 0);
	ck_assert_uint_eq(id, first); /* the other one has not stayed */
	query.id = option.id = id;
	ck_assert_int_eq(command(fd, RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), 512),
			 -EFAULT);
	ck_assert_int_eq(
	    command(fd, RDMA_USER_CM_CMD_SET_OPTION, &option, sizeof(option), 0),
	    -EFAULT);
	/* An event that could not be delivered is not lost. */
	ck_assert_int_eq(resolve_loopback(fd, id), 0);
	ck_assert_int_eq(
	    command(fd, RDMA_USER_CM_CMD_GET_EVENT, &get, sizeof(get), sizeof(ev)),
	    -EFAULT);
	ck_assert_int_eq(get_event(fd, &ev), 0);
	ck_assert_uint_eq(ev.event, 0); /* ADDR_RESOLVED */
	destroy.id = id;
	ck_assert_int_eq(
	    command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &destroy, sizeof(destroy), 4),
	    -EFAULT);
	ck_assert_int_eq(destroy_id(fd, id, NULL), -ENOENT);
	close(fd);
}
END_TEST

START_TEST(identifiers_of_other_channels_are_refused)
{
	int a = open_channel(), b = open_channel();
	struct rdma_ucm_listen listen = {.backlog = 1};
	struct rdma_ucm_migrate_resp moved;
	struct rdma_ucm_migrate_id move = {.response = (uintptr_t)&moved};
	uint32_t id, events = 99;

	ck_assert_int_eq(create_id(a, RDMA_PS_TCP, 1, &id), 0);
	ck_assert_int_eq(create_id(a, 0x1234, 1, &listen.id), -EINVAL);
	listen.id = 12345;
	ck_assert_int_eq(command(a, RDMA_USER_CM_CMD_LISTEN, &listen, sizeof(listen), 0),
			 -ENOENT);
	listen.id = id;
	ck_assert_int_eq(command(b, RDMA_USER_CM_CMD_LISTEN, &listen, sizeof(listen), 0),
			 -EINVAL);
	ck_assert_int_eq(destroy_id(b, id, NULL), -EINVAL);
	/* It may move, with what is queued of it. */
	ck_assert_int_eq(resolve_loopback(a, id), 0);
	move.id = id;
	move.fd = 0x7fffffff;
	ck_assert_int_eq(
	    command(b, RDMA_USER_CM_CMD_MIGRATE_ID, &move, sizeof(move), sizeof(moved)),
	    -ENOENT);
	move.fd = 0;
	ck_assert_int_eq(
	    command(b, RDMA_USER_CM_CMD_MIGRATE_ID, &move, sizeof(move), sizeof(moved)),
	    -EINVAL);
	move.fd = (uint32_t)a;
	ck_assert_int_eq(
	    command(b, RDMA_USER_CM_CMD_MIGRATE_ID, &move, sizeof(move), sizeof(moved)),
	    0);
	ck_assert_uint_eq(moved.events_reported, 0);
	ck_assert(!readable(a));
	ck_assert(readable(b));
	ck_assert_int_eq(destroy_id(a, id, NULL), -EINVAL);
	ck_assert_int_eq(destroy_id(b, id, &events), 0);
	ck_assert_uint_eq(events, 0);
	ck_assert(!readable(b)); /* its event went with it */
	ck_assert_int_eq(destroy_id(b, id, NULL), -ENOENT);
	close(a);
	close(b);
}
END_TEST

START_TEST(a_channel_is_readable_while_it_has_events)
{
	int fd = open_channel();
	struct rdma_ucm_event_resp ev;
	uint32_t id, events;

	ck_assert_int_eq(get_event(fd, &ev), -EAGAIN);
	ck_assert(!readable(fd));
	ck_assert_int_eq(create_id(fd, RDMA_PS_TCP, 0x1234567890, &id), 0);
	ck_assert_int_eq(resolve_loopback(fd, id), 0);
	ck_assert(readable(fd));
	ck_assert_int_eq(get_event(fd, &ev), 0);
	ck_assert(!readable(fd));
	ck_assert(ev.uid == 0x1234567890);
	ck_assert_uint_eq(ev.id, id);
	ck_assert_int_eq((int)ev.status, 0);
	ck_assert_int_eq(get_event(fd, &ev), -EAGAIN);
	ck_assert_int_eq(resolve_loopback(fd, id), -EINVAL); /* twice */
	ck_assert_int_eq(destroy_id(fd, id, &events), 0);
	ck_assert_uint_eq(events, 1);
	close(fd);
}
END_TEST

START_TEST(closing_takes_all)
{
	int a = open_channel(), b = open_channel();
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_port = htons(28111),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_ucm_bind bind = {.addr_size = sizeof(addr)};

	memcpy(&bind.addr, &addr, sizeof(addr));
	ck_assert_int_eq(create_id(a, RDMA_PS_TCP, 1, &bind.id), 0);
	ck_assert_int_eq(command(a, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), 0);
	ck_assert_int_eq(create_id(b, RDMA_PS_TCP, 1, &bind.id), 0);
	ck_assert_int_eq(command(b, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0),
			 -EADDRINUSE);
	close(a);
	ck_assert_int_eq(command(b, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), 0);
	close(b);
}
END_TEST

static uint64_t seed = 88172645463325252u;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed % n);
}

/* Fields that a random structure should have right to get any further */
static void make_plausible(uint8_t *p, size_t len, uint8_t *room)
{
	const uint64_t ptrs[] = {(uintptr_t)room, (uintptr_t)room, BAD_PTR, 0};
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)(28000 + rnd(10))),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK + rnd(2))};
	uint64_t v = ptrs[rnd(4)];
	uint32_t id = rnd(8);
	size_t at;

	if (rnd(2) && len >= 8)
		memcpy(p, &v, 8);
	for (at = 0; at + 4 <= len; at += 4) {
		if (!rnd(3))
			memcpy(p + at, &id, 4);
	}
	at = rnd(6) * 4;
	if (at + sizeof(sin) <= len)
		memcpy(p + at, &sin, sizeof(sin));
}

START_TEST(random_commands_do_no_harm)
{
	int fd[2] = {open_channel(), open_channel()};
	uint8_t in[700], room[1024];
	unsigned int i, k, done = 0;

	for (i = 0; i < 30000; i++) {
		uint32_t cmd = rnd(N_CMDS + 2);
		size_t len = rnd(8) ? 300 + rnd(100) : rnd(sizeof(in));
		uint32_t id;

		if (!rnd(20))
			create_id(fd[rnd(2)], rnd(2) ? RDMA_PS_TCP : RDMA_PS_UDP, rnd(2),
				  &id);
		memset(in, 0, sizeof(in));
		for (k = 0; k < len; k++)
			in[k] = rnd(3) ? 0 : (uint8_t)rnd(256);
		make_plausible(in, len, room);
		/* Only these two descriptors: others may be the test's own. */
		if (cmd == RDMA_USER_CM_CMD_MIGRATE_ID && len >= 16)
			memcpy(in + 12, &fd[rnd(2)], 4);
		if (cmd == RDMA_USER_CM_CMD_SET_OPTION)
			memset(in, 0, 8);
		done += command(fd[rnd(2)], cmd, in, len,
				rnd(4) ? sizeof(room) : rnd(64)) == 0;
	}
	ck_assert_uint_gt(done, 100); /* or it did not test much */
	close(fd[0]);
	close(fd[1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ucma");
	TCase *t = tcase_create("device");

	if (access(DEVICE, F_OK))
		return 77;
	tcase_set_timeout(t, 60);
	tcase_add_test(t, it_is_a_character_device);
	tcase_add_test(t, malformed_headers_are_refused);
	tcase_add_test(t, short_commands_are_refused);
	tcase_add_test(t, bad_pointers_are_refused);
	tcase_add_test(t, identifiers_of_other_channels_are_refused);
	tcase_add_test(t, a_channel_is_readable_while_it_has_events);
	tcase_add_test(t, closing_takes_all);
	tcase_add_test(t, random_commands_do_no_harm);
	suite_add_tcase(s, t);
	return check_main(s);
}
