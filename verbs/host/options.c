/*
 * options.c - the table of settings: their names, variables, syntax, help.
 *
 * Owns the text form of every setting, in both directions. Knows neither whether an
 * interface exists nor what a value does; allocates nothing, so that the preload library
 * may call it in its constructor.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/impair.h"
#include "verbs/host/options.h"
#include "verbs/host/options_check.h"
#include "verbs/host/options_profile.h"
#include "verbs/host/options_text.h"

#define NAME_LEN_MAX 40	    /* of names that are compared */
#define EXPLAIN_MAX  86400u /* seconds */
#define NEAR	     4 /* letters by which a name may be wrong to be taken for another */
#define VALUE_MAX    INJECT_TEXT_MAX /* bytes of a value as text, the longest */

/*
 * struct row - one setting
 * @parse:	0, or -EINVAL with a reason in @err
 * @clear:	as if it had not been given; only where values add up
 * @format:	the text that @parse would take; false when the setting has its default
 */
struct row {
	struct option_desc d;
	int (*parse)(struct options *o, const char *value, char *err, size_t errlen);
	bool (*format)(const struct options *o, char *buf, size_t len);
	void (*clear)(struct options *o);
};

/* --- texts ------------------------------------------------------------------------ */

static int parse_dir(struct options *o, const char *v, char *err, size_t errlen)
{
	if (*v && *v != '/')
		return bad(err, errlen, "'%s' is not an absolute path", v);
	return take_text(o->dir, sizeof(o->dir), v, err, errlen);
}

static bool format_dir(const struct options *o, char *buf, size_t len)
{
	return give_text(o->dir, buf, len);
}

static int parse_command(struct options *o, const char *v, char *err, size_t errlen)
{
	return take_text(o->command, sizeof(o->command), v, err, errlen);
}

static bool format_command(const struct options *o, char *buf, size_t len)
{
	return give_text(o->command, buf, len);
}

static int parse_backend(struct options *o, const char *v, char *err, size_t errlen)
{
	if (strcmp(v, "socket") && strcmp(v, "uring"))
		return bad(err, errlen, "'%s' is neither socket nor uring", v);
	return take_text(o->backend, sizeof(o->backend), v, err, errlen);
}

static bool format_backend(const struct options *o, char *buf, size_t len)
{
	return give_text(o->backend, buf, len);
}

static int parse_stats(struct options *o, const char *v, char *err, size_t errlen)
{
	if (strcmp(v, "text") && (strncmp(v, "json:", 5) || !v[5]))
		return bad(err, errlen, "'%s' is neither text nor json:FILE", v);
	return take_text(o->stats, sizeof(o->stats), v, err, errlen);
}

static bool format_stats(const struct options *o, char *buf, size_t len)
{
	if (!strncmp(o->stats, "json:", 5))
		return give_path("json:", o->stats + 5, buf, len);
	return give_text(o->stats, buf, len);
}

static int parse_pcap(struct options *o, const char *v, char *err, size_t errlen)
{
	return take_text(o->pcap, sizeof(o->pcap), v, err, errlen);
}

static bool format_pcap(const struct options *o, char *buf, size_t len)
{
	return *o->pcap && give_path("", o->pcap, buf, len);
}

static int parse_trace(struct options *o, const char *v, char *err, size_t errlen)
{
	return take_text(o->trace, sizeof(o->trace), v, err, errlen);
}

static int parse_report(struct options *o, const char *v, char *err, size_t errlen)
{
	return take_text(o->report_on_failure, sizeof(o->report_on_failure), v, err,
			 errlen);
}

static bool format_report(const struct options *o, char *buf, size_t len)
{
	return *o->report_on_failure && give_path("", o->report_on_failure, buf, len);
}

static bool format_trace(const struct options *o, char *buf, size_t len)
{
	return *o->trace && give_path("", o->trace, buf, len);
}

static int parse_impair(struct options *o, const char *v, char *err, size_t errlen)
{
	char why[120];

	if (impair_check(v, why, sizeof(why)))
		return bad(err, errlen, "%s", why);
	return take_text(o->impair, sizeof(o->impair), v, err, errlen);
}

static bool format_impair(const struct options *o, char *buf, size_t len)
{
	return give_text(o->impair, buf, len);
}

