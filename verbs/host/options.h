/*
 * options.h - the settings of a run: what `urxe run` parses from its command line and
 * hands to the preload library in URXE_* environment variables. One table serves both,
 * the help text and the checks.
 */
#ifndef URXE_VERBS_HOST_OPTIONS_H
#define URXE_VERBS_HOST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/rule.h"
#include "odp/odp.h"

#define OPTIONS_MAX_DEVICES 16
#define OPTIONS_TRACE_SIZE  (64ull << 20) /* trace_size, unless it is given */

/*
 * struct options
 * @dir:	session directory made by `urxe run`: the generated sysfs tree is in
 * DIR/sys
 * @command:	the command line, for a process that is started on a host without that session
 * @device:	NAME=IFACE pairs; n_devices 0: one per interface that is up, lo first
 * @backend:	"socket", "uring", or empty
 * @lanes:	packets within the host may take shared memory
 * @profile:	the device to answer as: a name or a file, see profile.h; or empty: rxe
 * @model_given, @latency_given: @odp has them from the user, and not the profile's
 * @odp:	fault model, snapshot, latency ... (odp.script points into @odp_script)
 * @faults:	what is special about the faults of devices, by name; the first @n_faults
 * @inject:	rules of what goes wrong on purpose, or empty
 * @stats:	empty, "text", or "json:FILE"
 * @pcap, @impair: as given, or empty
 * @trace:	file or directory for full traces, or empty; @trace_size: bytes of records in each
 * @trace_stacks: with call stacks of what the program posts and registers
 * @report_on_failure: directory for the reports of runs that fail, or empty
 * @explain:	seconds after which is said what hangs; 0: never
 * @completions: are recorded, too
 * @check:	classes of the checker, separated by commas, or empty: it is not loaded
 * @check_log, @check_json, @check_sarif: where findings go, or empty
 * @check_suppressions: files that say which are not wanted, separated by colons
 * @check_exitcode: of a run with findings; 0: the program's
 * @shm_dir:	where the shared table is; empty for /dev/shm
 */
struct options {
	char dir[256];
	char command[512];
	struct {
		char name[16];
		char ifname[16];
	} device[OPTIONS_MAX_DEVICES];
	unsigned int n_devices;
	char backend[16];
	bool lanes;
	char profile[256];
	bool model_given, latency_given;
	struct odp_config odp;
	struct odp_fault_rule faults[OPTIONS_MAX_DEVICES];
	unsigned int n_faults;
	char odp_script[1024];
	char inject[INJECT_TEXT_MAX];
	char stats[256];
	char pcap[256];
	char trace[256];
	uint64_t trace_size;
	bool trace_stacks;
	char report_on_failure[256];
	unsigned int explain;
	bool completions;
	char impair[256];
	char check[128];
	char check_log[256], check_json[256], check_sarif[256];
	char check_suppressions[512];
	int check_exitcode;
	char shm_dir[256];
};

void options_default(struct options *o);
/*
 * options_set - one option by name ("device", "odp-model", ...) from text
 * 0, or -EINVAL with a one-line reason in @err. Unknown names are -ENOENT.
 */
int options_set(struct options *o, const char *name, const char *value, char *err,
		size_t errlen);
/* options_clear - a repeatable option begins anew: forget what was given before */
void options_clear(struct options *o, const char *name);
/* The rule for the faults of a device, or NULL */
const struct odp_fault_rule *options_faults(const struct options *o, const char *device);
/* options_from_env - all URXE_* variables of the table; 0 or -EINVAL with @err */
int options_from_env(struct options *o, char *err, size_t errlen);
/*
 * options_unknown_env - "NAME=VALUE" of a variable that begins with URXE_ and is none of
 * ours, or NULL
 */
const char *options_unknown_env(void);
/* options_nearest - the name of an option, or of a variable, most like @name; or NULL */
const char *options_nearest(const char *name, bool env);
/*
 * options_to_env - set the variables for the program to be started, unset those of
 * settings that have their default; file names become absolute. 0 or -errno
 */
int options_to_env(const struct options *o);

/*
 * struct option_desc - a row of the table, as the command line shows it
 * @name:	"odp-model" for --odp-model; NULL: only the variable exists
 * @env:	"URXE_ODP_MODEL"
 * @arg:	what stands for the value in the help text
 * @implied:	value of the option when it is given without one; NULL: it needs one
 * @repeat:	may be given more than once; values add up
 * @help:	lines separated by newlines
 */
struct option_desc {
	const char *name;
	const char *env;
	const char *arg;
	const char *implied;
	bool repeat;
	const char *help;
};
/* options_desc - row @i, or NULL behind the last */
const struct option_desc *options_desc(size_t i);

#endif
