/*
 * mesh_chaos.c - processes of the mesh are killed and stopped, at moments that follow from a seed.
 *
 * A process that is stopped runs again after a while that may be longer than all retries of its
 * peers; meanwhile others are killed or stopped, and it may be killed as well.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/splitmix.h"
#include "mesh.h"

#define PAUSE_MAX 300000 /* us between two of them */
#define STOP_MAX  4000	 /* ms */

/* When each process is to run again, ms; 0: it does */
static uint64_t wakes_at[MAX_N];
static uint64_t state;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int below(int n)
{
	return (int)(splitmix_next(&state) % (uint64_t)n);
}

/* Those whose time has come; how many stay. Who was killed is waited for later, so ids are still theirs. */
static int wake(const pid_t *pid)
{
	int n = 0;

	for (int i = 0; i < opt.count; i++) {
		if (!wakes_at[i])
			continue;
		if (wakes_at[i] > now_ms()) {
			n++;
			continue;
		}
		wakes_at[i] = 0;
		kill(pid[i], SIGCONT);
	}
	return n;
}

static void pause_for(const pid_t *pid, int us)
{
	for (; us > 0; us -= 5000) {
		struct timespec t = {.tv_nsec = (us < 5000 ? us : 5000) * 1000l};

		nanosleep(&t, NULL);
		wake(pid);
	}
}

/* Any that has not been killed; two stay, to have something to say to each other */
static int any(bool to_kill)
{
	int alive[MAX_N], n = 0;

	for (int i = 0; i < opt.count; i++)
		if (!sh->who[opt.base + i].dying)
			alive[n++] = i;
	return n > (to_kill ? 2 : 0) ? alive[below(n)] : -1;
}

static void kill_one(const pid_t *pid)
{
	int i = any(true);

	if (i < 0)
		return;
	sh->who[opt.base + i].dying = 1;
	kill(pid[i], SIGKILL);
}

static void stop_one(const pid_t *pid)
{
	int i = any(false);

	if (i < 0)
		return;
	kill(pid[i], SIGSTOP);
	wakes_at[i] = now_ms() + 1 + (uint64_t)below(STOP_MAX);
}

void chaos(const pid_t *pid)
{
	int kills = opt.kills, stops = opt.stops;

	state = opt.seed;
	while (sh->begun < opt.n && !late())
		nap(5);
	while (kills + stops && !late()) {
		pause_for(pid, below(PAUSE_MAX));
		if (below(kills + stops) < kills) {
			kills--;
			kill_one(pid);
		} else {
			stops--;
			stop_one(pid);
		}
	}
	while (wake(pid))
		nap(5);
	sh->kills -= opt.kills + opt.stops;
	printf("%d killed, %d stopped, seed %llu\n", opt.kills - kills, opt.stops - stops,
	       (unsigned long long)opt.seed);
}