static int parse_shm_dir(struct options *o, const char *v, char *err, size_t errlen)
{
	if (*v && *v != '/')
		return bad(err, errlen, "'%s' is not an absolute path", v);
	return take_text(o->shm_dir, sizeof(o->shm_dir), v, err, errlen);
}

static bool format_shm_dir(const struct options *o, char *buf, size_t len)
{
	return give_text(o->shm_dir, buf, len);
}

/* --- devices ---------------------------------------------------------------------- */

/* Names that can stand in a path of sysfs and in a list of ours */
static bool name_ok(const char *s, size_t len)
{
	if (!len || (len <= 2 && !strncmp(s, "..", len)))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isgraph((unsigned char)s[i]) || strchr("/,=", s[i]))
			return false;
	return true;
}

static int add_device(struct options *o, const char *s, size_t len, char *err,
		      size_t errlen)
{
	const char *eq = memchr(s, '=', len);
	size_t nlen = eq ? (size_t)(eq - s) : len;
	const char *ifname = s + nlen + 1;
	size_t iflen = eq ? len - nlen - 1 : 0;
	int show = len < 64 ? (int)len : 64;

	if (!eq || !name_ok(s, nlen) || !name_ok(ifname, iflen))
		return bad(err, errlen, "'%.*s' is not NAME=IFACE", show, s);
	/*
	 * librxe of rdma-core claims a device by this prefix when netlink does not name
	 * it.
	 */
	if (nlen < 3 || strncmp(s, "rxe", 3))
		return bad(err, errlen, "device name '%.*s' does not begin with rxe",
			   nlen < 64 ? (int)nlen : 64, s);
	if (nlen >= sizeof(o->device[0].name) || iflen >= sizeof(o->device[0].ifname))
		return bad(err, errlen, "'%.*s': names have at most 15 bytes", show, s);
	if (o->n_devices == OPTIONS_MAX_DEVICES)
		return bad(err, errlen, "more than %d devices", OPTIONS_MAX_DEVICES);
	for (unsigned int i = 0; i < o->n_devices; i++) {
		if (!strncmp(o->device[i].name, s, nlen) && !o->device[i].name[nlen])
			return bad(err, errlen, "device %s is given twice",
				   o->device[i].name);
		/* rdma_rxe: one device per interface */
		if (!strncmp(o->device[i].ifname, ifname, iflen) &&
		    !o->device[i].ifname[iflen])
			return bad(err, errlen, "interface %s is given twice",
				   o->device[i].ifname);
	}
	memset(&o->device[o->n_devices], 0, sizeof(o->device[0]));
	memcpy(o->device[o->n_devices].name, s, nlen);
	memcpy(o->device[o->n_devices].ifname, ifname, iflen);
	o->n_devices++;
	return 0;
}

static int parse_device(struct options *o, const char *v, char *err, size_t errlen)
{
	for (;;) {
		size_t n = strcspn(v, ",");
		int ret = add_device(o, v, n, err, errlen);

		if (ret || !v[n])
			return ret;
		v += n + 1;
	}
}

static bool format_device(const struct options *o, char *buf, size_t len)
{
	size_t n = 0;

	for (unsigned int i = 0; i < o->n_devices && n < len; i++)
		n += snprintf(buf + n, len - n, "%s%s=%s", i ? "," : "",
			      o->device[i].name, o->device[i].ifname);
	return o->n_devices;
}

static void clear_devices(struct options *o)
{
	o->n_devices = 0;
}

/* --- on-demand paging ------------------------------------------------------------- */

/*
 * Model and latency of faults, and the start of page tables are lists: VALUE for all,
 * DEVICE:VALUE, mr=NAME:VALUE. A rule has some of the three.
 */

/* The rule of that name, a new one if there is none; NULL: too many */
static struct odp_fault_rule *rule_of(struct odp_fault_rule *rules, unsigned int *n,
				      unsigned int max, const char *name, size_t len)
{
	for (unsigned int i = 0; i < *n; i++)
		if (!strncmp(rules[i].name, name, len) && !rules[i].name[len])
			return &rules[i];
	if (*n == max)
		return NULL;
	memset(&rules[*n], 0, sizeof(*rules));
	memcpy(rules[*n].name, name, len);
	return &rules[(*n)++];
}

