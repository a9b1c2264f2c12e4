/*
 * script.h - scripted faults: "the 3rd access to page 7 of the MR named X faults".
 *
 * An older language for some of what inject/ can do; fault.c acts on both alike. Counts are those of one
 * page of one MR, where a rule of inject/ counts all accesses that fit it.
 */
#ifndef URXE_ODP_SCRIPT_H
#define URXE_ODP_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/rule.h"
#include "odp/odp.h"

/*
 * struct script_rule - a rule of inject/ about one page, counted for each MR by itself
 * @any, @by_key, @key, @name: which MRs
 * @page:	counted from the page of the MR's first byte
 * @access:	1 is the first
 * @action:	what it does, as to an access
 */
struct script_rule {
	bool any, by_key;
	uint32_t key;
	char name[INJECT_NAME];
	uint64_t page, access;
	enum inject_do action;
};

struct script {
	unsigned int n;
	struct script_rule rule[];
};

/*
 * struct script_state - of one rule and one MR
 * @on:		the rule is about this MR
 * @seen:	accesses to the page
 */
struct script_state {
	bool on;
	uint64_t seen;
};

/*
 * 0 and *@out, or -EINVAL with a line in @err, -ENOMEM. *@out is NULL if there is no
 * rule.
 */
int script_parse(const char *text, struct script **out, char *err, size_t errlen);
bool script_matches(const struct script_rule *rule, uint32_t key, const char *name);

#endif
