/*
 * live.c - see live.h.
 *
 * Records are taken from the processes' segments as they come and kept as the blocks that pages
 * ask for, each from where it is: a page that is opened later gets all of them. What goes
 * beyond LIVE_BYTES is forgotten, the oldest first.
 *
 * Only programs of the user himself are looked at, root too. They are asked to record all kinds while
 * they are watched, or nothing.
 */
#include "tools/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/control.h"
#include "tools/findings.h"
#include "tools/inputs.h"
#include "tools/page_data.h"
#include "tools/segments.h"
#include "tools/timeline.h"

#define LIVE_BYTES (256ull << 20) /* of blocks kept */

/* struct block - records, as text of @n bytes */
struct block {
	char *text;
	size_t n;
};

/*
 * struct live
 * @pid:	the processes that are wanted, @n_pid of them; 0: all
 * @t, @fd, @id: those that were seen, @n of them: their readers, files, and what these are
 * @own:	the file is the segment, and no trace elsewhere; @refused: -errno, it records no more
 * @watch:	bytes of the rings that they are to have while they are watched, 0: they are not asked
 * @block:	blocks number @first to @first + @n_blocks - 1, of @bytes in all
 * @failed:	-errno of what could not be kept
 */
struct live {
	const long *pid;
	int n_pid, n;
	struct trace_reader *t[INPUTS_MAX];
	int fd[INPUTS_MAX];
	bool own[INPUTS_MAX], told[INPUTS_MAX];
	int refused[INPUTS_MAX];
	uint64_t watch;
	struct {
		dev_t dev;
		ino_t ino;
	} id[INPUTS_MAX];
	struct timeline *tl;
	struct findings *f;
	struct page_records *records;
	struct block *block;
	unsigned long first, n_blocks, room;
	unsigned long long bytes;
	int failed;
};

/* --- programs --------------------------------------------------------------------- */

static bool wanted(const struct live *l, const struct segment *s, struct stat *st)
{
	bool is = l->n_pid == 0 && s->life != SEGMENT_GONE;

	for (int i = 0; i < l->n_pid; i++)
		is |= l->pid[i] == trace_info(s->t)->pid;
	if (!is || fstat(s->fd, st) || st->st_uid != geteuid() || fstat(s->trace_fd, st))
		return false;
	for (int i = 0; i < l->n; i++)
		if (l->id[i].dev == st->st_dev && l->id[i].ino == st->st_ino)
			return false;
	return l->n < INPUTS_MAX;
}

static void take(void *arg, const struct segment *s)
{
	struct live *l = arg;
	struct trace_reader *t;
	struct stat st;
	int fd;

	if (!wanted(l, s, &st))
		return;
	fd = fcntl(s->trace_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || trace_open_fd(fd, 0, NULL, 0, &t)) {
		close(fd);
		return;
	}
	if (timeline_add(l->tl, t)) {
		trace_close(t);
		close(fd);
		l->failed = -ENOMEM;
		return;
	}
	l->t[l->n] = t;
	l->fd[l->n] = fd;
	l->id[l->n].dev = st.st_dev;
	l->id[l->n].ino = st.st_ino;
	l->own[l->n] = s->trace_fd == s->fd;
	findings_traces(l->f, ++l->n);
}

int live_programs(const struct live *l)
{
	return l->n;
}

/* --- records ---------------------------------------------------------------------- */

static void forget_first(struct live *l)
{
	l->bytes -= l->block[0].n;
	free(l->block[0].text);
	memmove(l->block, l->block + 1, --l->n_blocks * sizeof(*l->block));
	l->first++;
}

static void keep_block(void *arg, const char *base64, size_t n)
{
	struct live *l = arg;
	unsigned long room = l->room ? 2 * l->room : 64;
	struct block *more;

	if (l->n_blocks == l->room) {
		more = realloc(l->block, room * sizeof(*more));
		if (!more) {
			l->failed = -ENOMEM;
			return;
		}
		l->block = more;
		l->room = room;
	}
	l->block[l->n_blocks].text = malloc(n);
	if (!l->block[l->n_blocks].text) {
		l->failed = -ENOMEM;
		return;
	}
	memcpy(l->block[l->n_blocks].text, base64, n);
	l->block[l->n_blocks++].n = n;
	l->bytes += n;
	while (l->bytes > LIVE_BYTES && l->n_blocks > 1)
		forget_first(l);
}

/* What became of being asked, said once of each program */
static void tell(struct live *l, int i)
{
	const struct trace_info *info = trace_info(l->t[i]);

	/* -ETIME: it came to it late, and is asked again */
	if (l->told[i] || info->asked != info->done || info->refused == -ETIME)
		return;
	l->told[i] = true;
	l->refused[i] = info->refused == -EALREADY ? 0 : info->refused;
	if (l->refused[i])
		printf("%s (pid %d) records what is rare only: %s\n", info->program,
		       info->pid, strerror(-l->refused[i]));
	else
		printf("%s (pid %d) records everything while it is watched\n",
		       info->program, info->pid);
	fflush(stdout);
}

/* Let programs record everything for as long as this is called */
static void watch(struct live *l)
{
	for (int i = 0; i < l->n; i++) {
		const struct trace_info *info = trace_info(l->t[i]);

		if (!l->own[i] || l->refused[i] || info->end != TRACE_RUNNING ||
		    !segment_process_lives(info))
			continue;
		if (info->lease)
			tell(l, i);
		l->refused[i] = control_watch(l->fd[i], info, l->watch);
		if (l->refused[i] > 0)
			l->refused[i] = 0;
	}
}

int live_look(struct live *l)
{
	int ret;

	l->failed = 0;
	for (int i = 0; i < l->n; i++)
		if (trace_reload(l->t[i]) == -ENOMEM)
			l->failed = -ENOMEM;
	segments_all(take, l);
	if (l->watch)
		watch(l);
	ret = page_records_put(l->records, l->tl, l->f, keep_block, l);
	return ret ? ret : l->failed;
}

void live_json(struct live *l, unsigned long from, FILE *out)
{
	unsigned long end = l->first + l->n_blocks;

	if (from < l->first || from > end)
		from = l->first;
	fputs("{\"about\":", out);
	page_about(l->t, l->n, l->tl, l->f, l->records, out);
	fprintf(out, ",\"first\":%lu,\"next\":%lu,\"blocks\":[", from, end);
	for (unsigned long i = from; i < end; i++) {
		const struct block *b = &l->block[i - l->first];

		fputs(i > from ? ",\"" : "\"", out);
		fwrite(b->text, 1, b->n, out);
		fputs("\"", out);
	}
	fputs("]}", out);
}

/* --- beginning and end ------------------------------------------------------------ */

void live_free(struct live *l)
{
	if (!l)
		return;
	timeline_close(l->tl);
	findings_free(l->f);
	page_records_free(l->records);
	for (int i = 0; i < l->n; i++) {
		trace_close(l->t[i]);
		close(l->fd[i]);
	}
	while (l->n_blocks)
		forget_first(l);
	free(l->block);
	free(l);
}

struct live *live_new(const long *pid, int n, uint64_t watch)
{
	struct live *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->pid = pid;
	l->watch = watch;
	l->n_pid = n;
	l->tl = timeline_open(NULL, 0);
	l->f = l->tl ? findings_new(l->t, 0, l->tl) : NULL;
	l->records = page_records_new();
	if (l->f && l->records)
		return l;
	live_free(l);
	return NULL;
}