/* @where, up to the colon: a device, or mr=NAME */
static int find_rule(struct options *o, const char *where, size_t len,
		     struct odp_fault_rule **rule, char *err, size_t errlen)
{
	bool mr = len >= 3 && !strncmp(where, "mr=", 3);
	const char *name = mr ? where + 3 : where;
	size_t nlen = mr ? len - 3 : len;
	size_t room = mr ? sizeof((*rule)->name) : sizeof(o->device[0].name);

	if (!mr && (!name_ok(name, nlen) || strncmp(name, "rxe", 3)))
		return bad(err, errlen, "'%.*s' is neither a device nor mr=NAME",
			   len < 64 ? (int)len : 64, where);
	if (!nlen || nlen >= room)
		return bad(err, errlen, "'%.*s': a name has 1 to %zu bytes",
			   len < 64 ? (int)len : 64, where, room - 1);
	*rule =
	    mr ? rule_of(o->odp.named, &o->odp.n_named, ODP_MAX_FAULT_RULES, name, nlen)
	       : rule_of(o->faults, &o->n_faults, OPTIONS_MAX_DEVICES, name, nlen);
	return *rule ? 0 : bad(err, errlen, "too many names");
}

/* Take a list apart; @set has NULL for the rule where a value is for all */
static int parse_faults(struct options *o, const char *v,
			int (*set)(struct options *o, struct odp_fault_rule *rule,
				   const char *value, char *err, size_t errlen),
			char *err, size_t errlen)
{
	char item[128];

	for (;;) {
		struct odp_fault_rule *rule = NULL;
		size_t n = strcspn(v, ",");
		char *colon;
		int ret;

		if (n >= sizeof(item))
			return bad(err, errlen, "'%.64s...' is too long", v);
		memcpy(item, v, n);
		item[n] = '\0';
		colon = strrchr(item, ':');
		ret = colon
			  ? find_rule(o, item, (size_t)(colon - item), &rule, err, errlen)
			  : 0;
		if (!ret)
			ret = set(o, rule, colon ? colon + 1 : item, err, errlen);
		if (ret || !v[n])
			return ret;
		v += n + 1;
	}
}

/*
 * The other way round: @give writes the value of a rule, or with NULL that for all, and
 * tells whether there is one
 */
static bool format_faults(const struct options *o,
			  bool (*give)(const struct options *o,
				       const struct odp_fault_rule *rule, char value[32]),
			  char *buf, size_t len)
{
	char value[32];
	size_t n = 0;

	*buf = '\0';
	if (give(o, NULL, value))
		n += (size_t)snprintf(buf, len, "%s", value);
	for (unsigned int i = 0; i < o->n_faults + o->odp.n_named && n < len; i++) {
		bool mr = i >= o->n_faults;
		const struct odp_fault_rule *r =
		    mr ? &o->odp.named[i - o->n_faults] : &o->faults[i];

		if (give(o, r, value))
			n += (size_t)snprintf(buf + n, len - n, "%s%s%s:%s", n ? "," : "",
					      mr ? "mr=" : "", r->name, value);
	}
	return n;
}

static int set_model(struct options *o, struct odp_fault_rule *rule, const char *v,
		     char *err, size_t errlen)
{
	if (odp_model_from_name(v, rule ? &rule->model : &o->odp.model))
		return bad(err, errlen, "'%.64s' is not one of %s", v,
			   ODP_FAULT_MODEL_NAMES);
	if (rule)
		rule->has_model = true;
	else
		o->model_given = true;
	return 0;
}

static bool give_model(const struct options *o, const struct odp_fault_rule *rule,
		       char value[32])
{
	snprintf(value, 32, "%s", odp_model_name(rule ? rule->model : o->odp.model));
	return rule ? rule->has_model : o->model_given;
}

static int parse_model(struct options *o, const char *v, char *err, size_t errlen)
{
	return parse_faults(o, v, set_model, err, errlen);
}

static bool format_model(const struct options *o, char *buf, size_t len)
{
	return format_faults(o, give_model, buf, len);
}

static void clear_model(struct options *o)
{
	o->odp.model = ODP_FAULT_SYNC;
	o->model_given = false;
	for (unsigned int i = 0; i < o->n_faults; i++)
		o->faults[i].has_model = false;
	for (unsigned int i = 0; i < o->odp.n_named; i++)
		o->odp.named[i].has_model = false;
}

