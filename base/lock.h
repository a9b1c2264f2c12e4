/*
 * lock.h - a mutex that no thread leaves locked by being cancelled.
 *
 * A thread of the application may be cancelled (pthread_cancel(3)) at every cancellation
 * point that it comes to inside of the library, and read(2), write(2), poll(2) and printf(3)
 * are such. If it ended there with a mutex locked, everybody would wait for that mutex for
 * ever. So a thread that holds one of these locks cannot be cancelled; what it is asked
 * meanwhile it follows at the next cancellation point after the release.
 *
 * Locks are released by the thread that took them. Who waits for long, and should be cancellable as in the kernel, holds none.
 */
#ifndef URXE_BASE_LOCK_H
#define URXE_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/*
 * How many locks, and other reasons, keep this thread from being cancelled; and the state
 * that it had before the first of them.
 */
extern __thread unsigned int cancel_deferred __attribute__((tls_model("initial-exec")));
extern __thread int cancel_before __attribute__((tls_model("initial-exec")));

/* From here on the thread is not cancelled, until as many calls of cancel_restore() */
static inline void cancel_defer(void)
{
	if (!cancel_deferred++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
}

static inline void cancel_restore(void)
{
	if (!--cancel_deferred)
		pthread_setcancelstate(cancel_before, NULL);
}

struct lock {
	pthread_mutex_t mutex;
};

#define LOCK_INITIALIZER                                                                 \
	{                                                                                \
		.mutex = PTHREAD_MUTEX_INITIALIZER                                       \
	}

static inline void lock_init(struct lock *l)
{
	pthread_mutex_init(&l->mutex, NULL);
}

/* For short sections: who finds it taken spins a little before sleeping. */
static inline void lock_init_adaptive(struct lock *l)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&l->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

static inline void lock_fini(struct lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}

static inline void lock_take(struct lock *l)
{
	cancel_defer();
	pthread_mutex_lock(&l->mutex);
}

/* False: another thread has it */
static inline bool lock_try(struct lock *l)
{
	cancel_defer();
	if (!pthread_mutex_trylock(&l->mutex))
		return true;
	cancel_restore();
	return false;
}

static inline void lock_release(struct lock *l)
{
	pthread_mutex_unlock(&l->mutex);
	cancel_restore();
}

/* For sections without a cancellation point; lock_wait() does not fit them. */
static inline void lock_take_brief(struct lock *l)
{
	pthread_mutex_lock(&l->mutex);
}

static inline void lock_release_brief(struct lock *l)
{
	pthread_mutex_unlock(&l->mutex);
}

/* Leave the lock until @cond is signalled; the thread is not cancelled meanwhile. */
static inline void lock_wait(struct lock *l, pthread_cond_t *cond)
{
	pthread_cond_wait(cond, &l->mutex);
}

/* Likewise, until @when of the condition's clock at the latest */
static inline void lock_wait_until(struct lock *l, pthread_cond_t *cond,
				   const struct timespec *when)
{
	pthread_cond_timedwait(cond, &l->mutex, when);
}

#endif
