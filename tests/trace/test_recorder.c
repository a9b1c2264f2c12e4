/*
 * Description: the writer: what is recorded is read back, by whom and whenever; the ring
 * overwrites the oldest; threads and signal handlers do not mix records; a child of fork
 * leaves its parent's segment alone; objects find room as long as there is any; what cannot
 * be made is an error and not a signal.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/trace/util.h"

static struct recorder *open_usual(const char *path)
{
	const struct recorder_cfg cfg = {.path = path, .slots = 16};
	struct recorder *r;

	ck_assert_int_eq(recorder_open(&cfg, &r), 0);
	return r;
}

START_TEST(what_is_recorded_is_read_back)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 64);
	struct trace_reader *t;
	struct trace_record rec;

	TRACE(r, 1000, qp_state, .qpn = 0x1234, .from = 2, .to = 3,
	      .cause = TRACE_CAUSE_MODIFY);
	TRACE(r, 2000, packet_out, .qpn = 0x1234, .peer = 0x99, .psn = 0xffffff,
	      .opcode = 4, .length = 4096, .va = 0x7fff12345678, .dma_length = 77);
	t = open_file(path);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.number, 0);
	ck_assert_uint_eq(rec.time, 1000);
	ck_assert_uint_eq(rec.kind, TRACE_KIND_qp_state);
	ck_assert_uint_eq(rec.thread, (uint32_t)syscall(SYS_gettid));
	ck_assert_uint_eq(rec.u.qp_state.qpn, 0x1234);
	ck_assert_uint_eq(rec.u.qp_state.to, 3);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.kind, TRACE_KIND_packet_out);
	ck_assert_uint_eq(rec.u.packet_out.psn, 0xffffff);
	ck_assert_uint_eq(rec.u.packet_out.va, 0x7fff12345678);
	ck_assert_uint_eq(rec.u.packet_out.dma_length, 77);
	ck_assert(!trace_next(t, &rec));
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(a_record_names_its_device)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 64);
	struct trace_reader *t;
	struct trace_record rec;

	TRACE_OF(r, 3, 1000, qp_state, .qpn = 1);
	TRACE(r, 2000, qp_state, .qpn = 2);
	t = open_file(path);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.device, 3);
	ck_assert_uint_eq(rec.kind, TRACE_KIND_qp_state);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.device, 0);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

static struct {
	unsigned int n;
	uint16_t device;
	enum trace_kind kind;
	uint64_t time;
} told;

static void listen_to(uint16_t device, uint64_t now, enum trace_kind kind,
		      const uint64_t *payload)
{
	told.n++;
	told.device = device;
	told.kind = kind;
	told.time = now;
}

/* What it hears of is not recorded for that reason, and the other way round. */
START_TEST(a_listener_hears_of_its_kinds)
{
	char *path = fresh_path();
	const struct recorder_cfg cfg = {.path = path, .slots = 64};
	struct trace_reader *t;
	struct trace_record rec;
	struct recorder *r;

	ck_assert_int_eq(recorder_open(&cfg, &r), 0);
	recorder_tell(r, 1ull << TRACE_KIND_packet_in, listen_to);
	TRACE_OF(r, 2, 7, packet_in, .qpn = 1);
	ck_assert_uint_eq(told.n, 1);
	ck_assert_uint_eq(told.device, 2);
	ck_assert_uint_eq(told.kind, TRACE_KIND_packet_in);
	ck_assert_uint_eq(told.time, 7);
	TRACE(r, 8, qp_state, .qpn = 1);
	ck_assert_uint_eq(told.n, 1);
	t = open_file(path);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.kind, TRACE_KIND_qp_state);
	ck_assert(!trace_next(t, &rec));
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(the_ring_keeps_the_newest_and_counts_the_others)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_reader *t;
	struct trace_record rec;
	uint64_t n = 0;

	for (uint32_t i = 0; i < 100; i++)
		put_poll(r, i, i);
	t = open_file(path);
	ck_assert_uint_eq(trace_info(t)->overwritten, 84);
	for (; trace_next(t, &rec); n++) {
		ck_assert_uint_eq(rec.number, 84 + n);
		ck_assert_uint_eq(rec.u.poll.count, 84 + n);
	}
	ck_assert_uint_eq(n, 16);
	ck_assert_uint_eq(trace_unreadable(t), 0);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(busy_kinds_are_recorded_in_full_traces_only)
{
	const struct recorder_cfg cfg = {.slots = 16};
	struct trace_reader *t;
	struct trace_record rec;
	struct recorder *r;

	ck_assert_int_eq(recorder_open(&cfg, &r), 0);
	ck_assert(!recorder_wants(r, TRACE_KIND_packet_out));
	ck_assert(!recorder_wants(r, TRACE_KIND_post_send));
	ck_assert(!recorder_wants(r, TRACE_KIND_completion));
	ck_assert(recorder_wants(r, TRACE_KIND_completion_error));
	put_poll(r, 1, 1);
	TRACE(r, 2, timer, .qpn = 3);
	ck_assert_int_eq(trace_open_recorder(r, &t), 0);
	ck_assert(trace_next(t, &rec));
	ck_assert_uint_eq(rec.kind, TRACE_KIND_timer);
	ck_assert(!trace_next(t, &rec));
	trace_close(t);
	recorder_close(r);
}
END_TEST

