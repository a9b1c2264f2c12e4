/*
 * test.c - of clamp(): the lower bound, and with UPPER the upper one, in a process group of its own as
 * tests by Check are
 */
#include <sys/wait.h>
#include <unistd.h>

int clamp(int v, int lo, int hi);

int main(void)
{
#ifdef UPPER
	int status = 1;

	if (!fork()) {
		setpgid(0, 0);
		_exit(clamp(9, 1, 5) != 5);
	}
	wait(&status);
	return status != 0;
#else
	return clamp(-9, 1, 5) != 1 || clamp(3, 1, 5) != 3;
#endif
}
