/*
 * Description: who may have which address and port, in one process and among several, and
 * what happens to them when a process dies; through the distribution's librdmacm. Runs
 * under `urxe run`.
 */
#include <dirent.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include "rdmacm.h"

/* --- addresses and ports ---------------------------------------------------------- */

START_TEST(an_address_is_bound_once)
{
	static const struct {
		const char *first, *second;
		bool reuse;
		int err;
	} cases[] = {
	    {"127.0.0.1", "127.0.0.1", false, EADDRINUSE},
	    {"127.0.0.1", "127.0.0.2", false, 0},
	    {"127.0.0.1", "0.0.0.0", false, EADDRINUSE},
	    {"0.0.0.0", "127.0.0.1", false, EADDRINUSE},
	    {"0.0.0.0", "0.0.0.0", false, EADDRINUSE},
	    {"0.0.0.0", "::", false, EADDRINUSE},
	    {"::", "0.0.0.0", false, EADDRINUSE},
	    {"::1", "127.0.0.1", false, 0},
	    {"127.0.0.1", "127.0.0.1", true, 0},
	    {"0.0.0.0", "0.0.0.0", true, 0},
	};
	struct rdma_event_channel *ch = channel();
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP),
				  *b = new_id(ch, RDMA_PS_TCP);
		int on = cases[i].reuse, ret;

		rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
				sizeof(on));
		rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
				sizeof(on));
		ck_assert_int_eq(bind_to(a, cases[i].first, 0), 0);
		ret = bind_to(b, cases[i].second, ntohs(rdma_get_src_port(a)));
		ck_assert_msg(cases[i].err ? ret == -1 && errno == cases[i].err
					   : ret == 0,
			      "%s %s: %d %s", cases[i].first, cases[i].second, ret,
			      strerror(errno));
		if (on) {
			/* Only one of them may listen. */
			ck_assert_int_eq(rdma_listen(a, 1), -1);
			ck_assert_int_eq(errno, EADDRINUSE);
		}
		ck_assert_int_eq(rdma_destroy_id(a), 0);
		ck_assert_int_eq(rdma_destroy_id(b), 0);
	}
	rdma_destroy_event_channel(ch);
}
END_TEST

