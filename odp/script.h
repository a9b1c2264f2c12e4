/*
 * script.h - scripted faults: "the 3rd access to page 7 of the MR named X faults".
 *
 * Only the language and its rules; fault.c acts on them.
 */
#ifndef URXE_ODP_SCRIPT_H
#define URXE_ODP_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "odp/odp.h"

enum script_action {
	SCRIPT_EVICT, /* the page is not there any more; the MR's own model does the rest
		       */
	SCRIPT_ERROR, /* the memory cannot be had */
	SCRIPT_MODEL, /* as EVICT, and the fault is served by @model */
};

/*
 * struct script_rule
 * @any, @by_key, @key, @name: which MRs
 * @page:	counted from the page of the MR's first byte
 * @access:	1 is the first
 */
struct script_rule {
	bool any, by_key;
	uint32_t key;
	char name[32];
	uint64_t page, access;
	enum script_action action;
	enum odp_fault_model model;
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
