/*
 * Description: many processes on one address, that come and go as they please, also by
 * SIGKILL. The test's process is one of them; children do what they are told over a pipe.
 */
#include "tests/net/harness.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "net/port_internal.h"

#define IP	 h_lo(host)
#define CHILDREN 32
#define TIMEOUT	 120			   /* s, of a test */
#define LIFE_NS	 (TIMEOUT * 1000000000ull) /* of a child that nobody ends */

/*
 * struct board - what children tell, in shared memory
 * @base:	first QPN of each, 0 until it is open
 * @got:	packets from each (row: receiver)
 * @go:		children may end
 */
struct board {
	_Atomic uint32_t base[CHILDREN];
	_Atomic uint32_t got[CHILDREN][CHILDREN];
	_Atomic uint32_t echoed[CHILDREN];
	_Atomic int go;
};

static struct board *board;
static uint8_t host; /* another one for each test */
static pid_t child[CHILDREN];

static void setup(void)
{
	h_shm();
	host = (uint8_t)(10 + getpid() % 200);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(board, 0, sizeof(*board));
}

static void teardown(void)
{
	int i;

	for (i = 0; i < CHILDREN; i++)
		if (child[i] > 0) {
			kill(child[i], SIGKILL);
			waitpid(child[i], NULL, 0);
		}
	munmap(board, sizeof(*board));
	h_shm_remove();
}

static void start(int i, const char *ip, void (*fn)(int me, struct h_node *n))
{
	struct h_node n;

	child[i] = fork();
	ck_assert_int_ge(child[i], 0);
	if (child[i])
		return;
	h_open(&n, ip);
	board->base[i] = n.base;
	fn(i, &n);
	h_close(&n);
	_exit(0);
}

static void wait_open(int n)
{
	uint64_t end = h_now() + H_PATIENCE_NS;
	int i;

	for (i = 0; i < n; i++)
		while (!board->base[i]) {
			ck_assert(h_now() < end);
			usleep(1000);
		}
}

static void wait_exit(int i)
{
	int status;

	ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
	child[i] = 0;
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Send to everybody, one's own number in the upper half, until all have heard from all */
static void all_to_all(int me, struct h_node *n)
{
	uint64_t now, end = h_now() + H_PATIENCE_NS, again = 0;
	uint32_t i, missing;

	wait_open(CHILDREN);
	do {
		now = h_now();
		if (now >= again) { /* a socket buffer may overflow: this is UDP */
			for (i = 0; i < CHILDREN; i++)
				h_send(n, &n->ip, board->base[i], (uint32_t)me, 64);
			net_tx_flush(n->port);
			again = now + 50000000;
		}
		if (!net_port_poll(n->port, 64))
			usleep(500);
		net_port_tick(n->port, now);
		for (i = 0, missing = 0; i < CHILDREN; i++) {
			board->got[me][i] = n->seen[i];
			missing += !n->seen[i];
		}
	} while ((missing || !board->go) && now < end);
}

START_TEST(all_processes_talk_to_all)
{
	const char *ip = _i ? "::1" : IP;
	uint64_t end = h_now() + H_PATIENCE_NS;
	int i, j, missing;

	for (i = 0; i < CHILDREN; i++)
		start(i, ip, all_to_all);
	wait_open(CHILDREN);
	for (i = 0; i < CHILDREN; i++)
		for (j = 0; j < i; j++)
			ck_assert_uint_ne(board->base[i], board->base[j]);
	do {
		usleep(20000);
		for (i = 0, missing = 0; i < CHILDREN; i++)
			for (j = 0; j < CHILDREN; j++)
				missing += !board->got[i][j];
	} while (missing && h_now() < end);
	ck_assert_int_eq(missing, 0);
	board->go = 1;
	for (i = 0; i < CHILDREN; i++)
		wait_exit(i);
}
END_TEST

static void receive_only(int me, struct h_node *n)
{
	uint64_t end = h_now() + LIFE_NS, next = 0, now;

	while (!board->go && (now = h_now()) < end) {
		if (!net_port_poll(n->port, 64))
			usleep(500);
		if (now >= next)
			next = net_port_tick(n->port, now);
		board->echoed[me] = n->rx;
	}
}

/* Another host: packets to ROCE_UDP_PORT for one QPN, until they arrive */
static void reach_from_outside(const struct net_ip *dst, int i, uint32_t number)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_addr.s_addr = inet_addr(h_lo(9))};
	struct net_path path = {.src = h_ip(h_lo(9)), .dst = *dst};
	uint64_t end = h_now() + H_PATIENCE_NS;
	uint32_t before = board->echoed[i], len;
	socklen_t salen = sizeof(sa);
	uint8_t pkt[200];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, salen), 0);
	getsockname(fd, (struct sockaddr *)&sa, &salen);
	path.sport = ntohs(sa.sin_port);
	sa.sin_port = htons(ROCE_UDP_PORT);
	memcpy(&sa.sin_addr, dst->b + 12, 4);
	len = h_build(pkt, board->base[i] + 1, number, 64);
	icrc_store(pkt + len, icrc_compute(&path, 0, pkt, len));
	while (board->echoed[i] == before && h_now() < end) {
		sendto(fd, pkt, len + 4, 0, (struct sockaddr *)&sa, sizeof(sa));
		usleep(5000);
	}
	close(fd);
	ck_assert_uint_ne(board->echoed[i], before);
}

