/*
 * note.c - see note.h.
 */
#include "emu/note.h"

#include <stdarg.h>
#include <stdio.h>

#define SAY_MAX 4 /* lines of one cause */

static struct trace_object *find(const struct emu_notes *all,
				 const struct emu_about *about)
{
	for (uint32_t i = 0; i < all->n; i++) {
		const struct trace_note *n = &all->seen[i]->note;

		if (n->cause == about->cause && n->about == about->object &&
		    n->about_id == about->id && all->detail[i] == about->detail)
			return all->seen[i];
	}
	return NULL;
}

bool emu_note_is_new(struct emu_hca *hca, const struct emu_about *about)
{
	struct trace_object *o = find(&hca->notes, about);

	if (!o)
		return hca->notes.n < EMU_NOTES_MAX;
	o->note.count++;
	o->note.last = hca->now;
	return false;
}

static void say(struct emu_hca *hca, const struct emu_about *about, struct trace_note *n)
{
	uint8_t *said = &hca->notes.said[about->cause];
	char line[sizeof(n->text) + 64];

	if (!about->say || !hca->ops->trace || *said == SAY_MAX)
		return;
	++*said;
	n->said = true;
	snprintf(line, sizeof(line), "%s%s", n->text,
		 *said == SAY_MAX ? " (more of this kind: see urxe why)" : "");
	hca->ops->trace(hca->arg, line);
}

/* Names of MRs are the program's. */
static void make_printable(char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
}

void emu_note(struct emu_hca *hca, const struct emu_about *about, const char *fmt, ...)
{
	struct emu_notes *all = &hca->notes;
	struct trace_object *o;
	int len = 0;
	va_list ap;

	if (!emu_note_is_new(hca, about))
		return;
	o = recorder_object(hca->cfg.recorder);
	if (!o)
		return;
	o->note = (struct trace_note){.last = hca->now,
				      .count = 1,
				      .about = (uint8_t)about->object,
				      .about_id = about->id,
				      .cause = (uint8_t)about->cause};
	if (about->object == TRACE_OBJ_QP)
		len = snprintf(o->note.text, sizeof(o->note.text),
			       "QP 0x%06x: ", about->id);
	va_start(ap, fmt);
	vsnprintf(o->note.text + len, sizeof(o->note.text) - (size_t)len, fmt, ap);
	va_end(ap);
	make_printable(o->note.text);
	all->detail[all->n] = about->detail;
	all->seen[all->n++] = o;
	o->id = all->n;
	o->device = hca->cfg.device;
	o->created = hca->now;
	say(hca, about, &o->note);
	recorder_object_ready(o, TRACE_OBJ_NOTE);
	EMU_TRACE(hca, note, .note = o->id, .id = about->id,
		  .object = (uint8_t)about->object, .cause = (uint8_t)about->cause);
}

void emu_notes_fini(struct emu_hca *hca)
{
	for (uint32_t i = 0; i < hca->notes.n; i++)
		recorder_object_free(hca->cfg.recorder, hca->notes.seen[i]);
	hca->notes.n = 0;
}
