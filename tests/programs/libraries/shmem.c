/*
 * shmem.c - a program for OpenSHMEM: puts and atomics.
 */
#include <shmem.h>
static long slot[64], count;
int main(void)
{
	int me, n, i;

	shmem_init();
	me = shmem_my_pe();
	n = shmem_n_pes();
	for (i = 0; i < n; i++)
		shmem_long_p(&slot[me], me + 1, i);
	shmem_long_atomic_add(&count, 1, 0);
	shmem_barrier_all();
	for (i = 0; i < n; i++)
		if (slot[i] != i + 1)
			return 1;
	if (!me && count != n)
		return 2;
	shmem_finalize();
	return 0;
}