START_TEST(the_switch_is_killed_again_and_again)
{
	struct net_ip ip = h_ip(IP);
	int i, j, n = 6;

	for (i = 0; i < n; i++) {
		start(i, IP, receive_only);
		while (!board->base[i])
			usleep(1000);
	}
	/* whoever is the switch, all that live are reached from outside */
	for (i = 0; i < n; i++) {
		for (j = i; j < n; j++)
			reach_from_outside(&ip, j, (uint32_t)(100 * i + j));
		/*
		 * child 0 was the first to open; later ones win by chance: kill in order
		 * until only one is left, the switch dies somewhere on the way, more than
		 * once
		 */
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
		child[i] = 0;
	}
}
END_TEST

START_TEST(local_traffic_does_not_need_the_switch)
{
	struct h_node me;
	uint64_t end;
	uint32_t i;

	start(0, IP, receive_only); /* becomes the switch */
	wait_open(1);
	start(1, IP, receive_only);
	while (!board->base[1])
		usleep(1000);
	h_open(&me, IP);
	kill(child[0], SIGSTOP); /* alive, deaf, and in possession of the port */
	for (i = 0; i < 100; i++)
		h_send(&me, &me.ip, board->base[1], i, 100);
	net_tx_flush(me.port);
	end = h_now() + H_PATIENCE_NS;
	while (board->echoed[1] < 100 && h_now() < end)
		usleep(1000);
	ck_assert_uint_eq(board->echoed[1], 100);
	kill(child[0], SIGCONT);
	board->go = 1;
	wait_exit(0);
	wait_exit(1);
	h_close(&me);
}
END_TEST

/*
 * By the clock that the port is told: the real one may go faster where something else has
 * the processor.
 */
START_TEST(the_port_goes_to_a_survivor_in_a_fifth_of_a_second)
{
	struct h_node me;
	uint64_t killed, now;

	start(0, IP, receive_only);
	wait_open(1);
	h_open(&me, IP);
	ck_assert(
	    net_port_has_roce_port(me.port, &me.ip)); /* by the table: child 0 has it */
	kill(child[0], SIGKILL);
	waitpid(child[0], NULL, 0);
	child[0] = 0;
	killed = h_now();
	for (now = killed; net_port_tick(me.port, now) != UINT64_MAX; now += 1000000) {
		ck_assert(now < killed + 200000000ull);
		usleep(1000);
	}
	ck_assert(net_port_has_roce_port(me.port, &me.ip));
	h_close(&me);
}
END_TEST

START_TEST(packets_for_the_dead_go_nowhere)
{
	struct h_node me;

	h_open(&me, IP);
	start(0, IP, receive_only);
	wait_open(1);
	h_send(&me, &me.ip, board->base[0], 1, 64);
	net_tx_flush(me.port);
	while (!board->echoed[0])
		usleep(1000);
	kill(child[0], SIGKILL);
	waitpid(child[0], NULL, 0);
	child[0] = 0;
	usleep(150000); /* longer than liveness is believed */
	net_port_poll(me.port, 1);
	h_send(&me, &me.ip, board->base[0], 2, 64);
	net_tx_flush(me.port);
	h_until(&me, h_stats(&me).rx_no_owner);
	/* it went to the switch, which is this process, and had no owner */
	ck_assert_uint_eq(h_stats(&me).rx_no_owner, 1);
	h_close(&me);
}
END_TEST