static int set_start(struct options *o, struct odp_fault_rule *rule, const char *v,
		     char *err, size_t errlen)
{
	bool snapshot = !strcmp(v, "snapshot");

	if (strcmp(v, "cold") && !snapshot)
		return bad(err, errlen, "'%.64s' is neither cold nor snapshot", v);
	if (!rule)
		o->odp.snapshot = snapshot;
	else
		rule->start = snapshot ? ODP_START_SNAPSHOT : ODP_START_COLD;
	return 0;
}

static bool give_start(const struct options *o, const struct odp_fault_rule *rule,
		       char value[32])
{
	bool snapshot = rule ? rule->start == ODP_START_SNAPSHOT : o->odp.snapshot;

	strcpy(value, snapshot ? "snapshot" : "cold");
	return rule ? rule->start != ODP_START_DEFAULT : snapshot;
}

/* An MR gets its name when it has begun. */
static int parse_start(struct options *o, const char *v, char *err, size_t errlen)
{
	if (strstr(v, "mr="))
		return bad(err, errlen, "'%.64s': a region has no name yet at its start",
			   v);
	return parse_faults(o, v, set_start, err, errlen);
}

static bool format_start(const struct options *o, char *buf, size_t len)
{
	return format_faults(o, give_start, buf, len);
}

static void clear_start(struct options *o)
{
	o->odp.snapshot = false;
	for (unsigned int i = 0; i < o->n_faults; i++)
		o->faults[i].start = ODP_START_DEFAULT;
}

/* A whole number in decimal digits, no sign, no blanks; *@end is what follows */
static bool take_number(const char *s, uint64_t *out, const char **end)
{
	char *e;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*out = strtoull(s, &e, 10);
	*end = e;
	return !errno;
}

static int take_time(const char *v, uint64_t *ns, char *err, size_t errlen)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	const uint64_t max =
	    3600ull * 1000000000; /* one hour; keeps sums of times far from 2^64 */
	const char *end;
	uint64_t n;

	if (!take_number(v, &n, &end))
		return bad(err, errlen, "'%.64s' is not a time like 50us", v);
	if (!n && !*end) {
		*ns = 0;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name))
			continue;
		if (n > max / units[i].ns)
			return bad(err, errlen, "'%.64s' is more than an hour", v);
		*ns = n * units[i].ns;
		return 0;
	}
	return bad(err, errlen, "'%.64s' is not a time like 50us (ns, us, ms, s)", v);
}

static int set_latency(struct options *o, struct odp_fault_rule *rule, const char *v,
		       char *err, size_t errlen)
{
	int ret = take_time(v, rule ? &rule->latency : &o->odp.latency, err, errlen);

	if (!ret && rule)
		rule->has_latency = true;
	else if (!ret)
		o->latency_given = true;
	return ret;
}

static bool give_latency(const struct options *o, const struct odp_fault_rule *rule,
			 char value[32])
{
	snprintf(value, 32, "%" PRIu64 "ns", rule ? rule->latency : o->odp.latency);
	return rule ? rule->has_latency : o->latency_given;
}

static int parse_latency(struct options *o, const char *v, char *err, size_t errlen)
{
	return parse_faults(o, v, set_latency, err, errlen);
}

static bool format_latency(const struct options *o, char *buf, size_t len)
{
	return format_faults(o, give_latency, buf, len);
}

static void clear_latency(struct options *o)
{
	o->odp.latency = 0;
	o->latency_given = false;
	for (unsigned int i = 0; i < o->n_faults; i++)
		o->faults[i].has_latency = false;
	for (unsigned int i = 0; i < o->odp.n_named; i++)
		o->odp.named[i].has_latency = false;
}

static int parse_max_pages(struct options *o, const char *v, char *err, size_t errlen)
{
	const char *end;
	uint64_t n;

	if (!take_number(v, &n, &end) || *end)
		return bad(err, errlen, "'%.64s' is not a number of pages", v);
	if (n > ODP_MAX_BOUND)
		return bad(err, errlen, "'%.64s' is more than %u", v, ODP_MAX_BOUND);
	o->odp.max_pages = n;
	return 0;
}

static bool format_max_pages(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "%" PRIu64, o->odp.max_pages);
	return o->odp.max_pages;
}

