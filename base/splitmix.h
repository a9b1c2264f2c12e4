/*
 * splitmix.h - numbers that look random and follow from a seed (splitmix64, public domain:
 * every seed is good).
 */
#ifndef URXE_BASE_SPLITMIX_H
#define URXE_BASE_SPLITMIX_H

#include <stdint.h>

/* 2^64 divided by the golden ratio; odd, so that multiples of it meet late */
#define SPLITMIX_STEP 0x9e3779b97f4a7c15ull

/* Spread what differs in few bits over all 64. */
static inline uint64_t splitmix_mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* The next number of the sequence that *@state, which began with a seed, is in */
static inline uint64_t splitmix_next(uint64_t *state)
{
	return splitmix_mix(*state += SPLITMIX_STEP);
}

#endif
