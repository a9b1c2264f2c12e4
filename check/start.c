/*
 * start.c - the checker comes to life when its library is loaded, and says what is left at the
 * end. Owns its one lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/lock.h"
#include "check/check.h"
#include "check/frames.h"
#include "check/objects.h"
#include "check/reads.h"
#include "check/watch.h"
#include "verbs/preload/include/urxe_check.h"

static struct lock lock = LOCK_INITIALIZER;
static __thread bool inside __attribute__((tls_model("initial-exec")));
/* A bit for each class */
static unsigned int wanted;

static const char *const class_names[CHECK_N_CLASSES] = {
#define X(name, text) [CHECK_CLASS_##name] = (text),
    CHECK_CLASSES(X)
#undef X
};

static const unsigned char class_of[CHECK_N_IDS] = {
#define X(name, id, class, severity, what, why) [CHECK_##name] = CHECK_CLASS_##class,
    CHECK_IDS(X)
#undef X
};

bool check_wants(enum check_id id)
{
	return wanted >> class_of[id] & 1;
}

bool check_lock(void)
{
	if (inside)
		return false;
	inside = true;
	lock_take(&lock);
	return true;
}

void check_unlock(void)
{
	lock_release(&lock);
	inside = false;
}

uint64_t check_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- the program's own words ------------------------------------------------------- */

void urxe_check_expect(const char *id)
{
	if (!check_lock())
		return;
	check_expect(id);
	check_unlock();
}

void urxe_check_ignore(const void *addr, size_t len)
{
	if (!check_lock())
		return;
	check_ignore((uintptr_t)addr, len);
	check_unlock();
}

/* --- begin and end ---------------------------------------------------------------- */

static void record(uint16_t device, uint64_t now, enum trace_kind kind,
		   const uint64_t *payload)
{
	int err = errno;

	if ((kind == TRACE_KIND_packet_out && !check_is_answer((const void *)payload)) ||
	    !check_lock())
		return;
	check_record(device, now, kind, payload);
	check_unlock();
	errno = err;
}

static void fork_prepare(void)
{
	bool mine = check_lock();

	if (mine)
		check_fork();
}

static void fork_parent(void)
{
	if (inside)
		check_unlock();
}

/* The devices, and what hangs on them, are the parent's. */
static void fork_child(void)
{
	if (!inside)
		return;
	check_watch_forget();
	check_forget_objects();
	check_forget_contexts();
	check_forget_uses();
	check_forget_findings();
	check_unlock();
}

#define KIND(name) (1ull << TRACE_KIND_##name)

static const struct checker checker = {
    .kinds = KIND(reg_mr) | KIND(rereg_mr) | KIND(create_qp) | KIND(modify_qp) |
	     KIND(verb) | KIND(verb_failed) | KIND(qp_state) | KIND(qp_failed) |
	     KIND(completion) | KIND(completion_error) | KIND(take_receive) |
	     KIND(packet_in) | KIND(packet_out) | KIND(qp_path) | KIND(nak_out) |
	     KIND(nak_in) | KIND(prefetch) | KIND(fault) | KIND(evict),
    .record = record,
    .context = check_context,
    .memory = check_memory,
};

/* What URXE_CHECK names; urxe has looked at it */
static unsigned int classes_in(const char *list)
{
	unsigned int found = 0;

	while (list && *list) {
		size_t n = strcspn(list, ",");

		for (unsigned int i = 0; i < CHECK_N_CLASSES; i++)
			if (strlen(class_names[i]) == n &&
			    !strncmp(list, class_names[i], n))
				found |= 1u << i;
		list += n + (list[n] == ',');
	}
	return found ? found : ~0u;
}

__attribute__((constructor)) static void begin(void)
{
	wanted = classes_in(getenv("URXE_CHECK"));
	check_frames_start();
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	urxe_checker_attach(&checker);
}

__attribute__((destructor)) static void end(void)
{
	if (!check_lock())
		return;
	check_reads_exit();
	check_leaks_at_exit();
	check_findings_at_exit();
	check_unlock();
}