START_TEST(without_a_recorder_nothing_happens)
{
	struct trace_object *o = recorder_object(NULL);

	put_poll(NULL, 1, 1);
	ck_assert_ptr_nonnull(o);
	o->mr.counter[0]++;
	recorder_object_free(NULL, o);
}
END_TEST

#define WRITERS	   4
#define EACH	   50000u
#define MARK(w, i) ((w) << 24 | (i))

struct writer {
	struct recorder *r;
	uint32_t id;
};

static void *write_many(void *arg)
{
	struct writer *w = arg;

	for (uint32_t i = 0; i < EACH; i++)
		TRACE(w->r, MARK(w->id, i), fault, .addr = MARK(w->id, i),
		      .duration = MARK(w->id, i), .mr = MARK(w->id, i),
		      .pages = MARK(w->id, i), .made = MARK(w->id, i));
	return NULL;
}

/* A record is of one writer as a whole. */
static void check_whole(const struct trace_record *rec)
{
	const struct trace_rec_fault *f = &rec->u.fault;

	if (f->addr != rec->time || f->duration != rec->time || f->mr != rec->time ||
	    f->pages != rec->time || f->made != rec->time)
		ck_abort_msg("record %llu is mixed", (unsigned long long)rec->number);
}

START_TEST(threads_do_not_mix_records)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 64);
	struct writer w[WRITERS];
	struct trace_reader *t;
	struct trace_record rec;
	pthread_t id[WRITERS];
	uint64_t read = 0;

	t = open_file(path);
	for (uint32_t i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){r, i + 1};
		ck_assert_int_eq(pthread_create(&id[i], NULL, write_many, &w[i]), 0);
	}
	for (int i = 0; i < 2000; i++) {
		ck_assert_int_eq(trace_reload(t), 0);
		for (; trace_next(t, &rec); read++)
			check_whole(&rec);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(id[i], NULL);
	ck_assert_int_eq(trace_reload(t), 0);
	for (; trace_next(t, &rec); read++)
		check_whole(&rec);
	ck_assert_uint_eq(trace_info(t)->next, WRITERS * EACH);
	ck_assert_uint_eq(read + trace_unreadable(t), WRITERS * EACH);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

static struct recorder *in_handler;

static void handler(int sig)
{
	TRACE(in_handler, 5, fault, .addr = 5, .duration = 5, .mr = 5, .pages = 5,
	      .made = 5);
}

START_TEST(a_signal_handler_may_record)
{
	const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	struct recorder *r = open_recorder(NULL, 1u << 17);
	struct writer w = {r, 1};
	struct trace_reader *t;
	struct trace_record rec;
	uint64_t n = 0, handled = 0;

	in_handler = r;
	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, NULL);
	write_many(&w);
	for (int i = 0; i < 20; i++)
		usleep(100);
	setitimer(ITIMER_REAL, &never, NULL);
	ck_assert_int_eq(trace_open_recorder(r, &t), 0);
	for (; trace_next(t, &rec); n++) {
		check_whole(&rec);
		handled += rec.time == 5;
	}
	ck_assert_uint_gt(handled, 0);
	ck_assert_uint_eq(n, trace_info(t)->next);
	trace_close(t);
	recorder_close(r);
}
END_TEST