#define SIZE_LARGEST   (1ull << 63)
#define TRACE_SIZE_MIN (64ull << 10)
#define TRACE_SIZE_MAX (16ull << 30)

/* Bytes, in any case not above 2^63 */
static int take_size(const char *v, uint64_t *out, char *err, size_t errlen)
{
	static const char units[] = "kmg";
	const char *end, *unit;
	unsigned int shift = 0;
	uint64_t n;

	if (!take_number(v, &n, &end))
		return bad(err, errlen, "'%.64s' is not a size like 64m", v);
	unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (*end && (!unit || end[1]))
		return bad(err, errlen, "'%.64s' is not a size like 64m (k, m, g)", v);
	if (unit)
		shift = 10 * (unsigned int)(unit - units + 1);
	if (n > SIZE_LARGEST >> shift)
		return bad(err, errlen, "'%.64s' is too large", v);
	*out = n << shift;
	return 0;
}

static int parse_trace_size(struct options *o, const char *v, char *err, size_t errlen)
{
	uint64_t n = 0;
	int ret = take_size(v, &n, err, errlen);

	if (ret)
		return ret;
	if (n < TRACE_SIZE_MIN || n > TRACE_SIZE_MAX)
		return bad(err, errlen, "'%.64s' is not between 64k and 16g", v);
	o->trace_size = n;
	return 0;
}

static bool format_trace_size(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "%" PRIu64, o->trace_size);
	return o->trace_size != OPTIONS_TRACE_SIZE;
}

static int parse_explain(struct options *o, const char *v, char *err, size_t errlen)
{
	const char *end;
	uint64_t n;

	if (!take_number(v, &n, &end) || *end || n > EXPLAIN_MAX)
		return bad(err, errlen, "'%.64s' is no number of seconds up to %u", v,
			   EXPLAIN_MAX);
	o->explain = (unsigned int)n;
	return 0;
}

static bool format_explain(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "%u", o->explain);
	return o->explain;
}

static int parse_memlock(struct options *o, const char *v, char *err, size_t errlen)
{
	uint64_t n = 0;

	if (!strcmp(v, "no") || !strcmp(v, "yes")) {
		o->odp.memlock = *v == 'y' ? ODP_MEMLOCK_KERNEL : ODP_MEMLOCK_NONE;
		return 0;
	}
	if (take_size(v, &n, err, errlen))
		return bad(err, errlen, "'%.64s' is neither yes, no nor a size like 64k",
			   v);
	o->odp.memlock = ODP_MEMLOCK_BYTES;
	o->odp.memlock_bytes = n;
	return 0;
}

static bool format_memlock(const struct options *o, char *buf, size_t len)
{
	if (o->odp.memlock == ODP_MEMLOCK_BYTES)
		snprintf(buf, len, "%" PRIu64, o->odp.memlock_bytes);
	else
		snprintf(buf, len, "yes");
	return o->odp.memlock != ODP_MEMLOCK_NONE;
}

static int parse_yes_no(bool *out, const char *v, char *err, size_t errlen)
{
	if (strcmp(v, "yes") && strcmp(v, "no"))
		return bad(err, errlen, "'%.64s' is neither yes nor no", v);
	*out = *v == 'y';
	return 0;
}

static int parse_completions(struct options *o, const char *v, char *err, size_t errlen)
{
	return parse_yes_no(&o->completions, v, err, errlen);
}

static bool format_completions(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "yes");
	return o->completions;
}

static int parse_lanes(struct options *o, const char *v, char *err, size_t errlen)
{
	return parse_yes_no(&o->lanes, v, err, errlen);
}

static bool format_lanes(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "no");
	return !o->lanes;
}

static int parse_trace_stacks(struct options *o, const char *v, char *err, size_t errlen)
{
	return parse_yes_no(&o->trace_stacks, v, err, errlen);
}

static bool format_trace_stacks(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "yes");
	return o->trace_stacks;
}

static int parse_uffd(struct options *o, const char *v, char *err, size_t errlen)
{
	return parse_yes_no(&o->odp.uffd, v, err, errlen);
}

static bool format_uffd(const struct options *o, char *buf, size_t len)
{
	snprintf(buf, len, "no");
	return !o->odp.uffd;
}

