/*
 * Description: the reader believes nothing: files that are cut off at any place, random
 * bytes in any place, versions from the future, records that are being written, texts that
 * would command a terminal.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/trace/util.h"

#define SLOTS 64u

/* A segment with records and objects of all kinds; its bytes, to be freed */
static char *make_trace(const char *path, size_t *len)
{
	struct recorder *r = open_recorder(path, SLOTS);
	uint64_t payload[TRACE_PAYLOAD / 8] = {1, 2, 3, 4, 5};
	char *bytes;
	FILE *f;

	for (unsigned int k = 1; k < TRACE_N_KINDS; k++)
		recorder_put(r, k, k, payload);
	for (unsigned int k = 1; k < TRACE_N_OBJECTS; k++) {
		struct trace_object *o = recorder_object(r);

		o->id = k;
		snprintf(o->name, sizeof(o->name), "object %u", k);
		recorder_object_ready(o, k);
	}
	recorder_close(r);
	f = fopen(path, "r");
	ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
	*len = (size_t)ftell(f);
	rewind(f);
	bytes = malloc(*len);
	ck_assert_uint_eq(fread(bytes, 1, *len, f), *len);
	fclose(f);
	return bytes;
}

static void write_trace(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "w");

	ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
	fclose(f);
}

/* Read all of it; how many records there were, -1 if it was refused, with one line */
static int read_all(const char *path)
{
	char why[TRACE_WHY_BYTES] = "";
	struct trace_reader *t;
	struct trace_record rec;
	uint64_t total[TRACE_N_ODP];
	int n = 0;

	if (trace_open(path, why, sizeof(why), &t)) {
		ck_assert_str_ne(why, "");
		ck_assert_ptr_null(strchr(why, '\n'));
		return -1;
	}
	while (trace_next(t, &rec)) {
		ck_assert_ptr_nonnull(trace_kind(rec.kind));
		n++;
	}
	for (size_t i = 0; i < trace_object_count(t); i++) {
		const struct trace_object *o = trace_object(t, i);

		ck_assert_uint_lt(o->kind, TRACE_N_OBJECTS);
		ck_assert_uint_lt(strnlen(o->name, sizeof(o->name)), sizeof(o->name));
	}
	trace_odp_total(t, total);
	trace_close(t);
	return n;
}

START_TEST(a_file_may_be_cut_off_anywhere)
{
	char *path = fresh_path();
	size_t len;
	char *bytes = make_trace(path, &len);
	int last = -1, n;

	ck_assert_int_eq(read_all(path), TRACE_N_KINDS - 1);
	for (size_t cut = 0; cut < len; cut += cut < 16384 ? 211 : 8191) {
		write_trace(path, bytes, cut);
		n = read_all(path);
		ck_assert_int_eq(n < 0, cut < TRACE_HEADER_BYTES);
		ck_assert_int_ge(n, last);
		last = n;
	}
	ck_assert_int_eq(last, TRACE_N_KINDS - 1);
	free(bytes);
	forget_path(path);
}
END_TEST

START_TEST(random_bytes_anywhere_harm_nobody)
{
	char *path = fresh_path();
	unsigned int seed = 1;
	size_t len;
	char *bytes = make_trace(path, &len), *bad = malloc(len);

	for (int i = 0; i < 600; i++) {
		int changes = 1 + rand_r(&seed) % 40;
		/* most of them where they matter: in the header */
		size_t span = i % 4 ? sizeof(struct trace_header) : len;

		memcpy(bad, bytes, len);
		while (changes--)
			bad[8 + (size_t)rand_r(&seed) % (span - 8)] = (char)rand_r(&seed);
		write_trace(path, bad, len);
		read_all(path);
	}
	free(bad);
	free(bytes);
	forget_path(path);
}
END_TEST

START_TEST(random_files_are_refused)
{
	char *path = fresh_path();
	unsigned int seed = 2;
	char bytes[8192];

	for (int i = 0; i < 200; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (char)rand_r(&seed);
		write_trace(path, bytes, sizeof(bytes));
		ck_assert_int_eq(read_all(path), -1);
	}
	forget_path(path);
}
END_TEST

START_TEST(another_version_is_refused_by_name)
{
	char *path = fresh_path();
	char why[TRACE_WHY_BYTES];
	struct trace_reader *t;
	size_t len;
	char *bytes = make_trace(path, &len);

	((struct trace_header *)bytes)->version = _i ? 77 : 1;
	write_trace(path, bytes, len);
	ck_assert_int_eq(trace_open(path, why, sizeof(why), &t), -EPROTONOSUPPORT);
	ck_assert_ptr_nonnull(strstr(why, _i ? "version 77" : "version 1"));
	free(bytes);
	forget_path(path);
}
END_TEST

