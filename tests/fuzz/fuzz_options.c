/*
 * fuzz_options.c - the texts of options: each is taken, or refused with one line.
 */
#include <stdlib.h>

#include "net/impair.h"
#include "odp/script.h"
#include "tests/fuzz/fuzz.h"
#include "verbs/host/options.h"
#include "verbs/host/profile.h"

#define TEXT	600
#define NOWHERE 8192 /* bytes that comments may have */

static void must_be_a_line(const char *err)
{
	const char *p;

	if (!*err)
		abort();
	for (p = err; *p; p++)
		if ((unsigned char)*p < ' ')
			abort();
}

static void option(const struct option_desc *d, const char *text)
{
	char err[256] = "";
	struct options o;

	options_default(&o);
	if (d->name && options_set(&o, d->name, text, err, sizeof(err)))
		must_be_a_line(err);
}

static void languages(const char *text)
{
	struct script *script;
	char err[256] = "";

	if (impair_check(text, err, sizeof(err)))
		must_be_a_line(err);
	err[0] = '\0';
	if (script_parse(text, &script, err, sizeof(err)))
		must_be_a_line(err);
	else
		free(script);
}

static void profiles(const char *text)
{
	FILE *nowhere = fmemopen(NULL, NOWHERE, "w");
	struct profile p;
	char err[256] = "";

	if (profile_parse(text, &p, err, sizeof(err)))
		must_be_a_line(err);
	err[0] = '\0';
	if (nowhere && profile_from_devinfo(text, NULL, &p, nowhere, err, sizeof(err)))
		must_be_a_line(err);
	if (nowhere)
		fclose(nowhere);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t which = take8(&in);
	size_t rows = 0, len = in.n;
	char text[TEXT + 1];

	if (len > TEXT)
		len = TEXT;
	take(&in, text, len);
	text[len] = '\0';
	while (options_desc(rows))
		rows++;
	option(options_desc(which % rows), text);
	languages(text);
	options_nearest(text, which & 1);
	profiles(text);
	return 0;
}
