/*
 * stats.h - what a run did, for people and for programs.
 *
 * Reads counters of memory regions, devices and network and writes them as a table or as
 * JSON. Keeps nothing and changes nothing.
 */
#ifndef URXE_VERBS_ENGINE_STATS_H
#define URXE_VERBS_ENGINE_STATS_H

#include <stdio.h>

#include "verbs/engine/engine.h"

/*
 * stats_report - at the end of the process
 * @spec: "text": the table, to @fallback; "json:FILE": JSON to FILE, in which %p stands
 * for the process id. A FILE that cannot be written is told on @fallback.
 *
 * Takes no lock: a thread that holds one may be the thread that exits.
 */
void stats_report(struct engine *e, const char *spec, FILE *fallback);

/* stats_json, stats_text - the same to an open stream */
void stats_json(struct engine *e, FILE *out);
void stats_text(struct engine *e, FILE *out);

/*
 * stats_listen - begin to be seen by `urxe stat`, which looks into the session directory
 * @dir. A descriptor that is readable when somebody asks, or -errno
 */
int stats_listen(const char *dir);
/* stats_answer - answer one who asked; never waits */
void stats_answer(struct engine *e, int listener);

#endif
