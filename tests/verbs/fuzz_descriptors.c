/* fuzz_descriptors.c - open, dup, close, read, fork and exec. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/verbs/fuzz_face.h"

void fuzz_fork(struct rng *r)
{
	struct rng mine = {rnd(r) | 1};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(LIMIT / 2);
		for (int i = 0; i < 8; i++)
			i & 1 ? fuzz_write(&mine) : fuzz_ring(&mine);
		keep_fd(&mine, ready_context(&mine));
		fuzz_build(&mine);
		fuzz_ring(&mine);
		if (one_in(&mine, 2))
			execl("/bin/true", "true", NULL);
		if (one_in(&mine, 2))
			exit(0);
		_exit(0);
	}
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status)) {
		fprintf(stderr, "a child of fork ended with status %#x\n", status);
		_exit(3);
	}
}

void fuzz_descriptor(struct rng *r)
{
	uint8_t buf[256];
	int fd = some_fd(r);

	switch (below(r, 9)) {
	case 0:
		keep_fd(r, ready_context(r));
		break;
	case 1:
		keep_fd(r, open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK));
		break;
	case 2:
		keep_fd(r, dup(fd));
		break;
	case 3:
		keep_fd(r, fcntl(fd, F_DUPFD_CLOEXEC, below(r, 200)));
		break;
	case 4:
		comp_channel(r);
		break;
	case 5:
		drop_fd((int)(one_in(r, 20) ? 0 : CONTEXTS) +
			(int)below(r, FDS - CONTEXTS));
		break;
	case 6:
		if (fd >= 0 && ftruncate(fd, some_u32(r)))
			break;
		break;
	default:
		if (fd >= 0 && read(fd, buf, below(r, sizeof(buf))) < 0)
			break;
	}
}