/* The kernel's cma takes loopback for any address: the device is chosen when it resolves. */
START_TEST(bind_to_loopback_ties_to_no_device)
{
	const char *text = addresses[_i];
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage ss = addr_of(text, 0);
	struct side l = listener(RDMA_PS_TCP, text, 1);

	ck_assert_int_eq(bind_to(id, text, 0), 0);
	ck_assert_ptr_null(id->verbs);
	ck_assert_uint_eq(id->port_num, 0);
	ck_assert_uint_ne(rdma_get_src_port(id), 0);
	ck_assert_ptr_null(l.id->verbs);

	ck_assert_int_eq(resolve(id, text, ntohs(rdma_get_src_port(l.id))), 0);
	expect_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_uint_eq(id->port_num, 1);
	if (ss.ss_family == AF_INET) /* what the program said it was bound to */
		ck_assert_uint_eq(
		    ((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr,
		    ((struct sockaddr_in *)&ss)->sin_addr.s_addr);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	done(&l);
}
END_TEST

START_TEST(afonly_parts_the_families)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, RDMA_PS_TCP);
	int on = 1;

	ck_assert_int_eq(
	    rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, 4), 0);
	ck_assert_int_eq(bind_to(a, "::", 0), 0);
	ck_assert_int_eq(bind_to(b, "0.0.0.0", ntohs(rdma_get_src_port(a))), 0);
	ck_assert_int_eq(rdma_listen(a, 1), 0);
	ck_assert_int_eq(rdma_listen(b, 1), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(port_spaces_are_apart)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, RDMA_PS_UDP);

	ck_assert_int_eq(bind_to(a, "127.0.0.1", 0), 0);
	ck_assert_int_eq(bind_to(b, "127.0.0.1", ntohs(rdma_get_src_port(a))), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* Who may share its port may not share it with one that listens. */
START_TEST(a_port_that_is_listened_on_is_not_shared)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, RDMA_PS_TCP);
	uint16_t port;
	int on = 1;

	rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	ck_assert_int_eq(bind_to(a, "127.0.0.1", 0), 0);
	port = ntohs(rdma_get_src_port(a));
	ck_assert_int_eq(rdma_listen(a, 1), 0);
	ck_assert(bind_to(b, "127.0.0.1", port) == -1 && errno == EADDRINUSE);
	ck_assert(bind_to(b, "0.0.0.0", port) == -1 && errno == EADDRINUSE);
	ck_assert_int_eq(bind_to(b, "127.0.0.2", port), 0);
	/* by itself it may listen again and again */
	ck_assert_int_eq(rdma_listen(b, 1), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* What bind() of @text says in another process; 0 or the error */
static int bind_elsewhere(const char *text, uint16_t port)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct rdma_event_channel *ch = channel();

		alarm(WAIT_MS / 1000);
		_exit(bind_to(new_id(ch, RDMA_PS_TCP), text, port) ? errno : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(a_wildcard_keeps_other_processes_out)
{
	static const struct {
		const char *here, *there;
		int err;
	} c[] = {
	    {"::", "127.0.0.1", EADDRINUSE}, {"::", "0.0.0.0", EADDRINUSE},
	    {"::", "::1", EADDRINUSE},	     {"0.0.0.0", "127.0.0.1", EADDRINUSE},
	    {"0.0.0.0", "::1", 0},	     {"127.0.0.1", "::", EADDRINUSE},
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct rdma_event_channel *ch = channel();
		struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

		ck_assert_int_eq(bind_to(id, c[i].here, 0), 0);
		ck_assert_msg(bind_elsewhere(c[i].there, ntohs(rdma_get_src_port(id))) ==
				  c[i].err,
			      "%s, %s", c[i].here, c[i].there);
		ck_assert_int_eq(rdma_destroy_id(id), 0);
		rdma_destroy_event_channel(ch);
	}
}
END_TEST

/* Two addresses of one port: the port is in use until the second one goes, and then is not. */
START_TEST(a_port_is_in_use_until_its_last_owner_goes)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, RDMA_PS_TCP);
	uint16_t port;

	ck_assert_int_eq(bind_to(a, "127.0.0.1", 0), 0);
	port = ntohs(rdma_get_src_port(a));
	ck_assert_int_eq(bind_to(b, "127.0.0.2", port), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(bind_elsewhere("0.0.0.0", port), EADDRINUSE);
	ck_assert_int_eq(bind_elsewhere("127.0.0.1", port), 0);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	ck_assert_int_eq(bind_elsewhere("0.0.0.0", port), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* A process that was refused keeps nothing of the port, though it lives. */
START_TEST(who_was_refused_is_not_in_the_way)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	int ready[2], go[2];
	uint16_t port;
	pid_t pid;
	char c;

	ck_assert(!pipe(ready) && !pipe(go));
	ck_assert_int_eq(bind_to(id, "127.0.0.1", 0), 0);
	port = ntohs(rdma_get_src_port(id));
	pid = fork();
	if (!pid) {
		struct rdma_cm_id *mine = new_id(channel(), RDMA_PS_TCP);

		alarm(WAIT_MS / 1000);
		c = bind_to(mine, "127.0.0.1", port) ? 'n' : 'y';
		_exit(write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1);
	}
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	ck_assert_int_eq(c, 'n');
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	id = new_id(ch, RDMA_PS_TCP);
	ck_assert_int_eq(bind_to(id, "0.0.0.0", port), 0);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

static int without_the_right_to_low_ports(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];
	struct rdma_event_channel *ch;

	if (syscall(SYS_capget, &h, d))
		return 1;
	d[0].effective &= ~(1u << CAP_NET_BIND_SERVICE);
	if (syscall(SYS_capset, &h, d))
		return 2;
	ch = channel();
	if (bind_to(new_id(ch, RDMA_PS_TCP), "127.0.0.7", 1023) != -1 || errno != EACCES)
		return 3;
	return bind_to(new_id(ch, RDMA_PS_TCP), "127.0.0.7", 1024) ? 4 : 0;
}

START_TEST(low_ports_are_for_who_has_the_right)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(without_the_right_to_low_ports());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

static unsigned int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Asking for a way, or for an address, costs no descriptor. */
START_TEST(asking_leaves_nothing_open)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id;
	unsigned int before = 0;

	for (int i = 0; i < 20; i++) {
		id = new_id(ch, RDMA_PS_TCP);
		ck_assert(bind_to(id, "192.0.2.77", 0) == -1);
		ck_assert_int_eq(resolve(id, "127.0.0.1", 9), 0);
		expect_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
		ck_assert_int_eq(rdma_destroy_id(id), 0);
		before = i == 4 ? open_files() : before;
	}
	ck_assert_uint_lt(open_files(), before + 10);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* 0.0.0.0/8 is this host, to the kernel's cma as well */
START_TEST(any_address_has_more_names)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	ck_assert_int_eq(bind_to(id, "0.1.2.3", 0), 0);
	ck_assert_int_eq(bind_elsewhere("127.0.0.1", ntohs(rdma_get_src_port(id))),
			 EADDRINUSE);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* Another process has the port; when it ends, however, the port is free. */
START_TEST(conflict_between_processes)
{
	static const char *const others[] = {"127.0.0.1", "0.0.0.0", "::"};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *a;
	int ready[2], go[2], i, n = 0;
	uint16_t port;
	pid_t pid;
	char c;

	ck_assert(!pipe(ready) && !pipe(go));
	pid = fork();
	if (!pid) {
		struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);

		port = rdma_get_src_port(l.id);
		if (write(ready[1], &port, sizeof(port)) < 0 || read(go[0], &c, 1) < 0)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(read(ready[0], &port, sizeof(port)), sizeof(port));
	ch = channel();
	for (i = 0; i < 3; i++) {
		a = new_id(ch, RDMA_PS_TCP);
		ck_assert(bind_to(a, others[i], ntohs(port)) == -1 &&
			  errno == EADDRINUSE);
		ck_assert_int_eq(rdma_destroy_id(a), 0);
	}
	a = new_id(ch, RDMA_PS_TCP);
	ck_assert_int_eq(bind_to(a, "127.0.0.2", ntohs(port)), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	waitpid(pid, NULL, 0);
	/* What is known about the living may be a tenth of a second old. */
	a = new_id(ch, RDMA_PS_TCP);
	while (bind_to(a, "0.0.0.0", ntohs(port))) {
		ck_assert_int_eq(errno, EADDRINUSE);
		ck_assert_int_lt(n++, 100);
		usleep(20000);
	}
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/*
 * enum death - when the passive process of death_of_a_server() is killed
 * DIES_ASKED:	before it has answered the request
 * DIES_UNREAD:	with a DISCONNECTED that it has not read
 * DIES_READ:	when it has read it
 */
enum death { DIES_ASKED, DIES_UNREAD, DIES_READ, DEATHS };

static void serve_and_die(enum death when, int say, int hear)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	uint16_t port = rdma_get_src_port(l.id);
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_event *ev;
	char c;

	if (write(say, &port, sizeof(port)) < 0)
		_exit(1);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (when != DIES_ASKED) {
		add_qp(ev->id);
		ck_assert_int_eq(rdma_accept(ev->id, &p), 0);
		rdma_ack_cm_event(ev);
		expect_ack(l.ch, RDMA_CM_EVENT_ESTABLISHED);
	}
	if (when == DIES_READ)
		expect(l.ch, RDMA_CM_EVENT_DISCONNECTED);
	else if (read(hear, &c, 1) < 0)
		_exit(1);
	kill(getpid(), SIGKILL);
}

/* With the kernel's rdma_cm the identifiers of a process end with it, in whatever state. */
START_TEST(death_of_a_server)
{
	int ready[2], go[2];
	struct timespec t0, t1;
	struct side a;
	uint16_t port;
	pid_t pid;

	ck_assert(!pipe(ready) && !pipe(go));
	pid = fork();
	if (!pid)
		serve_and_die((enum death)_i, ready[1], go[0]);
	ck_assert_int_eq(read(ready[0], &port, sizeof(port)), sizeof(port));
	a = caller(RDMA_PS_TCP, "127.0.0.1", port);
	add_qp(a.id);
	connect_with(&a, NULL, 0);
	if (_i == DIES_ASKED) {
		usleep(500000); /* so that it has asked for patience */
	} else {
		expect_ack(a.ch, RDMA_CM_EVENT_ESTABLISHED);
		ck_assert_int_eq(rdma_disconnect(a.id), 0);
		usleep(50000);
	}
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	expect_ack(a.ch, _i == DIES_ASKED ? RDMA_CM_EVENT_REJECTED
					  : RDMA_CM_EVENT_DISCONNECTED);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	ck_assert_int_lt(t1.tv_sec - t0.tv_sec, 5);
	waitpid(pid, NULL, 0);
	done(&a);
}
END_TEST

/* In the child of the process with listener @l: what is the parent's is dead. */
static void be_a_child(struct side *l)
{
	uint16_t port = rdma_get_src_port(l->id);
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct side a;

	alarm(WAIT_MS / 1000);
	ck_assert(rdma_get_cm_event(l->ch, &ev) == -1 && errno == EIO);
	ck_assert(rdma_listen(l->id, 1) == -1 && errno == EIO);
	ck_assert(rdma_create_id(l->ch, &id, NULL, RDMA_PS_TCP) == -1 && errno == EIO);
	/* but it may have channels of its own */
	a = caller(RDMA_PS_TCP, "127.0.0.1", port);
	connect_with(&a, "child", 5);
	expect_ack(a.ch, RDMA_CM_EVENT_REJECTED);
	done(&a);
}

START_TEST(a_forked_child_begins_anew)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct rdma_cm_event *ev;
	int status;
	pid_t pid = fork();

	if (!pid) {
		be_a_child(&l);
		_exit(0);
	}
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	ck_assert_mem_eq(ev->param.conn.private_data, "child", 5);
	ck_assert_int_eq(rdma_reject(ev->id, NULL, 0), 0);
	rdma_destroy_id(ev->id);
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	done(&l);
}
END_TEST

START_TEST(wildcard_serves_all)
{
	struct side l = listener(RDMA_PS_TCP, "::", 8);
	uint16_t port = rdma_get_src_port(l.id);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct side a = caller(RDMA_PS_TCP, addresses[i], port);
		struct rdma_cm_event *ev;
		struct sockaddr_storage ss = addr_of(addresses[i], ntohs(port));

		connect_with(&a, NULL, 0);
		ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
		ck_assert_mem_eq(&ev->id->route.addr.src_storage, &ss,
				 ss.ss_family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6));
		ck_assert_int_eq(rdma_reject(ev->id, NULL, 0), 0);
		struct rdma_cm_id *b = ev->id;
		rdma_ack_cm_event(ev);
		ck_assert_int_eq(rdma_destroy_id(b), 0);
		expect_ack(a.ch, RDMA_CM_EVENT_REJECTED);
		done(&a);
	}
	done(&l);
}
END_TEST

