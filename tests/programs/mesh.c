/*
 * mesh.c - many processes, each with a queue pair to each other one, all busy at once.
 *
 * usage: mesh -f FILE [option...]
 *   -f FILE	what the processes of all hosts share to find each other; made by the first
 *   -n N	processes in all (8)
 *   -b B -c C	this call runs those with numbers B to B + C - 1 (0, all)
 *   -d DEVICE -g GID -m MTU
 *		as in ibv_rc_pingpong (rxe0, 0, 1024)
 *   -q Q	queue pairs with each peer (1)
 *   -r R	rounds on each queue pair (20)
 *   -T SECONDS	rounds for as long as that; who grows meanwhile has failed
 *   -i		memory is discarded under what is going on, at random
 *   -k K	kill K of the own processes, one after the other, by SIGKILL; always the one
 *		that has UDP port 4791 if it is one of them. Traffic goes on until that is done
 *   -x HOW	instead of by SIGKILL they end in the middle of traffic by themselves: exit,
 *		exec, close (of the device), thread (one that polls is cancelled), fork
 *		(children that open the device and use it)
 *   -p P	stop P of the own processes for up to 4 s each, which is longer than all retries
 *   -s SEED	kill and stop any of them, at moments that follow from SEED
 *   -o		this process opens the device, too, before it forks the others
 *   -t SECONDS	limit (60)
 *
 * Between two processes that live nothing may fail, and each SEND must have come once, in
 * order. With one that died the first error must be IBV_WC_RETRY_EXC_ERR. Exit code 0 if all
 * of that is so. What a round is: mesh_rounds.c; how a process begins and ends:
 * mesh_process.c; who is killed: mesh_kill.c, mesh_chaos.c; its memory: mesh_memory.c.
 *
 * The processes share nothing that belongs to RDMA; FILE has numbers and the results.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mesh.h"

struct mesh_options opt = {.device = "rxe0",
			   .n = 8,
			   .count = -1,
			   .qps = 1,
			   .rounds = 20,
			   .limit = 60,
			   .mtu = IBV_MTU_1024};
struct shared *sh;
static time_t deadline;

void fatal(const char *what)
{
	fprintf(stderr, "mesh: %s: %s\n", what, strerror(errno));
	exit(2);
}

void nap(unsigned int ms)
{
	const struct timespec t = {.tv_sec = ms / 1000,
				   .tv_nsec = (ms % 1000) * 1000000l};

	nanosleep(&t, NULL);
}

bool late(void)
{
	return time(NULL) > deadline;
}

static int reap(const pid_t *pid)
{
	int bad = 0;

	for (int i = 0; i < opt.count; i++) {
		bool dying = sh->who[opt.base + i].dying;
		int status;

		waitpid(pid[i], &status, 0);
		if (dying && opt.how == BY_KILL && WIFSIGNALED(status) &&
		    WTERMSIG(status) == SIGKILL)
			continue;
		if (status) {
			fprintf(stderr, "mesh: process %d ended with %#x\n", opt.base + i,
				status);
			bad++;
		}
	}
	return bad;
}

static void share(void)
{
	int fd = open(opt.file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || ftruncate(fd, sizeof(*sh)))
		fatal(opt.file);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sh == MAP_FAILED)
		fatal(opt.file);
	close(fd);
}

static void go_on(void)
{
	while (sh->begun < opt.n && !late())
		nap(5);
	for (int ms = 0; ms < opt.seconds * 1000 && !late(); ms += 100)
		nap(100);
	sh->stop = 1;
}

static enum how how_of(const char *name)
{
	static const char *const names[] = {"kill",  "exit",   "exec",
					    "close", "thread", "fork"};

	for (int i = 0; i < 6; i++)
		if (!strcmp(name, names[i]))
			return (enum how)i;
	errno = EINVAL;
	fatal(name);
	return BY_KILL;
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "f:n:b:c:d:g:m:r:k:p:q:s:x:oit:T:")) != -1) {
		switch (c) {
		case 'f':
			opt.file = optarg;
			break;
		case 'n':
			opt.n = atoi(optarg);
			break;
		case 'b':
			opt.base = atoi(optarg);
			break;
		case 'c':
			opt.count = atoi(optarg);
			break;
		case 'd':
			opt.device = optarg;
			break;
		case 'g':
			opt.gid = atoi(optarg);
			break;
		case 'm':
			opt.mtu =
			    (enum ibv_mtu)(__builtin_ctz((unsigned int)atoi(optarg)) - 7);
			break;
		case 'r':
			opt.rounds = atoi(optarg);
			break;
		case 'k':
			opt.kills = atoi(optarg);
			break;
		case 'p':
			opt.stops = atoi(optarg);
			break;
		case 'q':
			opt.qps = atoi(optarg);
			break;
		case 'i':
			opt.invalidate = true;
			break;
		case 'T':
			opt.seconds = atoi(optarg);
			opt.rounds = INT_MAX;
			break;
		case 's':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		case 'x':
			opt.how = how_of(optarg);
			break;
		case 'o':
			opt.open_first = true;
			break;
		case 't':
			opt.limit = atoi(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (opt.count < 0)
		opt.count = opt.n - opt.base;
	if (opt.qps < 1 || opt.n * opt.qps > MAX_LINKS)
		exit(2);
	if (!opt.file || opt.n < 2 || opt.n > MAX_N || opt.base < 0 ||
	    opt.base + opt.count > opt.n)
		exit(2);
}

static void tell_load(void)
{
	unsigned long rounds = 0;
	long first = 0, last = 0;

	for (int i = opt.base; i < opt.base + opt.count; i++) {
		for (int l = 0; l < links(); l++)
			rounds += sh->who[i].sent[l];
		first += sh->who[i].kib[0];
		last += sh->who[i].kib[1];
	}
	printf("%d queue pairs, %lu rounds; own memory %ld KiB, at last %ld KiB\n",
	       opt.count * (opt.n - 1) * opt.qps, rounds, first, last);
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx = NULL;
	pid_t pid[MAX_N];
	int bad;

	options(argc, argv);
	share();
	deadline = time(NULL) + opt.limit;
	sh->kills += opt.kills + opt.stops;
	if (opt.open_first)
		ctx = open_device();
	for (int i = 0; i < opt.count; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			fatal("fork");
		if (!pid[i])
			exit(process(opt.base + i));
	}
	if (opt.kills + opt.stops && (opt.stops || opt.seed))
		chaos(pid);
	else if (opt.kills)
		kill_some(pid);
	if (opt.seconds)
		go_on();
	bad = reap(pid);
	if (ctx && ibv_close_device(ctx))
		bad++;
	if (opt.seconds)
		tell_load();
	printf("%d processes, %d bad\n", opt.count, bad);
	return bad != 0;
}