static int parse_script(struct options *o, const char *v, char *err, size_t errlen)
{
	char why[120];
	int ret;

	if (odp_script_check(v, why, sizeof(why)))
		return bad(err, errlen, "%s", why);
	ret = take_text(o->odp_script, sizeof(o->odp_script), v, err, errlen);
	if (!ret)
		o->odp.script = o->odp_script;
	return ret;
}

static bool format_script(const struct options *o, char *buf, size_t len)
{
	return give_text(o->odp_script, buf, len);
}

/* --- what goes wrong on purpose --------------------------------------------------- */

/* The text of a file; 0 or -EINVAL */
static int read_rules(const char *path, char text[INJECT_TEXT_MAX], char *err,
		      size_t errlen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, INJECT_TEXT_MAX);

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return bad(err, errlen, "%.100s: %s", path, strerror(errno));
	if (n == INJECT_TEXT_MAX)
		return bad(err, errlen, "%.100s has more than %d bytes", path,
			   INJECT_TEXT_MAX - 1);
	text[n] = '\0';
	return 0;
}

/* Rules add up. @FILE has some. */
static int parse_inject(struct options *o, const char *v, char *err, size_t errlen)
{
	size_t has = strlen(o->inject), between = has > 0;
	char text[INJECT_TEXT_MAX], why[160];
	int n;

	if (*v == '@') {
		if (read_rules(v + 1, text, err, errlen))
			return -EINVAL;
		v = text;
	}
	n = inject_parse(v, NULL, INJECT_MAX_RULES, why, sizeof(why));
	if (n <= 0)
		return bad(err, errlen, "%s", n ? why : "has no rule");
	if (has + between + strlen(v) >= sizeof(o->inject))
		return bad(err, errlen, "all rules have more than %zu bytes",
			   sizeof(o->inject) - 1);
	/* a newline, since a comment ends with its line */
	if (between)
		o->inject[has++] = '\n';
	memcpy(o->inject + has, v, strlen(v) + 1);
	return 0;
}

static bool format_inject(const struct options *o, char *buf, size_t len)
{
	return give_text(o->inject, buf, len);
}

static void clear_inject(struct options *o)
{
	o->inject[0] = '\0';
}

/* --- the table -------------------------------------------------------------------- */