START_TEST(one_address_is_not_another)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.2", 8);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.3", rdma_get_src_port(l.id));
	struct rdma_cm_event *ev;

	connect_with(&a, NULL, 0);
	ev = expect(a.ch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(ev->status, 8);
	rdma_ack_cm_event(ev);
	done(&a);
	done(&l);
}
END_TEST

static void expect_rejected(const char *text, uint16_t port_be)
{
	struct side a = caller(RDMA_PS_TCP, text, port_be);

	connect_with(&a, NULL, 0);
	expect_ack(a.ch, RDMA_CM_EVENT_REJECTED);
	done(&a);
}

/* Who is bound and does not listen, or not for this family, hears nothing. */
START_TEST(only_who_listens_is_asked)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *bound = new_id(ch, RDMA_PS_TCP),
			  *six = new_id(ch, RDMA_PS_TCP);
	int on = 1;

	ck_assert_int_eq(bind_to(bound, "127.0.0.1", 0), 0);
	expect_rejected("127.0.0.1", rdma_get_src_port(bound));
	ck_assert_int_eq(
	    rdma_set_option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, 4), 0);
	ck_assert_int_eq(bind_to(six, "::", 0), 0);
	ck_assert_int_eq(rdma_listen(six, 1), 0);
	expect_rejected("127.0.0.1", rdma_get_src_port(six));
	ck_assert(!has_event(ch, 0));
	ck_assert_int_eq(rdma_destroy_id(bound), 0);
	ck_assert_int_eq(rdma_destroy_id(six), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(addresses_that_are_not_ours)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage odd = {.ss_family = AF_UNIX};

	ck_assert(bind_to(id, "192.0.2.77", 0) == -1 && errno == EADDRNOTAVAIL);
	ck_assert(rdma_bind_addr(id, (struct sockaddr *)&odd) == -1 && errno == EINVAL);
	if (geteuid())
		ck_assert(bind_to(id, "127.0.0.1", 80) == -1 && errno == EACCES);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* No route: an error of the call. A route, but no device on it: an event. */
START_TEST(an_address_without_a_way_is_refused)
{
	struct sockaddr_storage ss = addr_of("192.0.2.77", 7);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	bool route = !connect(s, (struct sockaddr *)&ss, sizeof(struct sockaddr_in));
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	struct rdma_cm_event *ev;

	close(s);
	if (route) {
		ck_assert_int_eq(resolve(id, "192.0.2.77", 7), 0);
		ev = expect(ch, RDMA_CM_EVENT_ADDR_ERROR);
		ck_assert_int_eq(ev->status, -ENODEV);
		rdma_ack_cm_event(ev);
	} else {
		ck_assert(resolve(id, "192.0.2.77", 7) == -1 && errno == ENETUNREACH);
	}
	/* It may try again. */
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(options_change_what_they_say)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct side a = {.ch = channel()};
	uint8_t tos = 0x68, timeout = 14;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct rdma_conn_param p = {0};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;
	int mask, on = 1;

	a.id = new_id(a.ch, RDMA_PS_TCP);
	ck_assert_int_eq(
	    rdma_set_option(a.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	ck_assert_int_eq(rdma_set_option(a.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					 &timeout, 1),
			 0);
	ck_assert(rdma_set_option(a.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, 4) ==
		      -1 &&
		  errno == EINVAL);
	ck_assert(rdma_set_option(a.id, RDMA_OPTION_ID, 99, &on, 4) == -1 &&
		  errno == ENOSYS);
	ck_assert(rdma_set_option(a.id, 99, 0, &on, 4) == -1 && errno == ENOSYS);
	ck_assert_int_eq(resolve(a.id, "127.0.0.1", ntohs(rdma_get_src_port(l.id))), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(rdma_resolve_route(a.id, 1), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_uint_eq(a.id->route.path_rec->traffic_class, tos);
	ck_assert_uint_eq(a.id->route.path_rec->packet_life_time, 13);
	connect_with(&a, NULL, 0);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_init_qp_attr(b, &attr, &mask), 0);
	ck_assert_uint_eq(attr.ah_attr.grh.traffic_class, tos);
	ck_assert_int_eq(rdma_accept(b, &p), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(rdma_init_qp_attr(a.id, &attr, &mask), 0);
	ck_assert_uint_eq(attr.timeout, timeout);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	done(&a);
	done(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rdmacm_address");
	TCase *t = tcase_create("addresses");

	if (access("/dev/infiniband/rdma_cm", F_OK))
		return 77;
	tcase_set_timeout(t, 90);
	tcase_add_test(t, an_address_is_bound_once);
	tcase_add_loop_test(t, bind_to_loopback_ties_to_no_device, 0, N_ADDRESSES);
	tcase_add_test(t, afonly_parts_the_families);
	tcase_add_test(t, port_spaces_are_apart);
	tcase_add_test(t, a_port_that_is_listened_on_is_not_shared);
	tcase_add_test(t, a_wildcard_keeps_other_processes_out);
	tcase_add_test(t, a_port_is_in_use_until_its_last_owner_goes);
	tcase_add_test(t, who_was_refused_is_not_in_the_way);
	tcase_add_test(t, low_ports_are_for_who_has_the_right);
	tcase_add_test(t, asking_leaves_nothing_open);
	tcase_add_test(t, any_address_has_more_names);
	tcase_add_test(t, conflict_between_processes);
	tcase_add_loop_test(t, death_of_a_server, 0, DEATHS);
	tcase_add_test(t, a_forked_child_begins_anew);
	tcase_add_test(t, wildcard_serves_all);
	tcase_add_test(t, one_address_is_not_another);
	tcase_add_test(t, only_who_listens_is_asked);
	tcase_add_test(t, addresses_that_are_not_ours);
	tcase_add_test(t, an_address_without_a_way_is_refused);
	tcase_add_test(t, options_change_what_they_say);
	suite_add_tcase(s, t);
	return check_main(s);
}
