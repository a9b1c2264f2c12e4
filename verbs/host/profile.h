/*
 * profile.h - devices that the emulated one answers as: limits, names, speed, page faults.
 *
 * A profile is text, of which each line is KEY = VALUE; docs/profiles.md has the keys. Those that
 * are known by a name are in profile_table.c; others are files. What a text does not say is as
 * rdma_rxe has it. Owns the text form, in both directions. Allocates nothing.
 */
#ifndef URXE_VERBS_HOST_PROFILE_H
#define URXE_VERBS_HOST_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "emu/limits.h"
#include "odp/odp.h"

#define PROFILE_TEXT_MAX 8192 /* bytes of a file */

/*
 * struct profile
 * @limits:	what the device says of itself and holds to
 * @hca_type, @board_id: what sysfs shows under these names; empty: no such file
 * @model:	of its page faults, and what one takes, @fault_latency_us
 */
struct profile {
	struct emu_limits limits;
	char hca_type[64], board_id[64];
	enum odp_fault_model model;
	uint64_t fault_latency_us;
};

/*
 * struct profile_known - one that has a name
 * @what:	the device, in a few words
 * @text:	of the profile
 */
struct profile_known {
	const char *name, *what, *text;
};
/* profile_known - the one of number @i, or NULL behind the last */
const struct profile_known *profile_known(size_t i);

/* profile_parse - 0, or -EINVAL with a line in @err that names the line of @text */
int profile_parse(const char *text, struct profile *p, char *err, size_t errlen);
/*
 * profile_load - by the name of one that is known, or from the file @name if that has a dot or a
 * slash in it; empty: rxe. 0, or -EINVAL with a line in @err
 */
int profile_load(const char *name, struct profile *p, char *err, size_t errlen);
/* profile_is_file - does @name stand for a file? */
bool profile_is_file(const char *name);

/*
 * profile_print - the text of @p, all keys. With @given only those that differ from rxe
 */
void profile_print(const struct profile *p, bool given, FILE *out);

/*
 * profile_from_devinfo - what `ibv_devinfo -v` says (@text) of its first device, or of @device.
 * What urxe cannot do is taken back to what it can, with a line of comment to @out. 0, or -EINVAL
 * with a line in @err
 */
int profile_from_devinfo(const char *text, const char *device, struct profile *p,
			 FILE *out, char *err, size_t errlen);

/* profile_rate - what sysfs has for the speed of the port, as "100 Gb/sec (4X EDR)" */
void profile_rate(const struct profile *p, char *text, size_t size);

#endif
