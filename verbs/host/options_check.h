/*
 * options_check.h - the settings of the checker, of the table in options.c: from text and back.
 */
#ifndef URXE_VERBS_HOST_OPTIONS_CHECK_H
#define URXE_VERBS_HOST_OPTIONS_CHECK_H

#include "verbs/host/options.h"

int parse_check(struct options *o, const char *v, char *err, size_t errlen);
bool format_check(const struct options *o, char *buf, size_t len);
int parse_check_log(struct options *o, const char *v, char *err, size_t errlen);
bool format_check_log(const struct options *o, char *buf, size_t len);
int parse_check_json(struct options *o, const char *v, char *err, size_t errlen);
bool format_check_json(const struct options *o, char *buf, size_t len);
int parse_check_sarif(struct options *o, const char *v, char *err, size_t errlen);
bool format_check_sarif(const struct options *o, char *buf, size_t len);
int parse_check_suppressions(struct options *o, const char *v, char *err, size_t errlen);
bool format_check_suppressions(const struct options *o, char *buf, size_t len);
int parse_check_exitcode(struct options *o, const char *v, char *err, size_t errlen);
bool format_check_exitcode(const struct options *o, char *buf, size_t len);

#endif
