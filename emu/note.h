/*
 * note.h - what is wrong, in a sentence, once: for stderr, and for who looks later.
 *
 * A note is an object of the recorder, so `urxe why` finds it whatever became of the program.
 * The same thing again is counted, not said again, and of one cause a few lines are said only.
 */
#ifndef URXE_EMU_NOTE_H
#define URXE_EMU_NOTE_H

#include "emu/objects.h"

/*
 * struct emu_about - what a note is about
 * @say:	tell the user now; else it is only kept
 * @detail:	notes of one cause about one object that differ in it are different ones
 */
struct emu_about {
	enum trace_note_code cause;
	enum trace_object_kind object;
	uint32_t id;
	uint32_t detail;
	bool say;
};

/* Was nothing like it noted yet? Else it is counted: there is no need to find words for it */
bool emu_note_is_new(struct emu_hca *hca, const struct emu_about *about);
/* The sentence; of a QP without its name, which is put before it */
void emu_note(struct emu_hca *hca, const struct emu_about *about, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void emu_notes_fini(struct emu_hca *hca);

#endif
