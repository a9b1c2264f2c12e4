/*
 * checked.h - what the checker (check/) has found in the programs of a run.
 */
#ifndef URXE_TOOLS_CHECKED_H
#define URXE_TOOLS_CHECKED_H

#include "verbs/host/options.h"

/*
 * checked_report - print those in the session's directory as the options say; a line on stderr if
 * a file cannot be written. How many are errors or hazards, and neither suppressed nor
 * expected by the program
 */
unsigned int checked_report(const struct options *o);
/* The file of suppressions can be read: 0, or -errno */
int checked_suppressions(const char *path);

#endif