START_TEST(what_is_no_file_is_not_waited_for)
{
	char *path = fresh_path(), why[TRACE_WHY_BYTES];
	struct trace_reader *t;

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(trace_open(path, why, sizeof(why), &t), -EINVAL);
	ck_assert_str_eq(why, "is no regular file");
	ck_assert_int_eq(trace_open("/dev/zero", why, sizeof(why), &t), -EINVAL);
	ck_assert_str_eq(why, "is no regular file");
	ck_assert_int_eq(trace_open("/tmp", why, sizeof(why), &t), -EINVAL);
	ck_assert_str_eq(why, "is no regular file");
	ck_assert_int_eq(trace_open("/nonexistent", why, sizeof(why), &t), -ENOENT);
	forget_path(path);
}
END_TEST

START_TEST(who_wants_little_reads_little)
{
	char *path = fresh_path();
	struct trace_reader *t;
	struct trace_record rec;
	size_t len;
	char *bytes = make_trace(path, &len);
	int fd = open(path, O_RDONLY);

	ck_assert_int_eq(trace_open_fd(fd, 3, NULL, 0, &t), 0);
	ck_assert_uint_eq(trace_object_count(t), 3);
	trace_last(t, 2);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.kind, TRACE_N_KINDS - 2);
	ck_assert(trace_next(t, &rec));
	ck_assert(!trace_next(t, &rec));
	trace_last(t, 1000);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.kind, 1);
	trace_close(t);
	close(fd);
	free(bytes);
	forget_path(path);
}
END_TEST

START_TEST(a_record_that_is_being_written_is_left_out)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_reader *t;
	struct trace_record rec;

	for (uint32_t i = 0; i < 5; i++)
		put_poll(r, i, i);
	r->ring->slot[2].seq = 2 * 2 + 1;
	t = open_file(path);
	while (trace_next(t, &rec))
		ck_assert_uint_ne(rec.number, 2);
	ck_assert_uint_eq(trace_unreadable(t), 1);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

/* One took the number and has not begun: what is in its slot is a lap older. */
START_TEST(a_record_that_was_not_begun_is_left_out)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_reader *t;
	struct trace_record rec;
	uint64_t n = 0;

	for (uint32_t i = 0; i < 16; i++)
		put_poll(r, i, i);
	r->hdr->next++;
	t = open_file(path);
	for (; trace_next(t, &rec); n++)
		ck_assert_uint_eq(rec.number, n + 1);
	ck_assert_uint_eq(n, 15);
	ck_assert_uint_eq(trace_unreadable(t), 1);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

/* The slot that is written to when the ring has been read once */
static struct trace_slot *rewritten;

/* In the place of libc's */
ssize_t pread(int fd, void *buf, size_t len, off_t at)
{
	ssize_t n = syscall(SYS_pread64, fd, buf, len, at);

	if (rewritten && at >= TRACE_HEADER_BYTES) {
		rewritten->seq += 2 * 16;
		rewritten = NULL;
	}
	return n;
}

START_TEST(a_record_that_is_overwritten_meanwhile_is_left_out)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_reader *t;
	struct trace_record rec;

	for (uint32_t i = 0; i < 5; i++)
		put_poll(r, i, i);
	t = open_file(path);
	rewritten = &r->ring->slot[2];
	while (trace_next(t, &rec))
		ck_assert_uint_ne(rec.number, 2);
	ck_assert_ptr_null(rewritten);
	ck_assert_uint_eq(trace_unreadable(t), 1);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

/* The header may say anything, and next what it did not say before. */
START_TEST(numbers_that_go_back_end)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_reader *t;
	struct trace_record rec;

	for (uint32_t i = 0; i < 10; i++)
		put_poll(r, i, i);
	t = open_file(path);
	while (trace_next(t, &rec))
		;
	r->hdr->next = 5;
	ck_assert_int_eq(trace_reload(t), 0);
	ck_assert(!trace_next(t, &rec));
	r->hdr->ring_first = 1000;
	ck_assert_int_eq(trace_reload(t), 0);
	trace_rewind(t);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.number, 0);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

static void refuse_damage(const char *path, const struct trace_header *h, size_t len)
{
	char why[TRACE_WHY_BYTES];
	struct trace_reader *t;

	write_trace(path, h, len);
	ck_assert_int_eq(trace_open(path, why, sizeof(why), &t), -EINVAL);
	ck_assert_str_eq(why, "is a damaged trace");
}

