/*
 * replay.c - runs a fuzz target without libFuzzer: with each file of a directory, with all of its
 * beginnings, and with changes to it that follow from a seed.
 *
 * usage: TARGET DIRECTORY [CHANGES [SEED]]
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/splitmix.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX 65536

static uint8_t file[INPUT_MAX], changed[INPUT_MAX];
static uint64_t state, runs;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(splitmix_next(&state) % n);
}

/* An exact copy, so that a sanitizer sees what is read behind its end */
static void run(const uint8_t *data, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, data, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
	runs++;
}

static void change(size_t n)
{
	uint32_t times = 1 + below(8);

	memcpy(changed, file, n);
	while (times--) {
		uint32_t at = below((uint32_t)n), value = below(256);

		switch (below(4)) {
		case 0:
			changed[at] ^= (uint8_t)(1u << value % 8);
			break;
		case 1:
			changed[at] = (uint8_t)value;
			break;
		case 2:
			changed[at] = value % 2 ? 0xff : 0;
			break;
		default:
			changed[at] = changed[below((uint32_t)n)];
			break;
		}
	}
	run(changed, n);
}

static int replay(const char *path, unsigned long changes)
{
	FILE *f = fopen(path, "rb");
	size_t n, i;

	if (!f) {
		perror(path);
		return 1;
	}
	n = fread(file, 1, sizeof(file), f);
	fclose(f);
	run(file, n);
	for (i = 0; i < n && i < 128; i++)
		run(file, i);
	for (i = 0; n && i < changes; i++)
		change(n);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long changes = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	char path[4096];
	struct dirent *e;
	unsigned int files = 0;
	DIR *d;

	if (argc < 2 || !(d = opendir(argv[1]))) {
		fprintf(stderr, "usage: %s DIRECTORY [CHANGES [SEED]]\n", argv[0]);
		return 2;
	}
	state = argc > 3 ? strtoul(argv[3], NULL, 0) : 1;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
		if (replay(path, changes))
			return 1;
		files++;
	}
	closedir(d);
	printf("%u files, %llu inputs\n", files, (unsigned long long)runs);
	/* a target without a corpus tests nothing */
	return files ? 0 : 1;
}
