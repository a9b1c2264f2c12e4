/*
 * points.c - reads what another process wrote; see points.h.
 */
#include "inject/points.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end_text(char *s, size_t size)
{
	s[size - 1] = '\0';
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			*s = '?';
}

static void make_safe(struct point *p)
{
	end_text(p->name, sizeof(p->name));
	end_text(p->object, sizeof(p->object));
	if (p->n_frames > POINTS_FRAMES)
		p->n_frames = POINTS_FRAMES;
	if (p->kind >= INJECT_N_KINDS)
		p->kind = 0;
	for (uint32_t i = 0; i < p->n_frames; i++)
		p->frame[i].module %= POINTS_MODULES;
}

static bool is_whole(const struct points *p, ssize_t n)
{
	return n == sizeof(*p) &&
	       !memcmp(p->who.magic, POINTS_MAGIC, sizeof(p->who.magic)) &&
	       p->who.version == POINTS_VERSION && p->who.size == sizeof(*p);
}

struct points *points_read(int fd)
{
	struct points *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	if (!is_whole(p, pread(fd, p, sizeof(*p), 0))) {
		free(p);
		return NULL;
	}
	if (p->n_points > POINTS_MAX)
		p->n_points = POINTS_MAX;
	end_text(p->who.program, sizeof(p->who.program));
	for (int i = 0; i < POINTS_MODULES; i++)
		end_text(p->module[i], sizeof(p->module[i]));
	for (uint32_t i = 0; i < p->n_points; i++)
		make_safe(&p->point[i]);
	for (int i = 0; i < INJECT_MAX_RULES; i++)
		make_safe(&p->hit[i].at);
	return p;
}
