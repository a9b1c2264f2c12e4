/*
 * recording.h - where the engine's recorder is, and what becomes of it.
 *
 * The segment is a file of the session, under the process id, where `urxe run` and
 * `urxe stat` find it; without a session, or where no file can be made, it is memory of the
 * process, which then reports by itself only.
 */
#ifndef URXE_VERBS_ENGINE_RECORDING_H
#define URXE_VERBS_ENGINE_RECORDING_H

#include "trace/recorder.h"
#include "verbs/host/options.h"

/* recording_start - 0 or -ENOMEM */
int recording_start(const struct options *o, struct recorder **out);
/* recording_discard - the engine did not come up: as if it had never been */
void recording_discard(struct recorder *r);
/* recording_report - the process ends: write what --stats asked for, and say so */
void recording_report(struct recorder *r, const struct options *o);

#endif
