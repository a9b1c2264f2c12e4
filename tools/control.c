/*
 * control.c - see control.h.
 *
 * What is wanted is written to the header of the process' segment, which it looks at whenever it
 * drives its devices; there is no other way to it, and none is needed: one that does nothing
 * records nothing. The records stay in the segment, in a ring that the process has made larger.
 * The file that the user named is a copy, made at the end: by `urxe trace stop`, or by `urxe run`
 * when the process is dead.
 */
#include "tools/control.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/outfile.h"
#include "tools/segments.h"
#include "tools/tools.h"

#define WAIT_MS	 2000	       /* for a program that drives its devices now and then */
#define LEASE_NS 2000000000ull /* as long as who watches may not come to renew it */

/*
 * struct request - what is asked of which process
 * @file:	absolute path of the copy
 * @found:	the process was found; @code: exit code
 */
struct request {
	long pid;
	bool start;
	uint64_t slots;
	char file[1024];
	bool found;
	int code;
};

/* --- the header ------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool put(int fd, const void *data, size_t len, size_t offset)
{
	return pwrite(fd, data, len, (off_t)offset) == (ssize_t)len;
}

/* True: the process has answered */
static bool wait_for(const struct segment *s, uint32_t asked)
{
	const struct timespec nap = {.tv_nsec = 10000000};

	for (int i = 0; i < WAIT_MS / 10; i++) {
		if (trace_reload(s->t))
			return false;
		if (trace_info(s->t)->done == asked)
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

/* Ask, and wait. 0, -errno of the process' refusal, or -ETIME */
static int ask(const struct segment *s, const struct request *r)
{
	uint32_t before = trace_info(s->t)->asked;
	uint32_t asked = r->start ? (before | 1) + 1 : (before + 1) | 1;
	const uint64_t none = 0;

	/* that of who watched it before; of who watches it now, the process ends it */
	if (r->start && trace_info(s->t)->lease < now_ns() &&
	    !put(s->fd, &none, sizeof(none), offsetof(struct trace_header, lease)))
		return -errno;
	if (!put(s->fd, &r->slots, sizeof(r->slots),
		 offsetof(struct trace_header, ask_slots)) ||
	    (r->start && !put(s->fd, r->file, sizeof(r->file),
			      offsetof(struct trace_header, keep))) ||
	    !put(s->fd, &asked, sizeof(asked), offsetof(struct trace_header, asked)))
		return -errno;
	return wait_for(s, asked) ? trace_info(s->t)->refused : -ETIME;
}

int control_watch(int fd, const struct trace_info *i, uint64_t bytes)
{
	const uint64_t until = now_ns() + LEASE_NS;
	const uint64_t slots = bytes / sizeof(struct trace_slot) + 1;
	const uint32_t asked = (i->asked | 1) + 1;
	bool on = i->full && !i->full_until;

	if (on && !i->lease)
		return 0;
	if (!put(fd, &until, sizeof(until), offsetof(struct trace_header, lease)))
		return -errno;
	if (on)
		return 0;
	if (i->asked != i->done)
		return 0;
	if (!put(fd, &slots, sizeof(slots), offsetof(struct trace_header, ask_slots)) ||
	    !put(fd, &asked, sizeof(asked), offsetof(struct trace_header, asked)))
		return -errno;
	return 1;
}

/* --- the copy --------------------------------------------------------------------- */

static int copy(int fd, FILE *out)
{
	char buf[65536];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		if (fwrite(buf, 1, (size_t)n, out) != (size_t)n)
			return errno ? -errno : -EIO;
		at += n;
	}
	return n < 0 ? -errno : 0;
}

/* Only a trace is replaced. 0, or an exit code with a line on stderr */
static int check_place(const char *file)
{
	char why[TRACE_WHY_BYTES];
	struct trace_reader *t;
	struct stat st;

	if (lstat(file, &st))
		return 0;
	if (trace_open(file, why, sizeof(why), &t))
		return usage_error("%s is there and %s", file, why);
	trace_close(t);
	return 0;
}

static int save(const struct segment *s)
{
	const char *file = trace_info(s->t)->keep;
	struct outfile o;
	int ret;

	if (check_place(file))
		return EXIT_USAGE;
	ret = outfile_open(&o, file);
	if (!ret)
		ret = outfile_close(&o, copy(s->fd, o.f));
	if (!ret) {
		put(s->fd, "", 1, offsetof(struct trace_header, keep));
		return 0;
	}
	usage_error("%s: %s", file, strerror(-ret));
	return EXIT_SETUP;
}

static void keep_one(void *arg, const struct segment *s)
{
	if (s->life != SEGMENT_LIVES && trace_info(s->t)->keep[0])
		save(s);
}

void control_keep(const char *dir)
{
	segments_of(dir, keep_one, NULL);
}

/* --- start and stop --------------------------------------------------------------- */

static int start(const struct segment *s, struct request *r)
{
	int ret = ask(s, r);

	if (ret == -ETIME)
		printf("process %ld does nothing with its devices now: it will be traced "
		       "from the next thing on\n",
		       r->pid);
	else if (ret)
		return usage_error("process %ld: %s", r->pid,
				   ret == -EALREADY ? "it is traced already"
						    : strerror(-ret));
	return 0;
}

static int stop(const struct segment *s, struct request *r)
{
	int ret;

	if (!trace_info(s->t)->keep[0])
		return usage_error("process %ld is not traced by urxe trace start",
				   r->pid);
	ret = ask(s, r);
	if (ret && ret != -ETIME && ret != -EALREADY)
		return usage_error("process %ld: %s", r->pid, strerror(-ret));
	snprintf(r->file, sizeof(r->file), "%s", trace_info(s->t)->keep);
	ret = save(s);
	if (!ret)
		printf("%s has what process %ld did: %" PRIu64 " records\n", r->file,
		       r->pid, trace_info(s->t)->next - trace_info(s->t)->first);
	return ret;
}

static void act(void *arg, const struct segment *s)
{
	struct request *r = arg;
	struct stat st;

	if (trace_info(s->t)->pid != r->pid || r->found || s->life == SEGMENT_GONE ||
	    fstat(s->fd, &st) || st.st_uid != geteuid())
		return;
	r->found = true;
	if (s->trace_fd != s->fd)
		r->code =
		    usage_error("process %ld is traced from its beginning (urxe run "
				"--trace)",
				r->pid);
	else
		r->code = r->start ? start(s, r) : stop(s, r);
}

static int control(struct request *r)
{
	segments_all(act, r);
	if (r->found)
		return r->code ? r->code : stdout_done(0);
	fprintf(stderr, "urxe: process %ld has no emulated device open\n", r->pid);
	return 1;
}

/* --- the command line ------------------------------------------------------------- */

static int parse_pid(const char *s, struct request *r)
{
	char *end;

	r->pid = strtol(s, &end, 10);
	return *end || r->pid <= 0 ? usage_error("'%s' is not a process id", s) : 0;
}

int control_size(const char *s, uint64_t *size)
{
	char *end;
	uint64_t n = strtoull(s, &end, 10);
	unsigned int shift = *end == 'k' || *end == 'K'	  ? 10
			     : *end == 'm' || *end == 'M' ? 20
			     : *end == 'g' || *end == 'G' ? 30
							  : 0;

	if (shift)
		end++;
	if (end == s || *end || s[0] == '-' || n < 1 || n > (1ull << 34) >> shift)
		return usage_error("--size: '%s' is no size, such as 16m", s);
	*size = n << shift;
	return 0;
}

static int parse_file(const char *s, struct request *r)
{
	char cwd[sizeof(r->file)];
	int n;

	if (*s == '/')
		n = snprintf(r->file, sizeof(r->file), "%s", s);
	else if (getcwd(cwd, sizeof(cwd)))
		n = snprintf(r->file, sizeof(r->file), "%s/%s", cwd, s);
	else
		return usage_error("%s: %s", s, strerror(errno));
	if (!*s || n >= (int)sizeof(r->file))
		return usage_error("the name of the file is empty or too long");
	return check_place(r->file);
}

int control_start(int argc, char **argv)
{
	static const struct option lo[] = {
	    {.name = "size", .has_arg = required_argument, .val = 's'},
	    {0},
	};
	uint64_t size = CONTROL_SIZE;
	struct request r = {.start = true};
	int c, ret = 0;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", lo, NULL)) != -1 && !ret)
		ret = c == 's' ? control_size(optarg, &size)
			       : option_error(c, argv, "trace");
	if (!ret && argc - optind != 2)
		ret = usage_error("urxe trace start [--size SIZE] PID FILE");
	if (!ret)
		ret = parse_pid(argv[optind], &r);
	if (!ret)
		ret = parse_file(argv[optind + 1], &r);
	r.slots = size / sizeof(struct trace_slot) + 1;
	return ret ? ret : control(&r);
}

int control_stop(int argc, char **argv)
{
	struct request r = {0};

	if (argc != 2)
		return usage_error("urxe trace stop PID");
	return parse_pid(argv[1], &r) ? EXIT_USAGE : control(&r);
}
