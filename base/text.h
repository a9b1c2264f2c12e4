/*
 * text.h - text that was given by a user, on its way to a terminal.
 */
#ifndef URXE_BASE_TEXT_H
#define URXE_BASE_TEXT_H

/* One line, without control characters: each becomes a question mark */
static inline void text_make_line(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			*s = '?';
}

#endif