START_TEST(a_damaged_header_is_refused)
{
	static const uint64_t slots[] = {0,	    3, 63, 65, 2ull * TRACE_MAX_SLOTS,
					 1ull << 63};
	static const uint64_t rings[] = {0, TRACE_HEADER_BYTES - 1, (1ull << 40) + 1,
					 UINT64_MAX};
	char *path = fresh_path();
	struct trace_header *h, good;
	size_t len;
	char *bytes = make_trace(path, &len);

	h = (struct trace_header *)bytes;
	memcpy(&good, h, sizeof(good));
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		h->slots = slots[i];
		refuse_damage(path, h, len);
	}
	h->slots = good.slots;
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		h->ring_offset = rings[i];
		refuse_damage(path, h, len);
	}
	h->ring_offset = good.ring_offset;
	h->slot_bytes++;
	refuse_damage(path, h, len);
	h->slot_bytes = good.slot_bytes;
	h->object_bytes++;
	refuse_damage(path, h, len);
	h->object_bytes = good.object_bytes;
	h->header_bytes++;
	refuse_damage(path, h, len);
	h->header_bytes = good.header_bytes;
	h->version = 0;
	refuse_damage(path, h, len);
	/* a block of another size than its place has is none, nor is what follows */
	h->version = good.version;
	h->block[0].count = 5;
	write_trace(path, bytes, len);
	ck_assert_int_eq(read_all(path), TRACE_N_KINDS - 1);
	{
		struct trace_reader *t = open_file(path);

		ck_assert_uint_eq(trace_object_count(t), 0);
		trace_close(t);
	}
	free(bytes);
	forget_path(path);
}
END_TEST

/* An object whose bytes are all @c */
static void fill_object(struct recorder *r, enum trace_object_kind kind, int c)
{
	struct trace_object *o = recorder_object(r);
	uint64_t serial = o->serial;

	memset(o, c, sizeof(*o));
	o->serial = serial;
	recorder_object_ready(o, kind);
}

static void expect_clean(const char *s, size_t size)
{
	ck_assert_uint_eq(strspn(s, "?"), size - 1);
}