static const struct row rows[] = {
    {{"device", "URXE_DEVICE", "NAME=IFACE", NULL, true,
      "a device NAME (rxe...) on network interface IFACE; may be\n"
      "repeated. Default: rxe0 on lo, then one for each interface\n"
      "that is up and has an address"},
     parse_device,
     format_device,
     clear_devices},
    {{"backend", "URXE_BACKEND", "socket|uring", NULL, false,
      "how packets are sent and received"},
     parse_backend,
     format_backend},
    {{"lanes", "URXE_LANES", "yes|no", NULL, false,
      "packets to processes of this user on this host through shared\n"
      "memory (default), or by sockets, as all others"},
     parse_lanes,
     format_lanes},
    {{"stats", "URXE_STATS", "text|json:FILE", "text", false,
      "report page faults, prefetches and traffic when a program\n"
      "ends: as a table on stderr, or as JSON in FILE, in which %p\n"
      "stands for the process id, %h for the host, %r for the rank"},
     parse_stats,
     format_stats},
    {{"profile", "URXE_PROFILE", "NAME|FILE", NULL, false,
      "answer as a device that is known: limits, capabilities, speed,\n"
      "page faults; see urxe profile list. A file has a dot or a slash\n"
      "in its name"},
     parse_profile,
     format_profile},
    {{"odp-model", "URXE_ODP_MODEL", "[WHERE:]MODEL", NULL, true,
      "how a page fault of the device is served: sync (at once;\n"
      "default), rnr (the responder answers \"not ready\" meanwhile,\n"
      "as ConnectX does), drop, damming, flood. WHERE is a device, or\n"
      "mr=NAME for memory regions that the program gave this name;\n"
      "may be repeated"},
     parse_model,
     format_model,
     clear_model},
    {{"odp-start", "URXE_ODP_START", "[DEVICE:]cold|snapshot", NULL, true,
      "page table of a new on-demand memory region: empty (cold,\n"
      "default), or with the pages that are in memory (snapshot);\n"
      "may be repeated"},
     parse_start,
     format_start,
     clear_start},
    {{"odp-latency", "URXE_ODP_LATENCY", "[WHERE:]TIME", NULL, true,
      "added to each page fault: 50us, 2ms, ... WHERE as above; may\n"
      "be repeated"},
     parse_latency,
     format_latency,
     clear_latency},
    {{"odp-max-pages", "URXE_ODP_MAX_PAGES", "N", NULL, false,
      "pages that all page tables together may hold; the one unused\n"
      "for longest is dropped. Default: no bound"},
     parse_max_pages,
     format_max_pages},
    {{"odp-uffd", "URXE_ODP_UFFD", "yes|no", NULL, false,
      "learn of unmapped memory from userfaultfd (default) or only\n"
      "from the program's own calls"},
     parse_uffd,
     format_uffd},
    {{"odp-script", "URXE_ODP_SCRIPT", "TEXT", NULL, false,
      "faults at chosen accesses; see urxe(1)"},
     parse_script,
     format_script},
    {{"memlock", "URXE_MEMLOCK", "yes|no|SIZE", "yes", false,
      "bound memory that is registered without on-demand paging: by\n"
      "RLIMIT_MEMLOCK (ulimit -l), as the kernel does for who may not\n"
      "lock more; or by SIZE, for everybody. Default: no bound"},
     parse_memlock,
     format_memlock},
    {{"inject", "URXE_INJECT", "RULE|@FILE", NULL, true,
      "what goes wrong on purpose, and where: a call that fails, a\n"
      "packet that is lost, ...; may be repeated; see urxe-inject(7)"},
     parse_inject,
     format_inject,
     clear_inject},
    {{"impair", "URXE_IMPAIR", "NAME=VALUE,...", NULL, false,
      "a bad network: loss=1%,dup=1%,reorder=1%,corrupt=1%,\n"
      "delay=50us,jitter=10us,rate=1gbit,seed=7; with the prefix tx.\n"
      "or rx. for one direction"},
     parse_impair,
     format_impair},
    {{"pcap", "URXE_PCAP", "FILE", NULL, false,
      "write all packets to FILE (%p, %h, %r as in --stats), for\n"
      "Wireshark"},
     parse_pcap,
     format_pcap},
    {{"trace", "URXE_TRACE", "FILE|DIR", NULL, false,
      "record all that the device does in FILE (%p, %h, %r as in\n"
      "--stats), or in a file for each process in DIR; see\n"
      "urxe help trace"},
     parse_trace,
     format_trace},
    {{"trace-size", "URXE_TRACE_SIZE", "SIZE", NULL, false,
      "room for records in a trace, 64m if not given; when it is used\n"
      "up, the oldest are overwritten"},
     parse_trace_size,
     format_trace_size},
    {{"trace-stacks", "URXE_TRACE_STACKS", "yes|no", "yes", false,
      "traces say from which call stack of the program requests were\n"
      "posted and memory was registered"},
     parse_trace_stacks,
     format_trace_stacks},
    {{"report-on-failure", "URXE_REPORT_ON_FAILURE", "DIR", NULL, false,
      "trace the run, and if the command fails keep a page and a text\n"
      "of it in DIR (urxe help report); else nothing is left"},
     parse_report,
     format_report},
    {{"explain", "URXE_EXPLAIN", "SECONDS", "5", false,
      "say on stderr what programs wait for that do not go on for so\n"
      "many seconds, 5 if not given: completions that nobody polls, a\n"
      "peer that is not ready or silent, page faults"},
     parse_explain,
     format_explain},
    {{"check", "URXE_CHECK", "CLASS,...", "all", false,
      "look for faults in the program's use of RDMA: completions,\n"
      "leaks, buffers, memory, order, rights, portability, or all"},
     parse_check,
     format_check},
    {{"check-log", "URXE_CHECK_LOG", "FILE", NULL, false,
      "write what --check finds to FILE instead of stderr"},
     parse_check_log,
     format_check_log},
    {{"check-json", "URXE_CHECK_JSON", "FILE", NULL, false,
      "write it as JSON to FILE, too"},
     parse_check_json,
     format_check_json},
    {{"check-sarif", "URXE_CHECK_SARIF", "FILE", NULL, false,
      "write it as SARIF to FILE, too, which code review tools read"},
     parse_check_sarif,
     format_check_sarif},
    {{"check-suppressions", "URXE_CHECK_SUPPRESSIONS", "FILE", NULL, false,
      "leave out what FILE names: lines of an identifier and a\n"
      "function, both of which may be patterns as * and ibv_*"},
     parse_check_suppressions,
     format_check_suppressions},
    {{"check-exitcode", "URXE_CHECK_EXITCODE", "N", NULL, false,
      "exit with N if --check finds an error or a hazard"},
     parse_check_exitcode,
     format_check_exitcode},
    {{"shm-dir", "URXE_SHM_DIR", "DIR", NULL, false,
      "where processes find each other; default /dev/shm, /tmp or\n"
      "/var/tmp"},
     parse_shm_dir,
     format_shm_dir},
    {{NULL, "URXE_COMPLETIONS", "yes|no", NULL, false, NULL},
     parse_completions,
     format_completions},
    {{NULL, "URXE_DIR", "DIR", NULL, false, NULL}, parse_dir, format_dir},
    {{NULL, "URXE_COMMAND", "FILE", NULL, false, NULL}, parse_command, format_command},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

const struct option_desc *options_desc(size_t i)
{
	return i < N_ROWS ? &rows[i].d : NULL;
}

void options_default(struct options *o)
{
	memset(o, 0, sizeof(*o));
	o->odp.model = ODP_FAULT_SYNC;
	o->odp.uffd = true;
	o->lanes = true;
	o->trace_size = OPTIONS_TRACE_SIZE;
}

int options_set(struct options *o, const char *name, const char *value, char *err,
		size_t errlen)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].d.name && !strcmp(rows[i].d.name, name))
			return rows[i].parse(o, value, err, errlen);
	return -ENOENT;
}