/* Does what was sent to the first child after @since lie there? */
static bool lies_unread(struct h_node *me, uint64_t since)
{
	const struct net_path path = {.src = me->ip, .dst = me->ip};

	return net_port_unread(me->port, &path, board->base[0], since);
}

START_TEST(what_lies_at_a_stopped_process_is_known)
{
	struct h_node me;
	uint64_t sent;

	h_open(&me, IP);
	start(0, IP, receive_only);
	wait_open(1);
	h_send(&me, &me.ip, board->base[0], 1, 64);
	net_tx_flush(me.port);
	while (!board->echoed[0])
		usleep(1000);
	ck_assert(!lies_unread(&me, h_now() + 1000000000));
	usleep(300000); /* it polls, and finds nothing */
	kill(child[0], SIGSTOP);
	waitpid(child[0], NULL, WUNTRACED);
	usleep(
	    10000); /* it tells to the millisecond, and by a coarse clock, when it had read all */
	sent = h_now();
	ck_assert(!lies_unread(&me, sent)); /* it does not run, but there is nothing */
	h_send(&me, &me.ip, board->base[0], 2, 64);
	net_tx_flush(me.port);
	ck_assert(lies_unread(&me, sent));
	ck_assert(!lies_unread(&me, sent - 1000000000)); /* it has read all since */
	kill(child[0], SIGCONT);
	h_until(&me, !lies_unread(&me, sent));
	kill(child[0], SIGKILL);
	waitpid(child[0], NULL, 0);
	child[0] = 0;
	usleep(150000); /* longer than liveness is believed */
	ck_assert(!lies_unread(&me, sent));
	h_close(&me);
}
END_TEST

START_TEST(claims_end_with_sigkill)
{
	unsigned int slot;
	struct h_node me;
	int pipefd[2];
	char c;

	h_open(&me, IP);
	ck_assert_int_eq(pipe(pipefd), 0);
	child[0] = fork();
	if (!child[0]) {
		struct h_node n;

		h_open(&n, IP);
		if (net_registry_claim(n.port, 77, true) == 0)
			(void)!write(pipefd[1], "x", 1);
		pause();
		_exit(1);
	}
	ck_assert_int_eq(read(pipefd[0], &c, 1), 1);
	ck_assert_int_eq(net_registry_claim(me.port, 77, true), -EADDRINUSE);
	ck_assert_int_eq(net_registry_find(me.port, 77, &slot), 0);
	kill(child[0], SIGKILL);
	waitpid(child[0], NULL, 0);
	child[0] = 0;
	ck_assert_int_eq(net_registry_claim(me.port, 77, true), 0);
	ck_assert_int_eq(net_registry_find(me.port, 77, &slot), 0);
	ck_assert_uint_eq(slot, me.port->slot);
	h_close(&me);
}
END_TEST

START_TEST(a_forked_child_lets_the_parent_be)
{
	struct h_node me, own;
	int status;

	h_open(&me, IP);
	child[0] = fork();
	if (!child[0]) {
		net_port_abandon(me.port);
		/* and is a process like any other */
		h_open(&own, IP);
		_exit(own.base != me.base ? 0 : 1);
	}
	waitpid(child[0], &status, 0);
	child[0] = 0;
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	usleep(150000);
	h_send(&me, &me.ip, me.base, 1, 64);
	net_tx_flush(me.port);
	h_wait(&me, 1);
	/* others still see that it lives */
	h_open(&own, IP);
	h_send(&own, &me.ip, me.base, 2, 64);
	net_tx_flush(own.port);
	h_wait(&me, 2);
	h_close(&own);
	h_close(&me);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("processes");
	TCase *t = tcase_create("processes");

	tcase_set_timeout(t, TIMEOUT);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, all_processes_talk_to_all, 0, 2);
	tcase_add_test(t, the_switch_is_killed_again_and_again);
	tcase_add_test(t, local_traffic_does_not_need_the_switch);
	tcase_add_test(t, the_port_goes_to_a_survivor_in_a_fifth_of_a_second);
	tcase_add_test(t, packets_for_the_dead_go_nowhere);
	tcase_add_test(t, what_lies_at_a_stopped_process_is_known);
	tcase_add_test(t, claims_end_with_sigkill);
	tcase_add_test(t, a_forked_child_lets_the_parent_be);
	suite_add_tcase(s, t);
	return h_main(s);
}