START_TEST(texts_of_all_objects_are_printable)
{
	static const int bytes[] = {'\033', 0x7f, 0x9b};
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	const struct trace_object *o;
	struct trace_reader *t;

	fill_object(r, TRACE_OBJ_DEVICE, bytes[_i]);
	fill_object(r, TRACE_OBJ_CM_ID, bytes[_i]);
	fill_object(r, TRACE_OBJ_MODULE, bytes[_i]);
	fill_object(r, TRACE_OBJ_STACK, bytes[_i]);
	fill_object(r, TRACE_OBJ_NOTE, bytes[_i]);
	memset(r->hdr->host, bytes[_i], sizeof(r->hdr->host));
	memset(r->hdr->rank, bytes[_i], sizeof(r->hdr->rank));
	memset(r->hdr->elsewhere, 'a', sizeof(r->hdr->elsewhere));
	memset(r->hdr->keep, 'a', sizeof(r->hdr->keep));
	t = open_file(path);
	ck_assert_uint_eq(trace_object_count(t), 5);
	o = trace_object(t, 0);
	expect_clean(o->name, sizeof(o->name));
	expect_clean(o->dev.ifname, sizeof(o->dev.ifname));
	expect_clean(trace_object(t, 1)->cm.state, sizeof(o->cm.state));
	expect_clean(trace_object(t, 2)->module.path, sizeof(o->module.path));
	ck_assert_uint_eq(trace_object(t, 3)->stack.n, TRACE_FRAMES);
	expect_clean(trace_object(t, 4)->note.text, sizeof(o->note.text));
	expect_clean(trace_info(t)->host, sizeof(r->hdr->host));
	expect_clean(trace_info(t)->rank, sizeof(r->hdr->rank));
	ck_assert_uint_eq(strlen(trace_info(t)->elsewhere),
			  sizeof(r->hdr->elsewhere) - 1);
	ck_assert_uint_eq(strlen(trace_info(t)->keep), sizeof(r->hdr->keep) - 1);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(stacks_have_the_frames_that_there_is_room_for)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_reader *t;

	for (uint32_t n = TRACE_FRAMES; n < TRACE_FRAMES + 3; n++) {
		struct trace_object *o = recorder_object(r);

		o->stack.n = n;
		recorder_object_ready(o, TRACE_OBJ_STACK);
	}
	t = open_file(path);
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(trace_object(t, i)->stack.n, TRACE_FRAMES);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

/* A number may be used again: it is found as the newest has it, and what is gone counts once. */
START_TEST(the_newest_of_a_number_is_found)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	uint64_t total[TRACE_N_ODP];
	struct trace_object *o;
	struct trace_reader *t;

	for (uint64_t i = 1; i < 4; i++) {
		o = recorder_object(r);
		o->id = 7;
		o->gone = i < 3;
		o->mr.counter[0] = i;
		recorder_object_ready(o, TRACE_OBJ_MR);
	}
	r->hdr->gone[0] = 1 + 2;
	t = open_file(path);
	ck_assert_uint_eq(trace_find(t, TRACE_OBJ_MR, 7)->mr.counter[0], 3);
	trace_odp_total(t, total);
	ck_assert_uint_eq(total[0], 6);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(fields_with_a_sign_have_one)
{
	struct trace_record rec = {.kind = 0};
	unsigned int with_sign = 0;

	memset(rec.u.bytes, 0xff, sizeof(rec.u.bytes));
	for (unsigned int k = 1; k < TRACE_N_KINDS; k++) {
		const struct trace_kind_desc *d = trace_kind(k);

		for (unsigned int i = 0; i < d->n_fields; i++) {
			const struct trace_field_desc *f = &d->field[i];

			with_sign += f->is_signed;
			if (f->size > 8)
				ck_assert_uint_eq(trace_field(&rec, f), 0);
			else if (f->is_signed || f->size == 8)
				ck_assert_uint_eq(trace_field(&rec, f), UINT64_MAX);
			else
				ck_assert_uint_eq(trace_field(&rec, f),
						  (1ull << 8 * f->size) - 1);
		}
	}
	ck_assert_uint_gt(with_sign, 0);
}
END_TEST

START_TEST(texts_are_printable)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_object *o = recorder_object(r);
	struct trace_reader *t;

	memset(o->name, 0x9b, sizeof(o->name));
	memcpy(o->name, "\033[2J\n", 5);
	memset(o->mr.map, 'R', sizeof(o->mr.map));
	o->mr.map[3] = '\033';
	recorder_object_ready(o, TRACE_OBJ_MR);
	memset(r->hdr->program, '\033', sizeof(r->hdr->program));
	t = open_file(path);
	ck_assert_str_eq(trace_object(t, 0)->name, "?[2J???????????????????????????");
	ck_assert_int_eq(trace_object(t, 0)->mr.map[3], 0);
	ck_assert_int_eq(trace_info(t)->program[0], '?');
	ck_assert_uint_eq(strlen(trace_info(t)->program), 63);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(reading_goes_on_where_it_was)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_reader *t;
	struct trace_record rec;
	uint32_t n = 0;

	put_poll(r, 0, 0);
	t = open_file(path);
	for (uint32_t i = 1; i < 40; i++) {
		while (trace_next(t, &rec))
			ck_assert_uint_eq(rec.u.poll.count, n++);
		put_poll(r, i, i);
		ck_assert_int_eq(trace_reload(t), 0);
	}
	for (uint32_t i = 40; i < 100; i++)
		put_poll(r, i, i);
	ck_assert_int_eq(trace_reload(t), 0);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.u.poll.count, 84);
	ck_assert_uint_eq(trace_unreadable(t), 84 - n);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("reader");
	TCase *tc = tcase_create("reader");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_file_may_be_cut_off_anywhere);
	tcase_add_test(tc, random_bytes_anywhere_harm_nobody);
	tcase_add_test(tc, random_files_are_refused);
	tcase_add_loop_test(tc, another_version_is_refused_by_name, 0, 2);
	tcase_add_test(tc, what_is_no_file_is_not_waited_for);
	tcase_add_test(tc, who_wants_little_reads_little);
	tcase_add_test(tc, a_record_that_is_being_written_is_left_out);
	tcase_add_test(tc, a_record_that_was_not_begun_is_left_out);
	tcase_add_test(tc, a_record_that_is_overwritten_meanwhile_is_left_out);
	tcase_add_test(tc, numbers_that_go_back_end);
	tcase_add_test(tc, a_damaged_header_is_refused);
	tcase_add_loop_test(tc, texts_of_all_objects_are_printable, 0, 3);
	tcase_add_test(tc, stacks_have_the_frames_that_there_is_room_for);
	tcase_add_test(tc, the_newest_of_a_number_is_found);
	tcase_add_test(tc, fields_with_a_sign_have_one);
	tcase_add_test(tc, texts_are_printable);
	tcase_add_test(tc, reading_goes_on_where_it_was);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return check_main(suite());
}
