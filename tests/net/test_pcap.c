/*
 * Description: what a port captures is decoded by tshark, without settings, as RoCEv2,
 * with right checksums of all layers; both directions, both IP versions, several writers.
 * Skipped where there is no tshark, but for the part that needs none.
 */
#include "tests/net/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "net/pcap.h"

static char file[128], out[128];

static void setup(void)
{
	snprintf(file, sizeof(file), "%s/x.pcap", h_shm());
	snprintf(out, sizeof(out), "%s/out", h_shm());
}

static void teardown(void)
{
	h_shm_remove();
}

static bool have_tshark(void)
{
	return system("command -v tshark >/dev/null 2>&1") == 0;
}

/* Lines of what tshark prints for a filter and fields */
static int tshark_lines(const char *args, char *first, size_t size)
{
	char cmd[600], line[200];
	FILE *f;
	int n = 0;

	snprintf(cmd, sizeof(cmd),
		 "tshark -n -r %s -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE "
		 "%s 2>/dev/null",
		 file, args);
	f = popen(cmd, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (!n && first)
			memcpy(first, line, size < sizeof(line) ? size : sizeof(line));
		n++;
	}
	ck_assert_int_eq(pclose(f), 0);
	return n;
}

static void traffic(struct h_node *a, struct h_node *b)
{
	uint32_t i;

	for (i = 0; i < 40; i++)
		h_send(a, &b->ip, b->base + 7, i, i < 20 ? 64 : 4096);
	h_send(a, &b->ip, b->base + 7, 40, 5);
	net_tx_flush(a->port);
	h_wait(b, 41);
	h_send(b, &a->ip, a->base + 9, 41, 64);
	net_tx_flush(b->port);
	h_wait(a, 1);
}

START_TEST(tshark_decodes_every_packet)
{
	struct net_port_cfg cfg = {.pcap = file};
	const char *ip = _i ? "::1" : h_lo(1);
	struct h_node a, b;
	char line[200], want[200];

	h_open_cfg(&a, ip, "lo", &cfg);
	h_open(&b, ip);
	traffic(&a, &b);
	h_close(&a);
	h_close(&b);
	if (!have_tshark())
		return;
	ck_assert_int_eq(tshark_lines("", NULL, 0), 42);
	ck_assert_int_eq(tshark_lines("-Y infiniband.bth", NULL, 0), 42);
	ck_assert_int_eq(tshark_lines("-Y _ws.malformed", NULL, 0), 0);
	ck_assert_int_eq(tshark_lines("-Y 'udp.checksum.status == 1'", NULL, 0), 42);
	if (!_i)
		ck_assert_int_eq(tshark_lines("-Y 'ip.checksum.status == 1'", NULL, 0),
				 42);
	ck_assert_int_eq(tshark_lines("-Y 'udp.dstport == 4791'", NULL, 0), 42);
	ck_assert_int_eq(tshark_lines("-Y 'frame.number == 1' -T fields "
				      "-e infiniband.bth.destqp -e infiniband.bth.opcode",
				      line, sizeof(line)),
			 1);
	/* tshark prints opcodes in decimal */
	snprintf(want, sizeof(want), "0x%06x\t100\n", b.base + 7);
	ck_assert_str_eq(line, want);
}
END_TEST

/*
 * Take the file apart without tshark: the ICRC of each frame is right for its
 * identification
 */
START_TEST(icrcs_fit_the_frames)
{
	struct net_port_cfg cfg = {.pcap = file};
	struct h_node a, b;
	uint8_t buf[200000], *p, *end;
	struct net_path path;
	uint32_t len, frames = 0;
	ssize_t n;
	int fd;

	h_open_cfg(&a, h_lo(1), "lo", &cfg);
	h_open_cfg(&b, h_lo(2), "lo", &cfg); /* two writers: everything twice */
	traffic(&a, &b);
	h_close(&a);
	h_close(&b);
	fd = open(file, O_RDONLY);
	n = read(fd, buf, sizeof(buf));
	close(fd);
	ck_assert_int_gt(n, 24);
	for (p = buf + 24, end = buf + n; p < end; p += 16 + len, frames++) {
		memcpy(&len, p + 8, 4);
		ck_assert(p + 16 + len <= end);
		path = (struct net_path){.src = {.b = {[10] = 0xff, [11] = 0xff}}};
		path.dst = path.src;
		memcpy(path.src.b + 12, p + 16 + 26, 4);
		memcpy(path.dst.b + 12, p + 16 + 30, 4);
		path.sport = get_be16(p + 16 + 34);
		ck_assert_uint_eq(
		    icrc_compute(&path, get_be16(p + 16 + 18), p + 16 + 42, len - 42 - 4),
		    icrc_load(p + 16 + len - 4));
	}
	ck_assert_uint_eq(frames, 84);
}
END_TEST

