/*
 * Description: the ring of a lane, both ends in one process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/lane.h"
#include "tests/check_main.h"

#define NONCE 0x1122334455667788ull

static struct lane *out, *in;
static uint8_t *ring; /* what another process could do to it */

static void setup(void)
{
	int fd;

	ck_assert_int_eq(lane_create(NONCE, &out, &fd), 0);
	ck_assert(!lane_attached(out));
	ck_assert_int_eq(lane_attach(getpid(), fd, NONCE, &in), 0);
	ck_assert(lane_attached(out));
	ring = mmap(NULL, 4096 + LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(ring, MAP_FAILED);
	close(fd);
}

static void teardown(void)
{
	lane_close(out);
	if (in)
		lane_close(in);
	munmap(ring, 4096 + LANE_BYTES);
}

static bool put(uint32_t number, uint32_t len)
{
	uint8_t *p = lane_reserve(out, len);

	if (!p)
		return false;
	memset(p, (int)number, len);
	memcpy(p, &number, 4);
	lane_commit(out, len, (uint8_t)number, 64, number & 0xfffff);
	return true;
}

static void expect(uint32_t number, uint32_t len)
{
	struct lane_packet p;
	uint8_t pattern[LANE_PACKET_MAX];
	uint32_t got;

	ck_assert_int_eq(lane_next(in, &p), 1);
	ck_assert_uint_eq(p.len, len);
	ck_assert_uint_eq(p.tclass, number & 0xff);
	ck_assert_uint_eq(p.flow, number & 0xfffff);
	memcpy(&got, p.data, 4);
	ck_assert_uint_eq(got, number);
	memset(pattern, (int)number, len);
	ck_assert_mem_eq(p.data + 4, pattern + 4, len - 4);
}

static void expect_none(void)
{
	struct lane_packet p;

	ck_assert_int_eq(lane_next(in, &p), 0);
	ck_assert(!lane_has(in));
}

START_TEST(packets_of_all_sizes_pass_in_order_many_times_around)
{
	uint32_t i, len, next = 0;

	for (i = 0; i < 6000; i++) {
		len = 4 + i * 37 % (LANE_PACKET_MAX - 3);
		ck_assert(put(i, len));
		lane_publish(out);
		if (i % 7 == 6) {
			for (; next <= i; next++)
				expect(next, 4 + next * 37 % (LANE_PACKET_MAX - 3));
			lane_consumed(in);
		}
	}
}
END_TEST

START_TEST(what_is_not_published_is_not_seen)
{
	ck_assert(put(1, 100));
	ck_assert_uint_ge(lane_pending(out), 100);
	expect_none();
	lane_publish(out);
	ck_assert_uint_eq(lane_pending(out), 0);
	expect(1, 100);
	expect_none();
}
END_TEST

START_TEST(what_is_not_committed_is_forgotten)
{
	ck_assert_ptr_nonnull(lane_reserve(out, 4000));
	ck_assert(put(2, 50));
	lane_publish(out);
	expect(2, 50);
	expect_none();
}
END_TEST

START_TEST(a_full_ring_takes_no_more_until_it_is_read)
{
	uint32_t n = 0, i;

	while (put(n, 4096))
		n++;
	ck_assert_uint_ge(n, LANE_BYTES / 4096 / 2);
	ck_assert_uint_lt(n, LANE_BYTES / 4096);
	lane_publish(out);
	for (i = 0; i < n; i++)
		expect(i, 4096);
	ck_assert(!put(n, 4096));
	lane_consumed(in);
	ck_assert_uint_gt(lane_progress(out), n * 4096ull);
	ck_assert(put(n, 4096));
	lane_publish(out);
	expect(n, 4096);
	expect_none();
}
END_TEST

/* Fill the ring up to @at bytes from its start with records, and read them */
static void go_to(uint32_t at)
{
	uint32_t pos = (uint32_t)(lane_progress(out) & (LANE_BYTES - 1)), n;

	ck_assert_uint_le(pos, at);
	for (; pos != at; pos += n) {
		n = at - pos > 4096 ? 4096 : at - pos;
		/* of two packets the second is under way: the ring does not begin anew */
		ck_assert(put(1, n - 8));
		lane_publish(out);
		expect(1, n - 8);
		if (pos + n < at)
			continue;
		ck_assert(put(2, 8));
		lane_publish(out);
		lane_consumed(in);
		expect(2, 8);
	}
}

/*
 * A record that ends a line before the end of the ring, at it, and one that would end a line
 * behind it. What follows comes from the start of the ring.
 */
START_TEST(records_at_the_end_of_the_ring_are_whole)
{
	uint32_t left = 1024, len = left + ((uint32_t)_i - 1) * 64 - 8, i;

	go_to(LANE_BYTES - left - 64);
	for (i = 0; i < 3; i++) {
		ck_assert(put(10 + i, i ? 500 : len));
		lane_publish(out);
	}
	for (i = 0; i < 3; i++)
		expect(10 + i, i ? 500 : len);
	expect_none();
	lane_consumed(in);
	ck_assert(put(20, 64));
	lane_publish(out);
	expect(20, 64);
}
END_TEST

/* The last line of the ring has room for one small packet, and it is used */
START_TEST(the_last_line_of_the_ring_is_used)
{
	uint8_t *at;

	go_to(LANE_BYTES - 128);
	at = lane_reserve(out, 56);
	ck_assert_ptr_nonnull(at);
	memset(at, 3, 56);
	memcpy(at, &(uint32_t){3}, 4);
	lane_commit(out, 56, 3, 64, 3);
	lane_publish(out);
	ck_assert_uint_eq(lane_progress(out) % LANE_BYTES, LANE_BYTES - 128);
	expect(3, 56);
	lane_consumed(in);
	ck_assert_uint_eq(lane_progress(out) % LANE_BYTES, 0);
	ck_assert(put(4, 56));
	lane_publish(out);
	expect(4, 56);
}
END_TEST

/* A ring without a byte left takes nothing, nor a skip; with one line read it takes a line */
START_TEST(a_ring_that_is_full_to_the_line_takes_a_line_when_one_is_read)
{
	uint32_t n = 0, k;

	while (put(n, 4096 - 8))
		n++;
	ck_assert_uint_eq(n, LANE_BYTES / 4096);
	lane_publish(out);
	ck_assert(!put(n, 8));
	expect(0, 4096 - 8);
	ck_assert(!put(n, 8)); /* it is read when the consumer says so */
	lane_consumed(in);
	ck_assert(!put(n, 4096));
	ck_assert(put(n, 4096 - 8));
	ck_assert(!put(n, 8));
	lane_publish(out);
	for (k = 1; k <= n; k++)
		expect(k, 4096 - 8);
	expect_none();
}
END_TEST

/* A consumer that takes one packet at a time, while more than the ring has passes */
START_TEST(one_packet_a_poll_passes_more_than_the_ring_holds)
{
	uint32_t sent = 0, got = 0, len = 1000 + (uint32_t)_i * 1031;

	while (got * (uint64_t)len < 3 * LANE_BYTES) {
		while (put(sent, len)) {
			lane_publish(out);
			sent++;
		}
		expect(got++, len);
		lane_consumed(in);
	}
	ck_assert_uint_gt(sent, got);
	for (; got < sent; got++)
		expect(got, len);
	expect_none();
}
END_TEST

/* A record that goes to the start of the ring needs room for the end that is left out, too */
START_TEST(a_record_that_wraps_does_not_run_over_what_is_unread)
{
	uint32_t n = 0, pos;

	ck_assert(put(n++, 8));
	for (pos = 64; pos < LANE_BYTES - 128; pos += 4096)
		ck_assert(put(
		    n++,
		    (pos + 4096 > LANE_BYTES - 128 ? LANE_BYTES - 128 - pos : 4096) - 8));
	lane_publish(out);
	expect(0, 8);
	lane_consumed(in);
	/* free are 128 bytes at the end and 64 at the start, not 192 in a row */
	ck_assert(!put(n, 192 - 8));
	ck_assert(put(n, 128 - 8));
	lane_publish(out);
	for (uint32_t i = 1; i <= n; i++) {
		struct lane_packet p;
		uint32_t got;

		ck_assert_int_eq(lane_next(in, &p), 1);
		memcpy(&got, p.data, 4);
		ck_assert_uint_eq(got, i);
	}
	expect_none();
}
END_TEST

/* A head that is a ring ahead would give again what was read before; one in a record, half */
START_TEST(a_head_more_than_a_ring_ahead_is_noticed)
{
	const uint64_t head = _i ? 128 + 16 : 2ull * LANE_BYTES;
	struct lane_packet p;

	ck_assert(put(1, 64));
	lane_publish(out);
	if (!_i) {
		expect(1, 64);
		lane_consumed(in);
	}
	memcpy(ring + 64, &head, 8);
	ck_assert_int_lt(lane_next(in, &p), 0);
}
END_TEST

/* Right in name and contents, but it could shrink under us, or is too long */
START_TEST(a_lane_without_seals_or_of_another_size_is_not_attached)
{
	uint32_t zero = 0;
	struct lane *l;
	int fd;

	/* and somebody else's, where this user may make one */
	if (_i == 3 && (geteuid() || seteuid(65534)))
		return;
	fd = memfd_create("urxe-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (_i == 3)
		ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(ftruncate(fd, 4096 + LANE_BYTES + (_i == 1 ? 4096 : 0)), 0);
	ck_assert_int_eq(pwrite(fd, ring, 4096, 0), 4096);
	ck_assert_int_eq(pwrite(fd, &zero, 4, 128 + 8), 4); /* not attached yet */
	if (_i)
		ck_assert_int_eq(
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	if (_i == 2) { /* as it should be */
		ck_assert_int_eq(lane_attach(getpid(), fd, NONCE, &l), 0);
		lane_close(l);
	} else {
		ck_assert_int_lt(lane_attach(getpid(), fd, NONCE, &l), 0);
	}
	close(fd);
}
END_TEST

START_TEST(a_packet_that_is_too_large_is_refused)
{
	ck_assert_ptr_null(lane_reserve(out, LANE_PACKET_MAX + 1));
	ck_assert_ptr_null(lane_reserve(out, UINT32_MAX));
	ck_assert_ptr_nonnull(lane_reserve(out, LANE_PACKET_MAX));
}
END_TEST

START_TEST(a_conversation_of_small_messages_uses_little_memory)
{
	unsigned char resident[1 + LANE_BYTES / 4096];
	unsigned int i, pages = 0;

	for (i = 0; i < 100000; i++) {
		ck_assert(put(i, 64));
		lane_publish(out);
		expect(i, 64);
		lane_consumed(in);
	}
	ck_assert_int_eq(mincore(ring, 4096 + LANE_BYTES, resident), 0);
	for (i = 0; i < sizeof(resident); i++)
		pages += resident[i] & 1;
	ck_assert_uint_le(pages, 20);
}
END_TEST

START_TEST(who_sleeps_is_woken_once)
{
	ck_assert(put(1, 64));
	ck_assert(!lane_publish(out));
	ck_assert(!lane_arm(in)); /* there is something: no sleep */
	expect(1, 64);
	ck_assert(lane_arm(in));
	ck_assert(!lane_publish(out)); /* nothing new */
	ck_assert(put(2, 64));
	ck_assert(lane_publish(out));
	ck_assert(put(3, 64));
	ck_assert(!lane_publish(out));
	expect(2, 64);
	expect(3, 64);
}
END_TEST

START_TEST(nonsense_from_the_producer_is_noticed)
{
	/* 0 at the start would skip the ring, as often as the producer likes */
	static const uint16_t lens[] = {LANE_PACKET_MAX + 1, 0x7fff, UINT16_MAX, 5000, 0};
	const uint64_t head = LANE_BYTES;
	struct lane_packet p;
	uint16_t len = lens[_i];

	ck_assert(put(1, 64));
	lane_publish(out);
	memcpy(ring + 4096, &len, sizeof(len));
	if (!len)
		memcpy(ring + 64, &head, 8);
	ck_assert_int_lt(lane_next(in, &p), 0);
}
END_TEST

START_TEST(indexes_out_of_bounds_are_noticed)
{
	static const uint64_t heads[] = {LANE_BYTES + 64, UINT64_MAX & ~63ull, 17,
					 1ull << 40};
	struct lane_packet p;

	/* struct shared: the head has the second cache line */
	memcpy(ring + 64, &heads[_i], 8);
	ck_assert_int_lt(lane_next(in, &p), 0);
}
END_TEST

START_TEST(a_consumer_that_claims_to_have_read_the_future_gets_nothing_for_it)
{
	uint64_t tail = 1ull << 40;
	uint32_t n;

	memcpy(ring + 128, &tail, 8);
	for (n = 0; n < 2 * LANE_BYTES / 4096 && put(n, 4096); n++)
		lane_publish(out);
	ck_assert_uint_lt(n, LANE_BYTES / 4096);
}
END_TEST

START_TEST(random_damage_does_no_harm)
{
	struct lane_packet p;
	unsigned int i, k;
	int ret;

	srand((unsigned int)_i);
	for (i = 0; i < 200; i++) {
		for (k = 0; k < 20; k++)
			put(k, 4 + (uint32_t)rand() % 4096);
		lane_publish(out);
		for (k = 0; k < 8; k++)
			ring[4096 + rand() % LANE_BYTES] = (uint8_t)rand();
		while ((ret = lane_next(in, &p)) > 0) {
			ck_assert_ptr_nonnull(p.data);
			ck_assert_uint_le(p.len, LANE_PACKET_MAX);
			p.data[p.len - 1] ^= 1; /* inside of the mapping */
		}
		if (ret < 0)
			return;
		lane_consumed(in);
	}
}
END_TEST

START_TEST(what_is_no_lane_is_not_attached)
{
	struct lane *l, *other;
	int fd, plain;

	ck_assert_int_eq(lane_create(NONCE + 1, &other, &fd), 0);
	ck_assert_int_lt(lane_attach(getpid(), fd, NONCE, &l), 0);
	ck_assert_int_lt(lane_attach(getpid(), 0x7ffffff0, NONCE, &l), 0);
	ck_assert_int_lt(lane_attach(getpid(), -1, NONCE, &l), 0);
	ck_assert_int_lt(lane_attach(0x7fffff00, fd, NONCE + 1, &l), 0);
	/* the right size, but it could shrink under us */
	plain = memfd_create("plain", 0);
	ck_assert_int_eq(ftruncate(plain, 4096 + LANE_BYTES), 0);
	ck_assert_int_lt(lane_attach(getpid(), plain, NONCE, &l), 0);
	close(plain);
	plain = open("/dev/null", O_RDWR);
	ck_assert_int_lt(lane_attach(getpid(), plain, NONCE, &l), 0);
	close(plain);
	ck_assert_int_eq(lane_attach(getpid(), fd, NONCE + 1, &l), 0);
	/* one consumer is enough */
	lane_close(l);
	ck_assert_int_lt(lane_attach(getpid(), fd, NONCE + 1, &l), 0);
	close(fd);
	lane_close(other);
}
END_TEST

START_TEST(what_is_no_lane_is_not_even_opened)
{
	char name[] = "/tmp/urxe-test-XXXXXX", event[512];
	int fd = mkstemp(name), watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct lane *l;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 4096 + LANE_BYTES), 0);
	ck_assert_int_ge(inotify_add_watch(watch, name, IN_OPEN), 0);
	ck_assert_int_lt(lane_attach(getpid(), fd, NONCE, &l), 0);
	ck_assert_int_lt(read(watch, event, sizeof(event)), 0);
	unlink(name);
	close(watch);
	close(fd);
}
END_TEST

START_TEST(the_file_cannot_shrink)
{
	struct lane *l;
	int fd;

	ck_assert_int_eq(lane_create(NONCE, &l, &fd), 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_lt(ftruncate(fd, 1 << 30), 0);
	close(fd);
	lane_close(l);
}
END_TEST

/* And it is not killed by SIGXFSZ. */
START_TEST(a_program_that_may_not_write_such_files_gets_no_lane)
{
	struct rlimit small = {4096, RLIM_INFINITY}, before;
	struct lane *l;
	int fd;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_eq(lane_create(NONCE, &l, &fd), -EFBIG);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lane");
	TCase *t = tcase_create("lane");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, packets_of_all_sizes_pass_in_order_many_times_around);
	tcase_add_test(t, what_is_not_published_is_not_seen);
	tcase_add_test(t, what_is_not_committed_is_forgotten);
	tcase_add_test(t, a_full_ring_takes_no_more_until_it_is_read);
	tcase_add_loop_test(t, records_at_the_end_of_the_ring_are_whole, 0, 4);
	tcase_add_test(t, the_last_line_of_the_ring_is_used);
	tcase_add_test(t, a_ring_that_is_full_to_the_line_takes_a_line_when_one_is_read);
	tcase_add_loop_test(t, one_packet_a_poll_passes_more_than_the_ring_holds, 0, 4);
	tcase_add_test(t, a_record_that_wraps_does_not_run_over_what_is_unread);
	tcase_add_loop_test(t, a_head_more_than_a_ring_ahead_is_noticed, 0, 2);
	tcase_add_loop_test(t, a_lane_without_seals_or_of_another_size_is_not_attached, 0,
			    4);
	tcase_add_test(t, a_packet_that_is_too_large_is_refused);
	tcase_add_test(t, a_conversation_of_small_messages_uses_little_memory);
	tcase_add_test(t, who_sleeps_is_woken_once);
	tcase_add_loop_test(t, nonsense_from_the_producer_is_noticed, 0, 5);
	tcase_add_loop_test(t, indexes_out_of_bounds_are_noticed, 0, 4);
	tcase_add_test(
	    t, a_consumer_that_claims_to_have_read_the_future_gets_nothing_for_it);
	tcase_add_loop_test(t, random_damage_does_no_harm, 1, 50);
	tcase_add_test(t, what_is_no_lane_is_not_attached);
	tcase_add_test(t, what_is_no_lane_is_not_even_opened);
	tcase_add_test(t, the_file_cannot_shrink);
	tcase_add_test(t, a_program_that_may_not_write_such_files_gets_no_lane);
	suite_add_tcase(s, t);
	return check_main(s);
}
