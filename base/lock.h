/*
 * lock.h - a mutex that no thread leaves locked by being cancelled.
 *
 * A thread of the application may be cancelled (pthread_cancel(3)) at every cancellation
 * point that it comes to inside of the library, and read(2), write(2), poll(2) and printf(3)
 * are such. If it ended there with a mutex locked, everybody would wait for that mutex for
 * ever. So a thread that holds one of these locks cannot be cancelled; what it is asked
 * meanwhile it follows at the next cancellation point after the release.
 *
 * Locks that are held at the same time are released in the reverse order, and by the thread
 * that took them. Who waits for long, and should be cancellable as in the kernel, holds none.
 */
#ifndef URXE_BASE_LOCK_H
#define URXE_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* From here on the thread is not cancelled. What to give to cancel_restore() */
static inline int cancel_defer(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void cancel_restore(int state)
{
	pthread_setcancelstate(state, NULL);
}

/*
 * struct lock
 * @cancel:	cancellation state that the holder had before
 */
struct lock {
	pthread_mutex_t mutex;
	int cancel;
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
	int cancel = cancel_defer();

	pthread_mutex_lock(&l->mutex);
	l->cancel = cancel;
}

/* False: another thread has it */
static inline bool lock_try(struct lock *l)
{
	int cancel = cancel_defer();

	if (pthread_mutex_trylock(&l->mutex)) {
		cancel_restore(cancel);
		return false;
	}
	l->cancel = cancel;
	return true;
}

static inline void lock_release(struct lock *l)
{
	int cancel = l->cancel;

	pthread_mutex_unlock(&l->mutex);
	cancel_restore(cancel);
}

/* Leave the lock until @cond is signalled; the thread is not cancelled meanwhile. */
static inline void lock_wait(struct lock *l, pthread_cond_t *cond)
{
	int cancel = l->cancel;

	pthread_cond_wait(cond, &l->mutex);
	l->cancel = cancel;
}

/* Likewise, until @when of the condition's clock at the latest */
static inline void lock_wait_until(struct lock *l, pthread_cond_t *cond,
				   const struct timespec *when)
{
	int cancel = l->cancel;

	pthread_cond_timedwait(cond, &l->mutex, when);
	l->cancel = cancel;
}

#endif
