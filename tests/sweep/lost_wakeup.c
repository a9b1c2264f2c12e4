/*
 * lost_wakeup.c - a thread waits for completions and tells another by a condition variable; when
 * its wait fails, it ends without telling.
 */
#include "side.h"

#include <pthread.h>

static struct shared {
	struct side side;
	pthread_mutex_t lock;
	pthread_cond_t told;
	bool over, good;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};

static void tell(bool good)
{
	pthread_mutex_lock(&shared.lock);
	shared.good = good;
	shared.over = true;
	pthread_cond_signal(&shared.told);
	pthread_mutex_unlock(&shared.lock);
}

static void *wait_for_two(void *arg)
{
	struct side *s = &shared.side;
	struct ibv_wc wc;
	int got = 0;

	while (got < 2) {
		if (!side_wait(s, &wc) || wc.status != IBV_WC_SUCCESS) {
			if (!FAULTY)
				tell(false);
			return NULL;
		}
		got++;
	}
	tell(true);
	return NULL;
}

static bool exchange(void)
{
	pthread_t thread;

	if (!side_connect(&shared.side) || side_receive(&shared.side) ||
	    side_post(&shared.side, 64) ||
	    pthread_create(&thread, NULL, wait_for_two, NULL))
		return false;
	pthread_mutex_lock(&shared.lock);
	while (!shared.over)
		pthread_cond_wait(&shared.told, &shared.lock);
	pthread_mutex_unlock(&shared.lock);
	pthread_join(thread, NULL);
	return shared.good;
}

int main(void)
{
	bool good;

	if (!side_open(&shared.side))
		return 1;
	good = exchange();
	side_close(&shared.side);
	return !good;
}
