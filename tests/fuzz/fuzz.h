/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target is a file with one function, fuzz_one(), which takes any bytes and must come back.
 * Built with -Dfuzz=true (clang), libFuzzer looks for bytes that reach new code; else
 * replay.c calls it with the files of the corpus and with changed ones, as a test.
 */
#ifndef URXE_TESTS_FUZZ_H
#define URXE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* struct input - what is left of the bytes; zeroes come after their end */
struct input {
	const uint8_t *p;
	size_t n;
};

static inline uint8_t take8(struct input *in)
{
	if (!in->n)
		return 0;
	in->n--;
	return *in->p++;
}

static inline void take(struct input *in, void *to, size_t n)
{
	size_t have = n < in->n ? n : in->n;

	memset(to, 0, n);
	memcpy(to, in->p, have);
	in->p += have;
	in->n -= have;
}

static inline uint16_t take16(struct input *in)
{
	uint16_t v;

	take(in, &v, sizeof(v));
	return v;
}

static inline uint32_t take32(struct input *in)
{
	uint32_t v;

	take(in, &v, sizeof(v));
	return v;
}

static inline uint64_t take64(struct input *in)
{
	uint64_t v;

	take(in, &v, sizeof(v));
	return v;
}

#endif