/* Another writer is a lap ahead or behind, in the same slot: one of the two is lost, and counted. */
START_TEST(who_meets_another_in_a_slot_is_lost)
{
	struct recorder *r = open_recorder(NULL, 16);
	struct trace_slot *s = &r->ring->slot[3];

	s->seq = 2 * (3 + 16) + 2; /* written by the next lap */
	s->time = 77;
	for (uint32_t i = 0; i < 4; i++)
		put_poll(r, i, i);
	ck_assert_uint_eq(r->hdr->lost, 1);
	ck_assert_uint_eq(s->seq, 2 * (3 + 16) + 2);
	ck_assert_uint_eq(s->time, 77);
	s = &r->ring->slot[4];
	s->seq = 1; /* being written since long */
	s->time = 77;
	put_poll(r, 4, 4);
	ck_assert_uint_eq(r->hdr->lost, 2);
	ck_assert_uint_eq(s->seq, 1);
	ck_assert_uint_eq(s->time, 77);
	put_poll(r, 5, 5);
	ck_assert_uint_eq(r->hdr->lost, 2);
	ck_assert_uint_eq(r->ring->slot[5].seq, 2 * 5 + 2);
	recorder_close(r);
}
END_TEST

/* A copy of bytes is of one piece, to its last word. */
START_TEST(nothing_is_copied_from_behind_a_piece)
{
	struct recorder *r = open_recorder(NULL, 16);
	uint64_t size = r->hdr->size, words[2];

	ck_assert(recorder_copy(r, size - 16, words, 16));
	ck_assert(!recorder_copy(r, size - 8, words, 16));
	ck_assert(!recorder_copy(r, size, words, 8));
	ck_assert(!recorder_copy(r, UINT64_MAX - 7, words, 8));
	recorder_close(r);
}
END_TEST

/* The name of a program may have anything in it, as /proc/PID/stat shows it. */
START_TEST(the_time_of_the_start_is_behind_the_name)
{
	struct recorder *r = open_recorder(NULL, 16);
	uint64_t start = r->hdr->start;

	recorder_close(r);
	ck_assert_uint_ne(start, 0);
	ck_assert_int_eq(prctl(PR_SET_NAME, "a) R 7 (b) 9"), 0);
	r = open_recorder(NULL, 16);
	ck_assert_uint_eq(r->hdr->start, start);
	recorder_close(r);
}
END_TEST

static void end_queue(struct recorder *r, uint64_t most, uint64_t produced)
{
	struct trace_object *qp = recorder_object(r), *cq = recorder_object(r);

	qp->qp.sq.most = (uint32_t)most;
	cq->cq.produced = produced;
	recorder_object_ready(qp, TRACE_OBJ_QP);
	recorder_object_ready(cq, TRACE_OBJ_CQ);
	recorder_object_free(r, qp);
	recorder_object_free(r, cq);
}

START_TEST(what_objects_did_is_known_when_they_are_gone)
{
	struct recorder *r = open_recorder(NULL, 16);

	end_queue(r, 5, 3);
	end_queue(r, 9, 4);
	end_queue(r, 2, 5);
	ck_assert_uint_eq(r->hdr->most, 9);
	ck_assert_uint_eq(r->hdr->completions, 12);
	recorder_close(r);
}
END_TEST

START_TEST(a_killed_process_leaves_all_that_it_recorded)
{
	char *path = fresh_path();
	struct trace_reader *t;
	struct trace_record rec;
	uint32_t n = 0;
	pid_t pid = fork();

	if (!pid) {
		struct recorder *r = open_recorder(path, 1024);

		for (uint32_t i = 0; i < 777; i++)
			put_poll(r, i, i);
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, NULL, 0);
	t = open_file(path);
	for (; trace_next(t, &rec); n++)
		ck_assert_uint_eq(rec.u.poll.count, n);
	ck_assert_uint_eq(n, 777);
	ck_assert_int_eq(trace_info(t)->pid, pid);
	ck_assert_uint_eq(trace_info(t)->end, TRACE_RUNNING);
	trace_close(t);
	forget_path(path);
}
END_TEST

