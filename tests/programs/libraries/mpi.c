/*
 * mpi.c - a program for MPI: collectives, large messages, and windows with fences and locks.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#define BIG	 (8 << 20)
#define CHECK(x) ((x) ? 0 : MPI_Abort(MPI_COMM_WORLD, __LINE__))
static char a[BIG], b[BIG];
static int rank, n, left, right;

static void messages(void)
{
	int sum, len = BIG / n / 64 * 64, i;

	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(sum == n * (n - 1) / 2);
	for (i = 0; i < n; i++)
		memset(a + i * len, rank * 16 + i, len);
	MPI_Alltoall(a, len, MPI_CHAR, b, len, MPI_CHAR, MPI_COMM_WORLD);
	for (i = 0; i < n; i++)
		CHECK(b[i * len + len - 1] == (char)(i * 16 + rank));
	memset(a, rank ? 0 : 7, BIG);
	MPI_Bcast(a, BIG, MPI_CHAR, 0, MPI_COMM_WORLD);
	CHECK(a[BIG - 1] == 7);
	memset(a, rank + 1, BIG);
	MPI_Sendrecv(a, BIG, MPI_CHAR, right, 0, b, BIG, MPI_CHAR, left, 0,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	CHECK(b[0] == left + 1 && b[BIG - 1] == left + 1);
}

static void windows(void)
{
	int *w, one = 1, old, i;
	MPI_Win win;

	MPI_Win_allocate(1024 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
			 &w, &win);
	memset(w, 0, 1024 * sizeof(int));
	MPI_Win_fence(0, win);
	for (i = 0; i < n; i++)
		MPI_Put(&rank, 1, MPI_INT, i, rank + 1, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (i = 0; i < n; i++)
		CHECK(w[1 + i] == i);
	for (i = 0; i < 2 * n; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, i % n, 0, win);
		MPI_Fetch_and_op(&one, &old, MPI_INT, i % n, 0, MPI_SUM, win);
		MPI_Win_unlock(i % n, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	CHECK(w[0] == 2 * n);
	MPI_Win_unlock(rank, win);
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	left = (rank + n - 1) % n;
	right = (rank + 1) % n;
	messages();
	windows();
	MPI_Finalize();
	return 0;
}
