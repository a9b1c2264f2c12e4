/*
 * options_profile.h - the setting of the profile.
 *
 * A part of options.c, which has the table that these functions are in.
 */
#ifndef URXE_VERBS_HOST_OPTIONS_PROFILE_H
#define URXE_VERBS_HOST_OPTIONS_PROFILE_H

#include "verbs/host/options.h"

int parse_profile(struct options *o, const char *v, char *err, size_t errlen);
bool format_profile(const struct options *o, char *buf, size_t len);

#endif