START_TEST(a_child_of_fork_leaves_its_parents_segment_alone)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 64);
	struct trace_object *o = recorder_object(r);
	struct trace_reader *t;
	int status;
	pid_t pid;

	o->id = 1;
	recorder_object_ready(o, TRACE_OBJ_MR);
	put_poll(r, 1, 1);
	pid = fork();
	if (!pid) {
		struct trace_object *mine;

		recorder_forked(r);
		put_poll(r, 2, 2);
		o->mr.counter[0] = 42;
		recorder_object_free(r, o);
		mine = recorder_object(r);
		mine->id = 3;
		recorder_object_free(r, mine);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ck_assert_int_eq(status, 0);
	t = open_file(path);
	ck_assert_uint_eq(trace_info(t)->next, 1);
	ck_assert_uint_eq(trace_object_count(t), 1);
	ck_assert_uint_eq(trace_object(t, 0)->mr.counter[0], 0);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

/* Neither does it make the file longer, nor begin a trace in it. */
START_TEST(a_child_of_fork_needs_no_room_in_its_parents_segment)
{
	char *path = fresh_path();
	struct recorder *r = open_usual(path);
	struct stat before, after;
	int status;
	pid_t pid;

	ck_assert_int_eq(stat(path, &before), 0);
	pid = fork();
	if (!pid) {
		recorder_forked(r);
		for (int i = 0; i < 300; i++)
			recorder_object_ready(recorder_object(r), TRACE_OBJ_MR);
		_exit(recorder_start(r, 64, 1) != -ENOTSUP);
	}
	waitpid(pid, &status, 0);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_int_eq(after.st_size, before.st_size);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(objects_find_room_in_new_blocks)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	enum { N = 1000 };
	struct trace_object *o[N];
	struct trace_reader *t;

	for (uint32_t i = 0; i < N; i++) {
		o[i] = recorder_object(r);
		o[i]->id = i;
		recorder_object_ready(o[i], TRACE_OBJ_QP);
	}
	t = open_file(path);
	ck_assert_uint_eq(trace_object_count(t), N);
	ck_assert_uint_eq(trace_info(t)->unlisted, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(trace_object(t, i)->id, i);
	ck_assert_ptr_eq(trace_find(t, TRACE_OBJ_QP, 999), trace_object(t, 999));
	ck_assert_ptr_null(trace_find(t, TRACE_OBJ_MR, 999));
	recorder_object_free(r, o[500]);
	ck_assert_int_eq(trace_reload(t), 0);
	ck_assert_uint_eq(trace_object_count(t), N - 1);
	ck_assert_ptr_null(trace_find(t, TRACE_OBJ_QP, 500));
	/* its place is used again, for one that is the newest */
	ck_assert_ptr_eq(recorder_object(r), o[500]);
	ck_assert_uint_eq(o[500]->id, 0);
	ck_assert_uint_gt(o[500]->serial, o[999]->serial);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(without_its_file_objects_are_unlisted_and_good)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct trace_object *o[200];

	unlink(path);
	for (size_t i = 0; i < 200; i++) {
		o[i] = recorder_object(r);
		ck_assert_ptr_nonnull(o[i]);
		recorder_object_ready(o[i], TRACE_OBJ_MR);
	}
	ck_assert_uint_eq(r->hdr->unlisted, 200);
	for (size_t i = 0; i < 200; i++)
		recorder_object_free(r, o[i]);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(another_file_by_that_name_is_not_touched)
{
	char *path = fresh_path();
	struct recorder *r = open_recorder(path, 16);
	struct stat st;
	FILE *f;

	unlink(path);
	f = fopen(path, "w");
	fputs("mine", f);
	fclose(f);
	recorder_object_free(r, recorder_object(r));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, 4);
	ck_assert_uint_eq(r->hdr->unlisted, 1);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(what_cannot_be_made_is_an_error)
{
	struct recorder_cfg cfg = {.path = fresh_path(), .slots = 64};
	struct rlimit none = {.rlim_cur = 0}, old;
	struct recorder *r;
	FILE *f;
	int ret;

	cfg.slots = 63;
	ck_assert_int_eq(recorder_open(&cfg, &r), -EINVAL);
	cfg.slots = 64;
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	none.rlim_max = old.rlim_max;
	/* Check writes to a file itself */
	setrlimit(RLIMIT_FSIZE, &none);
	ret = recorder_open(&cfg, &r);
	setrlimit(RLIMIT_FSIZE, &old);
	ck_assert_int_eq(ret, -EFBIG);
	ck_assert_int_eq(access(cfg.path, F_OK), -1);
	/* just enough, and one byte less */
	r = open_recorder(NULL, 64);
	none.rlim_cur = r->hdr->size;
	recorder_close(r);
	for (int i = 0; i < 2; i++) {
		setrlimit(RLIMIT_FSIZE, &none);
		ret = recorder_open(&cfg, &r);
		setrlimit(RLIMIT_FSIZE, &old);
		ck_assert_int_eq(ret, i ? -EFBIG : 0);
		if (!i)
			recorder_close(r);
		unlink(cfg.path);
		none.rlim_cur--;
	}
	f = fopen(cfg.path, "w");
	fclose(f);
	ck_assert_int_eq(recorder_open(&cfg, &r), -EEXIST);
	forget_path(cfg.path);
	cfg.path = "/nonexistent/trace";
	ck_assert_int_eq(recorder_open(&cfg, &r), -ENOENT);
}
END_TEST

static void put_cm(struct recorder *r, uint64_t now, uint32_t id)
{
	TRACE(r, now, cm_event, .id = id);
}

START_TEST(all_kinds_are_recorded_for_a_while)
{
	char *path = fresh_path();
	struct recorder *r = open_usual(path);
	struct trace_reader *t = open_file(path);
	struct trace_record rec;
	uint64_t n = 0;

	for (uint32_t i = 0; i < 20; i++)
		put_cm(r, i, i);
	put_poll(r, 20, 20); /* a busy kind */
	ck_assert_int_eq(recorder_stop(r, 20), -EALREADY);
	ck_assert_int_eq(recorder_start(r, 100, 50), 0);
	ck_assert_int_eq(recorder_start(r, 100, 51), -EALREADY);
	for (uint32_t i = 20; i < 120; i++)
		put_poll(r, 50 + i, i);
	ck_assert_int_eq(recorder_stop(r, 200), 0);
	ck_assert_int_eq(recorder_stop(r, 201), -EALREADY);
	put_poll(r, 300, 300);
	put_cm(r, 300, 120);

	/* a reader that was there before sees the larger ring, and what was in the old one */
	ck_assert_int_eq(trace_reload(t), 0);
	ck_assert_uint_eq(trace_info(t)->slots, 128);
	ck_assert_uint_eq(trace_info(t)->overwritten, 4);
	ck_assert_uint_eq(trace_info(t)->full_from, 50);
	ck_assert_uint_eq(trace_info(t)->full_until, 200);
	trace_rewind(t);
	for (; trace_next(t, &rec); n++) {
		ck_assert_uint_eq(rec.number, 4 + n);
		ck_assert_uint_eq(rec.kind, n < 16 || n == 116 ? TRACE_KIND_cm_event
							       : TRACE_KIND_poll);
		if (rec.kind == TRACE_KIND_poll)
			ck_assert_uint_eq(rec.u.poll.count, 4 + n);
		else
			ck_assert_uint_eq(rec.u.cm_event.id, 4 + n);
	}
	ck_assert_uint_eq(n, 117);
	ck_assert_uint_eq(trace_unreadable(t), 0);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(objects_have_room_beside_a_larger_ring)
{
	char *path = fresh_path();
	struct recorder *r = open_usual(path);
	struct trace_reader *t;

	for (unsigned int i = 0; i < 4 * TRACE_FIRST_BLOCK; i++) {
		struct trace_object *o = recorder_object(r);

		if (i == TRACE_FIRST_BLOCK)
			ck_assert_int_eq(recorder_start(r, 1000, 1), 0);
		o->id = i;
		recorder_object_ready(o, TRACE_OBJ_PD);
	}
	for (uint32_t i = 0; i < 1000; i++)
		put_poll(r, i, i);
	t = open_file(path);
	ck_assert_uint_eq(trace_object_count(t), 4 * TRACE_FIRST_BLOCK);
	for (size_t i = 0; i < trace_object_count(t); i++)
		ck_assert_uint_eq(trace_object(t, i)->id, i);
	ck_assert_uint_eq(trace_info(t)->next, 1000);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

static void *puts_all_the_time(void *arg)
{
	struct recorder *r = arg;

	for (uint32_t i = 0; i < 200000; i++)
		put_cm(r, i, i);
	return NULL;
}

START_TEST(others_may_record_while_the_ring_becomes_larger)
{
	char *path = fresh_path();
	struct recorder *r = open_usual(path);
	struct trace_record rec;
	struct trace_reader *t;
	uint64_t n = 0;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, puts_all_the_time, r), 0);
	for (unsigned int k = 0; k < 5; k++) {
		ck_assert_int_eq(recorder_start(r, 64u << k, k), 0);
		ck_assert_int_eq(recorder_stop(r, k), 0);
		usleep(1000);
	}
	pthread_join(thread, NULL);
	t = open_file(path);
	for (; trace_next(t, &rec); n++)
		ck_assert_uint_eq(rec.kind, TRACE_KIND_cm_event);
	/* all are there, overwritten, lost or could not be read */
	ck_assert_uint_eq(n + trace_info(t)->overwritten + trace_unreadable(t), 200000);
	trace_close(t);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(a_program_does_what_is_asked_in_its_header)
{
	struct recorder *r = open_usual(NULL);

	ck_assert(!recorder_is_asked(r));
	r->hdr->ask_slots = UINT64_MAX; /* whoever writes there may write anything */
	r->hdr->asked = 3;
	ck_assert(recorder_is_asked(r));
	recorder_obey(r, 1);
	ck_assert(!recorder_is_asked(r));
	ck_assert_int_eq(r->hdr->refused, -EALREADY);
	r->hdr->ask_slots = 100;
	r->hdr->asked = 4;
	recorder_obey(r, 2);
	ck_assert_int_eq(r->hdr->refused, 0);
	ck_assert(recorder_wants(r, TRACE_KIND_packet_out));
	r->hdr->asked = 5;
	recorder_obey(r, 3);
	ck_assert(!recorder_wants(r, TRACE_KIND_packet_out));
	recorder_close(r);
}
END_TEST

/* Whoever asks may ask for anything: it is as much as a ring may have, for which there is no room here. */
START_TEST(what_is_asked_for_is_bounded)
{
	char *path = fresh_path();
	struct recorder *r = open_usual(path);
	struct rlimit some = {.rlim_cur = 1 << 20}, old;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	some.rlim_max = old.rlim_max;
	r->hdr->ask_slots = UINT64_MAX;
	r->hdr->asked = 2;
	setrlimit(RLIMIT_FSIZE, &some);
	recorder_obey(r, 1);
	setrlimit(RLIMIT_FSIZE, &old);
	ck_assert_int_eq(r->hdr->refused, -EFBIG);
	ck_assert_uint_eq(r->hdr->slots, 16);
	ck_assert_uint_eq(r->hdr->full, 0);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(a_trace_that_is_watched_ends_when_nobody_watches_and_goes_on_when_it_is_begun)
{
	char *path = fresh_path();
	struct recorder *r = open_usual(path);

	/* nobody watches: nothing ends */
	ck_assert_int_eq(recorder_start(r, 64, 10), 0);
	recorder_expire(r, UINT64_MAX);
	ck_assert_uint_eq(r->hdr->full_until, 0);
	ck_assert_int_eq(recorder_stop(r, 20), 0);
	/* somebody does, and puts it off */
	r->hdr->lease = 100;
	ck_assert_int_eq(recorder_start(r, 64, 30), 0);
	recorder_expire(r, 100);
	ck_assert_uint_eq(r->hdr->full_until, 0);
	r->hdr->lease = 200;
	recorder_expire(r, 150);
	ck_assert_uint_eq(r->hdr->full_until, 0);
	recorder_expire(r, 201);
	ck_assert_uint_eq(r->hdr->full_until, 201);
	ck_assert_uint_eq(r->hdr->lease, 0);
	/* what is watched is begun for good, into a larger ring */
	r->hdr->lease = 300;
	ck_assert_int_eq(recorder_start(r, 64, 250), 0);
	ck_assert_int_eq(recorder_start(r, 4096, 260), 0);
	ck_assert_uint_eq(r->hdr->slots, 4096);
	recorder_expire(r, 1000);
	ck_assert_uint_eq(r->hdr->full_until, 0);
	ck_assert_int_eq(recorder_start(r, 64, 270), -EALREADY);
	ck_assert_int_eq(recorder_stop(r, 1100), 0);
	/* who asked to watch is gone when it is read */
	r->hdr->lease = 1200;
	r->hdr->asked = 2;
	recorder_obey(r, 1300);
	ck_assert_int_eq(r->hdr->refused, -ETIME);
	ck_assert_uint_eq(r->hdr->full_until, 1100);
	/* and is no reason to end what the program begins itself */
	ck_assert_int_eq(recorder_start(r, 64, 1400), 0);
	recorder_expire(r, 1500);
	ck_assert_uint_eq(r->hdr->full_until, 0);
	recorder_close(r);
	forget_path(path);
}
END_TEST

START_TEST(a_copy_that_cannot_be_whole_leaves_nothing)
{
	char *path = fresh_path(), *slash;
	struct recorder *r = open_usual(NULL);
	struct rlimit few = {.rlim_cur = 100}, old;
	int ret;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_FSIZE, &few);
	ret = recorder_save(r, path);
	setrlimit(RLIMIT_FSIZE, &old);
	ck_assert_int_eq(ret, -EFBIG);
	recorder_close(r);
	slash = strrchr(path, '/');
	*slash = '\0';
	ck_assert_int_eq(rmdir(path), 0); /* it is empty */
}
END_TEST

START_TEST(a_copy_is_a_trace_and_takes_the_place_of_traces_only)
{
	char *path = fresh_path(), copy[100];
	struct recorder *r = open_usual(NULL);
	struct trace_reader *t;
	FILE *f;

	snprintf(copy, sizeof(copy), "%s", path);
	ck_assert_int_eq(recorder_start(r, 64, 1), 0);
	put_poll(r, 1, 1);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(recorder_save(r, copy), 0);
		t = open_file(copy);
		ck_assert_uint_eq(trace_info(t)->next, 1);
		trace_close(t);
	}
	f = fopen(copy, "w");
	fputs("mine, and no trace", f);
	fclose(f);
	ck_assert_int_eq(recorder_save(r, copy), -EEXIST);
	ck_assert_int_eq(recorder_save(r, "/nonexistent/copy"), -ENOENT);
	recorder_close(r);
	forget_path(path);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("recorder");
	TCase *tc = tcase_create("recorder");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, what_is_recorded_is_read_back);
	tcase_add_test(tc, a_record_names_its_device);
	tcase_add_test(tc, a_listener_hears_of_its_kinds);
	tcase_add_test(tc, the_ring_keeps_the_newest_and_counts_the_others);
	tcase_add_test(tc, busy_kinds_are_recorded_in_full_traces_only);
	tcase_add_test(tc, without_a_recorder_nothing_happens);
	tcase_add_test(tc, threads_do_not_mix_records);
	tcase_add_test(tc, a_signal_handler_may_record);
	tcase_add_test(tc, who_meets_another_in_a_slot_is_lost);
	tcase_add_test(tc, nothing_is_copied_from_behind_a_piece);
	tcase_add_test(tc, the_time_of_the_start_is_behind_the_name);
	tcase_add_test(tc, what_objects_did_is_known_when_they_are_gone);
	tcase_add_test(tc, a_killed_process_leaves_all_that_it_recorded);
	tcase_add_test(tc, a_child_of_fork_leaves_its_parents_segment_alone);
	tcase_add_test(tc, a_child_of_fork_needs_no_room_in_its_parents_segment);
	tcase_add_test(tc, objects_find_room_in_new_blocks);
	tcase_add_test(tc, without_its_file_objects_are_unlisted_and_good);
	tcase_add_test(tc, another_file_by_that_name_is_not_touched);
	tcase_add_test(tc, what_cannot_be_made_is_an_error);
	tcase_add_test(tc, all_kinds_are_recorded_for_a_while);
	tcase_add_test(tc, objects_have_room_beside_a_larger_ring);
	tcase_add_test(tc, others_may_record_while_the_ring_becomes_larger);
	tcase_add_test(tc, a_program_does_what_is_asked_in_its_header);
	tcase_add_test(tc, what_is_asked_for_is_bounded);
	tcase_add_test(tc, a_copy_that_cannot_be_whole_leaves_nothing);
	tcase_add_test(
	    tc,
	    a_trace_that_is_watched_ends_when_nobody_watches_and_goes_on_when_it_is_begun);
	tcase_add_test(tc, a_copy_is_a_trace_and_takes_the_place_of_traces_only);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return check_main(suite());
}
