/* options_check.c - the settings of the checker, see options_check.h */
#include "verbs/host/options_check.h"

#include <ctype.h>
#include <stdlib.h>

#include "check/ids.h"
#include "verbs/host/options_text.h"

static bool is_check_class(const char *name, size_t len)
{
	static const char *const classes[] = {
#define X(name, text) text,
	    CHECK_CLASSES(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strlen(classes[i]) == len && !strncmp(classes[i], name, len))
			return true;
	return len == 3 && !strncmp(name, "all", len);
}

int parse_check(struct options *o, const char *v, char *err, size_t errlen)
{
	for (const char *p = v; *p;) {
		size_t n = strcspn(p, ",");

		if (!is_check_class(p, n))
			return bad(err, errlen, "'%.*s' is no class of findings",
				   n > 64 ? 64 : (int)n, p);
		p += n + (p[n] == ',');
	}
	return take_text(o->check, sizeof(o->check), v, err, errlen);
}

bool format_check(const struct options *o, char *buf, size_t len)
{
	return give_text(o->check, buf, len);
}

/* A file that the member @name names */
#define CHECK_FILE(name)                                                                 \
	int parse_##name(struct options *o, const char *v, char *err, size_t errlen)     \
	{                                                                                \
		return take_text(o->name, sizeof(o->name), v, err, errlen);              \
	}                                                                                \
	bool format_##name(const struct options *o, char *buf, size_t len)               \
	{                                                                                \
		return *o->name && give_path("", o->name, buf, len);                     \
	}

CHECK_FILE(check_log)
CHECK_FILE(check_json)
CHECK_FILE(check_sarif)
CHECK_FILE(check_suppressions)

int parse_check_exitcode(struct options *o, const char *v, char *err, size_t errlen)
{
	char *end;
	unsigned long n = strtoul(v, &end, 10);

	if (!isdigit((unsigned char)*v) || *end || n > 255)
		return bad(err, errlen, "'%.64s' is no exit code (0 to 255)", v);
	o->check_exitcode = (int)n;
	return 0;
}

bool format_check_exitcode(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "%d", o->check_exitcode);
	return o->check_exitcode;
}
