/*
 * injected.c - see injected.h.
 *
 * A rule that never acted is misspelt, or the program does not go where it is meant for: a test
 * that depends on it would pass without having tested anything.
 */
#include "tools/injected.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tools.h"

/* The file of the process @number; NULL: there is none */
static struct points *read_process(int dir, unsigned int number, bool *there)
{
	struct points *p = NULL;
	struct stat st;
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "%u", number);
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	*there = fd >= 0;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		p = points_read(fd);
	if (fd >= 0)
		close(fd);
	return p;
}

void injected_all(const char *dir, void (*fn)(void *arg, const struct points *p),
		  void *arg)
{
	char path[300];
	bool there = true;
	int fd;

	snprintf(path, sizeof(path), "%s/" POINTS_DIR, dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (unsigned int i = 1; fd >= 0 && there; i++) {
		struct points *p = read_process(fd, i, &there);

		if (p)
			fn(arg, p);
		free(p);
	}
	if (fd >= 0)
		close(fd);
}

/* struct sums - how often rules acted, in all @processes */
struct sums {
	unsigned int processes;
	uint64_t hits[INJECT_MAX_RULES];
};

static void add(void *arg, const struct points *p)
{
	struct sums *s = arg;

	s->processes++;
	for (int i = 0; i < INJECT_MAX_RULES; i++)
		s->hits[i] += p->hit[i].count;
}

void injected_warn(const char *dir, const char *text)
{
	static struct inject_rule rule[INJECT_MAX_RULES];
	struct sums s = {0};
	int n = *text ? inject_parse(text, rule, INJECT_MAX_RULES, NULL, 0) : 0;

	if (n > 0)
		injected_all(dir, add, &s);
	for (int i = 0; i < n && s.processes; i++)
		if (!s.hits[i] && !rule[i].learn && !rule[i].reach)
			usage_error(
			    "--inject: rule %d (%s) did not act: no process came to "
			    "its place that often",
			    i + 1, inject_kind_word(rule[i].kind));
}
