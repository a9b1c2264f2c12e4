/*
 * Description: whatever a program throws at the devices' descriptors, nothing crashes,
 * hangs, leaks descriptors or writes where it must not.
 *
 * Several threads send random and half-right commands by write(2) and ioctl(2), scribble
 * over the mapped rings, and close, duplicate, fork and exec meanwhile. All is drawn from
 * a seed, though threads make the order vary:
 *
 *	fuzz_face LIBRARY [--seed N] [--seeds COUNT] [--rounds N]
 *
 * Each seed is a process with LIBRARY preloaded. A file for each kind of call: fuzz_write.c,
 * fuzz_ioctl.c, fuzz_rings.c, fuzz_cm.c, fuzz_descriptors.c.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/splitmix.h"
#include "tests/verbs/fuzz_face.h"
#include "verbs/host/sysfs.h"

#define THREADS 3

static uint8_t *canary; /* memory that nothing names */
static unsigned int rounds = 400;

/* --- a seed ----------------------------------------------------------------------- */

static void *fuzz(void *arg)
{
	struct rng r = {(uintptr_t)arg};

	for (unsigned int i = 0; i < rounds; i++) {
		switch (below(&r, 16)) {
		case 0:
		case 1:
			fuzz_descriptor(&r);
			break;
		case 2:
			fuzz_build(&r);
			break;
		case 3:
		case 4:
			fuzz_ioctl(&r);
			break;
		case 5:
		case 6:
			fuzz_cm(&r);
			break;
		case 7:
		case 8:
		case 9:
		case 10:
			fuzz_ring(&r);
			break;
		case 11:
			if (one_in(&r, 20))
				fuzz_fork(&r);
			break;
		default:
			fuzz_write(&r);
		}
	}
	return NULL;
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 2048; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static uint8_t *map(size_t len, int prot)
{
	uint8_t *p =
	    mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		_exit(4);
	return p;
}

static void make_memory(void)
{
	uint8_t *p = map(3 * (size_t)ARENA, PROT_NONE);

	shared.nowhere = map(ARENA, PROT_NONE);
	shared.read_only = map(2 * 4096, PROT_READ);
	canary = map(ARENA, PROT_READ | PROT_WRITE);
	memset(canary, 0x5a, ARENA);
	shared.arena = p + ARENA; /* holes before and behind */
	if (mprotect(shared.arena, ARENA, PROT_READ | PROT_WRITE))
		_exit(4);
}

static int run_seed(uint64_t seed)
{
	struct rng r = {seed * SPLITMIX_STEP | 1};
	pthread_t t[THREADS];
	int before, after;

	alarm(LIMIT);
	make_memory();
	signal(SIGBUS, fuzz_ring_on_bus);
	for (int i = 0; i < FDS; i++)
		shared.fds[i] = -1;
	keep_fd(&r,
		ready_context(&r)); /* starts the engine, which keeps what it opened */
	keep_fd(&r, open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK));
	for (int i = 0; i < FDS; i++)
		drop_fd(i);
	before = open_fds();
	for (int i = 0; i < CONTEXTS; i++)
		shared.fds[i] = ready_context(&r);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, fuzz, (void *)(uintptr_t)(rnd(&r) | 1)))
			return 4;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < FDS; i++)
		drop_fd(i);
	for (uint32_t i = 0; i < ARENA; i++) {
		if (canary[i] != 0x5a) {
			fprintf(stderr, "memory that nobody named was written to\n");
			return 5;
		}
	}
	after = open_fds();
	if (after > before + 16) { /* a socket per address is no leak */
		fprintf(stderr, "%d descriptors became %d\n", before, after);
		return 6;
	}
	return 0;
}

/* --- running itself --------------------------------------------------------------- */

static int spawn(const char *self, const char *library, uint64_t seed)
{
	char text[32], n[32];
	pid_t pid = fork();
	int status = 0;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
	snprintf(n, sizeof(n), "%u", rounds);
	if (!pid) {
		const char *also = getenv("FUZZ_PRELOAD");
		char list[4096];

		snprintf(list, sizeof(list), "%s%s%s", also ? also : "", also ? ":" : "",
			 library);
		setenv("LD_PRELOAD", list, 1);
		execl(self, self, library, "--one", text, n, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "seed %s: status %#x\n", text, status);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/urxe-fuzz-XXXXXX", err[256], cmd[64];
	uint64_t seed = 1, seeds = 6;
	struct sysfs_device dev;
	int failed = 0;

	if (argc == 5 && !strcmp(argv[2], "--one")) {
		rounds = (unsigned int)strtoul(argv[4], NULL, 0);
		return run_seed(strtoull(argv[3], NULL, 0));
	}
	for (int i = 2; i + 1 < argc; i += 2) {
		uint64_t v = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--seed"))
			seed = v;
		else if (!strcmp(argv[i], "--seeds"))
			seeds = v;
		else if (!strcmp(argv[i], "--rounds"))
			rounds = (unsigned int)v;
	}
	if (argc < 2 || !mkdtemp(dir) || sysfs_device_init(&dev, "rxe0", "lo") ||
	    sysfs_write_tree(dir, &dev, 1, err, sizeof(err)))
		return 99;
	setenv("URXE_DIR", dir, 1);
	setenv("URXE_DEVICE", "rxe0=lo", 1);
	setenv("MALLOC_PERTURB_", "165", 0);
	for (uint64_t i = 0; i < seeds; i++)
		failed |= spawn("/proc/self/exe", argv[1], seed + i);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) || failed;
}
