/*
 * pool.c - see pool.h.
 *
 * A thread that waits for a page takes no lock of anybody and holds none. When all threads
 * wait for pages that never come, further faults wait behind them; so a job that was
 * cancelled, and whose thread still waits, is reminded of it whenever a thread is missing.
 */
#include "odp/pool.h"

#include <errno.h>
#include <signal.h>

#include "odp/guard.h"
#include "odp/internal.h"
#include "odp/sys.h"
#include "odp/thread.h"

#define STACK_SIZE (256 << 10)

/* NULL in other threads */
static __thread struct pool_thread *self __attribute__((tls_model("initial-exec")));

void pool_init(struct pool *p)
{
	lock_init(&p->lock);
	pthread_cond_init(&p->more, NULL);
	p->tail = &p->head;
}

void pool_fini(struct pool *p)
{
	lock_take(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->more);
	lock_release(&p->lock);
	for (unsigned int i = 0; i < p->n; i++)
		pthread_join(p->thread[i].thread, NULL);
	pthread_cond_destroy(&p->more);
	lock_fini(&p->lock);
}

/* With the lock */
static struct odp_job *take(struct pool *p)
{
	struct odp_job *job = p->head;

	if (job) {
		p->head = job->next;
		if (!p->head)
			p->tail = &p->head;
	}
	return job;
}

static void *work(void *arg)
{
	struct pool_thread *t = arg;
	struct pool *p = t->pool;
	struct odp_job *job;

	guard_interruptible();
	self = t;
	lock_take(&p->lock);
	t->tid = (int)syscall(SYS_gettid);
	while (!p->stop) {
		job = take(p);
		if (!job) {
			p->idle++;
			lock_wait(&p->lock, &p->more);
			p->idle--;
			continue;
		}
		t->job = job;
		lock_release(&p->lock);
		odp_job_run(job);
		lock_take(&p->lock);
		t->job = NULL;
	}
	lock_release(&p->lock);
	return NULL;
}

/* With the lock. Outside of pool_fetch() it notices by itself. */
static void interrupt(const struct pool_thread *t)
{
	if (t->cancelled)
		syscall(SYS_tgkill, getpid(), t->tid, SIGSEGV);
}

/* With the lock: another thread, if the bound allows it */
static void start(struct pool *p)
{
	struct pool_thread *t = &p->thread[p->n];
	pthread_attr_t attr;

	if (p->n == POOL_THREADS || pthread_attr_init(&attr))
		return;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	*t = (struct pool_thread){.pool = p};
	if (!odp_thread_create(&t->thread, &attr, work, t, "urxe-fault"))
		p->n++;
	pthread_attr_destroy(&attr);
}

/* With the lock: threads whose job nobody wants */
static void free_some(struct pool *p)
{
	for (unsigned int i = 0; i < p->n; i++)
		if (p->thread[i].cancelled && *p->thread[i].cancelled)
			interrupt(&p->thread[i]);
}

int pool_submit(struct pool *p, struct odp_job *job)
{
	unsigned int waiting = 1;
	int ret = 0;

	job->next = NULL;
	lock_take(&p->lock);
	for (const struct odp_job *j = p->head; j && waiting <= p->idle; j = j->next)
		waiting++;
	if (waiting > p->idle) {
		free_some(p);
		start(p);
	}
	if (p->n) {
		*p->tail = job;
		p->tail = &job->next;
		pthread_cond_signal(&p->more);
	} else {
		ret = -EAGAIN;
	}
	lock_release(&p->lock);
	return ret;
}

bool pool_cancel(struct pool *p, struct odp_job *job)
{
	bool queued = false;

	lock_take(&p->lock);
	for (struct odp_job **j = &p->head; *j && !queued; j = &(*j)->next) {
		if (*j != job)
			continue;
		*j = job->next;
		if (!*j)
			p->tail = j;
		queued = true;
		break;
	}
	for (unsigned int i = 0; i < p->n && !queued; i++)
		if (p->thread[i].job == job)
			interrupt(&p->thread[i]);
	lock_release(&p->lock);
	return queued;
}

static void set_cancelled(const _Atomic bool *cancelled)
{
	if (!self)
		return;
	lock_take(&self->pool->lock);
	self->cancelled = cancelled;
	lock_release(&self->pool->lock);
}

int pool_fetch(uintptr_t addr, size_t len, size_t page, bool write,
	       const _Atomic bool *cancelled)
{
	int ret = 0;

	set_cancelled(cancelled);
	for (size_t off = 0; off < len && !ret; off += page) {
		do {
			if (*cancelled)
				ret = -ECANCELED;
			else
				ret = guard_touch(addr + off, 1, write);
			/* a signal for the job before this one says nothing */
		} while (ret == -EFAULT && guard_interrupted());
	}
	set_cancelled(NULL);
	return ret;
}
