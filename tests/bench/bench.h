/*
 * bench.h - what the benchmark programs share: time, the pair of processes, results.
 *
 * A benchmark forks: the parent measures, the child is its peer; they talk over a
 * socketpair. Results are lines "NAME VALUE UNIT" on stdout, which report.py puts side by
 * side.
 */
#ifndef URXE_BENCH_H
#define URXE_BENCH_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

/* CLOCK_MONOTONIC, ns */
uint64_t bench_now(void);
/* Print a reason and exit 1 (both processes end: the other sees its socketpair close) */
noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * bench_fork - make the peer. Returns 0 in the parent, 1 in the child; *@sock talks to
 * the other
 */
int bench_fork(int *sock);
/* Both ends call it; each gets the other's bytes. */
void bench_exchange(int sock, const void *mine, void *theirs, size_t len);
/* Both ends wait for each other. */
void bench_barrier(int sock);
void bench_result(const char *name, double value, const char *unit);
/* The median of @n samples; sorts them */
double bench_median(double *v, size_t n);

#endif