START_TEST(other_files_are_left_alone)
{
	struct net_port_cfg cfg = {.pcap = file};
	struct h_node a;
	struct stat st;
	FILE *f = fopen(file, "w");

	fputs("my diary, in which nobody shall write", f);
	fclose(f);
	ck_assert_int_eq(h_try_open_cfg(&a, &cfg), -EEXIST);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_eq(st.st_size, 37);
	cfg.pcap = "/nonexistent/x";
	ck_assert_int_eq(h_try_open_cfg(&a, &cfg), -ENOENT);
}
END_TEST

/* As tcpdump --time-stamp-precision=nano writes it */
START_TEST(a_capture_of_another_program_is_left_alone)
{
	const uint32_t head[] = {0xa1b23c4d, 4 << 16 | 2, 0, 0, 65535, 1, 7, 7, 60, 60};
	const uint8_t frame[60] = {2, 0, 127, 0, 0, 1, 0x52, 0x54, [12] = 8, [14] = 0x45};
	struct net_port_cfg cfg = {.pcap = file};
	struct h_node a;
	struct stat st;
	FILE *f = fopen(file, "w");

	fwrite(head, sizeof(head), 1, f);
	fwrite(frame, sizeof(frame), 1, f);
	fclose(f);
	ck_assert_int_eq(pcap_renew(file), -EEXIST);
	ck_assert_int_eq(h_try_open_cfg(&a, &cfg), -EEXIST);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_eq(st.st_size, 100);
}
END_TEST

/* One of another kind of link, which has no packet yet */
START_TEST(an_empty_capture_of_another_program_is_left_alone)
{
	const uint32_t head[] = {0xa1b23c4d, 4 << 16 | 2, 0, 0, 65535, 113};
	struct net_port_cfg cfg = {.pcap = file};
	struct h_node a;
	struct stat st;
	FILE *f = fopen(file, "w");

	fwrite(head, sizeof(head), 1, f);
	fclose(f);
	ck_assert_int_eq(pcap_renew(file), -EEXIST);
	ck_assert_int_eq(h_try_open_cfg(&a, &cfg), -EEXIST);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_eq(st.st_size, 24);
}
END_TEST

START_TEST(a_capture_of_an_earlier_run_begins_anew)
{
	struct net_port_cfg cfg = {.pcap = file};
	struct h_node a;
	struct stat st;

	h_open_cfg(&a, _i ? "::1" : h_lo(1), "lo", &cfg);
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	h_close(&a);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_gt(st.st_size, 24);
	ck_assert_int_eq(pcap_renew(file), 0);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
}
END_TEST

/* --- the order of packets of several writers -------------------------------------- */

#define WRITERS 3

/* Packets of @n writers in turn, whose beginning is their number; @upto of each */
static void write_in_turn(struct pcap *pc[WRITERS], uint8_t upto)
{
	struct net_path path = {.src = {.b = {[10] = 0xff, [11] = 0xff, [12] = 127}},
				.dst = {.b = {[10] = 0xff, [11] = 0xff, [12] = 127}}};
	uint8_t data[64] = {0};

	for (uint8_t i = 0; i < upto; i++)
		for (uint8_t w = 0; w < WRITERS; w++) {
			data[0] = (uint8_t)(i * WRITERS + w);
			pcap_packet(pc[w], &path, 0, data, sizeof(data) - w);
		}
}

/* The numbers of the packets of the file, in its order; how many */
static unsigned int numbers(uint8_t number[256])
{
	uint32_t rec[4], header[6];
	uint8_t frame[200];
	FILE *f = fopen(file, "r");
	unsigned int n = 0;

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fread(header, sizeof(header), 1, f), 1);
	while (fread(rec, sizeof(rec), 1, f) == 1) {
		ck_assert_uint_eq(fread(frame, rec[2], 1, f), 1);
		number[n++] = frame[14 + 20 + 8];
	}
	fclose(f);
	return n;
}