void options_clear(struct options *o, const char *name)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].d.name && !strcmp(rows[i].d.name, name) && rows[i].clear)
			rows[i].clear(o);
}

const struct odp_fault_rule *options_faults(const struct options *o, const char *device)
{
	for (unsigned int i = 0; i < o->n_faults; i++)
		if (!strcmp(o->faults[i].name, device))
			return &o->faults[i];
	return NULL;
}

/* Levenshtein's distance of two short names */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[NAME_LEN_MAX + 1], diagonal, above;
	size_t n = strlen(b);

	if (strlen(a) > NAME_LEN_MAX || n > NAME_LEN_MAX)
		return UINT_MAX;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned int)j;
	for (; *a; a++) {
		diagonal = row[0]++;
		for (size_t j = 0; j < n; j++) {
			unsigned int best = diagonal + (*a != b[j]);

			above = row[j + 1];
			best = best < above + 1 ? best : above + 1;
			row[j + 1] = best < row[j] + 1 ? best : row[j] + 1;
			diagonal = above;
		}
	}
	return row[n];
}

const char *options_nearest(const char *name, bool env)
{
	unsigned int least = NEAR + 1;
	const char *best = NULL;

	for (size_t i = 0; i < N_ROWS; i++) {
		const char *is = env ? rows[i].d.env : rows[i].d.name;
		unsigned int d = is ? distance(name, is) : least;

		if (d < least) {
			least = d;
			best = is;
		}
	}
	return best;
}

const char *options_unknown_env(void)
{
	for (char **v = environ; v && *v; v++) {
		size_t i = 0, n = strcspn(*v, "=");

		if (strncmp(*v, "URXE_", 5))
			continue;
		while (i < N_ROWS &&
		       (strlen(rows[i].d.env) != n || strncmp(*v, rows[i].d.env, n) != 0))
			i++;
		if (i == N_ROWS)
			return *v;
	}
	return NULL;
}

int options_from_env(struct options *o, char *err, size_t errlen)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		const char *value = getenv(rows[i].d.env);
		char why[160];

		/* Empty is unset, as is customary for variables. */
		if (!value || !*value)
			continue;
		if (rows[i].parse(o, value, why, sizeof(why)))
			return bad(err, errlen, "%s: %s", rows[i].d.env, why);
	}
	return 0;
}

int options_to_env(const struct options *o)
{
	char buf[VALUE_MAX + PATH_MAX];

	for (size_t i = 0; i < N_ROWS; i++) {
		bool set = rows[i].format(o, buf, sizeof(buf));

		if (set ? setenv(rows[i].d.env, buf, 1) : unsetenv(rows[i].d.env))
			return -errno;
	}
	return 0;
}
