/* options_profile.c - the setting of the profile, see options_profile.h */
#include "verbs/host/options_profile.h"

#include "verbs/host/options_text.h"
#include "verbs/host/profile.h"

int parse_profile(struct options *o, const char *v, char *err, size_t errlen)
{
	struct profile p;
	char why[400];

	if (profile_load(v, &p, why, sizeof(why)))
		return bad(err, errlen, "%s", why);
	return take_text(o->profile, sizeof(o->profile), v, err, errlen);
}

bool format_profile(const struct options *o, char *buf, size_t len)
{
	if (profile_is_file(o->profile))
		return give_path("", o->profile, buf, len);
	return give_text(o->profile, buf, len);
}