START_TEST(packets_of_several_writers_are_put_in_order)
{
	struct pcap *pc[WRITERS];
	uint8_t number[256];
	struct stat before, after;

	for (int w = 0; w < WRITERS; w++)
		ck_assert_int_eq(pcap_open(file, &pc[w]), 0);
	ck_assert_int_eq(chmod(file, 0604), 0);
	write_in_turn(pc, 20);
	pcap_close(pc[2]);
	pcap_close(pc[0]);
	/* not while one may write */
	ck_assert_int_eq(pcap_sort(file), 0);
	ck_assert_uint_eq(numbers(number), 40);
	ck_assert_uint_eq(number[0], 2);
	pcap_close(pc[1]);
	ck_assert_int_eq(pcap_sort(file), 0);
	ck_assert_uint_eq(numbers(number), 60);
	for (unsigned int i = 0; i < 60; i++)
		ck_assert_uint_eq(number[i], i);
	ck_assert_int_eq(stat(file, &before), 0);
	ck_assert_uint_eq(before.st_mode & 0777, 0604);
	/* one that is in order is left alone, and goes on to be one */
	ck_assert_int_eq(pcap_sort(file), 0);
	ck_assert_int_eq(stat(file, &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	ck_assert_int_eq(pcap_open(file, &pc[0]), 0);
	pcap_close(pc[0]);
}
END_TEST

/* Writes the same time to all packets but the first, which is later */
static void make_times_equal(void)
{
	uint32_t rec[4];
	FILE *f = fopen(file, "r+");
	long at = 24;

	ck_assert_ptr_nonnull(f);
	for (uint32_t first = 1; !fseek(f, at, SEEK_SET) && fread(rec, sizeof(rec), 1, f);
	     first = 0) {
		rec[0] = 1000 + first;
		rec[1] = 0;
		ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
		ck_assert_uint_eq(fwrite(rec, sizeof(rec), 1, f), 1);
		at += (long)(sizeof(rec) + rec[2]);
	}
	fclose(f);
}

START_TEST(packets_of_one_time_stay_as_they_are)
{
	struct pcap *pc[WRITERS];
	uint8_t before[256], after[256];

	for (int w = 0; w < WRITERS; w++)
		ck_assert_int_eq(pcap_open(file, &pc[w]), 0);
	write_in_turn(pc, 20);
	for (int w = 0; w < WRITERS; w++)
		pcap_close(pc[w]);
	make_times_equal();
	ck_assert_uint_eq(numbers(before), 60);
	ck_assert_int_eq(pcap_sort(file), 0);
	ck_assert_uint_eq(numbers(after), 60);
	ck_assert_int_eq(memcmp(after, before + 1, 59), 0);
	ck_assert_uint_eq(after[59], before[0]);
}
END_TEST

START_TEST(a_damaged_capture_keeps_what_it_has)
{
	struct pcap *pc[WRITERS];
	struct stat before, after;

	for (int w = 0; w < WRITERS; w++)
		ck_assert_int_eq(pcap_open(file, &pc[w]), 0);
	write_in_turn(pc, 5);
	for (int w = WRITERS - 1; w >= 0; w--)
		pcap_close(pc[w]);
	ck_assert_int_eq(stat(file, &before), 0);
	ck_assert_int_eq(truncate(file, before.st_size - 1 - _i), 0);
	ck_assert_int_eq(pcap_sort(file), 0);
	ck_assert_int_eq(stat(file, &after), 0);
	ck_assert_int_eq(after.st_size, before.st_size - 1 - _i);
	ck_assert_uint_eq(after.st_ino, before.st_ino);
}
END_TEST

START_TEST(a_capture_lags_by_a_tick_at_most)
{
	struct net_port_cfg cfg = {.pcap = file};
	struct h_node a;
	struct stat st;

	h_open_cfg(&a, h_lo(1), "lo", &cfg);
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	ck_assert_uint_le(net_port_tick(a.port, h_now()), h_now() + 100000000);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_eq(st.st_size, 24 + 16 + 42 + H_HDR + 64 + 4);
	h_close(&a);
}
END_TEST

/*
 * The limit of file sizes ends the capture, not the program. A signal of the program's own, which it
 * holds back itself, is there afterwards.
 */
START_TEST(a_capture_ends_at_the_limit_of_file_sizes)
{
	struct net_path path = {.src = h_ip("127.0.0.1"), .dst = h_ip("127.0.0.1")};
	struct rlimit limit;
	uint8_t data[4096] = {0};
	struct pcap *pc;
	struct stat st;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	if (_i) {
		sigprocmask(SIG_BLOCK, &set, NULL);
		raise(SIGXFSZ);
	}
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 10000;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(pcap_open(file, &pc), 0);
	for (int i = 0; i < 40; i++)
		pcap_packet(pc, &path, 0, data, sizeof(data));
	pcap_flush(pc);
	ck_assert_int_eq(pcap_error(pc), -EFBIG);
	ck_assert_int_eq(pcap_error(pc), 0);
	pcap_packet(pc, &path, 0, data, sizeof(data));
	ck_assert(pcap_flush(pc));
	ck_assert_int_eq(pcap_error(pc), 0);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_le(st.st_size, 10000);
	pcap_close(pc);
	sigpending(&set);
	ck_assert_int_eq(sigismember(&set, SIGXFSZ), _i);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pcap");
	TCase *t = tcase_create("pcap");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, tshark_decodes_every_packet, 0, 2);
	tcase_add_loop_test(t, a_capture_ends_at_the_limit_of_file_sizes, 0, 2);
	tcase_add_test(t, icrcs_fit_the_frames);
	tcase_add_test(t, other_files_are_left_alone);
	tcase_add_test(t, a_capture_of_another_program_is_left_alone);
	tcase_add_test(t, an_empty_capture_of_another_program_is_left_alone);
	tcase_add_loop_test(t, a_capture_of_an_earlier_run_begins_anew, 0, 2);
	tcase_add_test(t, a_capture_lags_by_a_tick_at_most);
	tcase_add_test(t, packets_of_several_writers_are_put_in_order);
	tcase_add_test(t, packets_of_one_time_stay_as_they_are);
	tcase_add_loop_test(t, a_damaged_capture_keeps_what_it_has, 0, 121);
	suite_add_tcase(s, t);
	return h_main(s);
}
