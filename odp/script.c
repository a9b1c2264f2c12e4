/*
 * script.c - parser of scripted faults, and the names of fault models; see script.h.
 */
#include "base/text.h"
#include "odp/script.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_OF(id, name, responder, requester, what) [ODP_FAULT_##id] = name,
static const char *const model_names[ODP_FAULT_MODELS] = {TRACE_MODELS(NAME_OF)};

const char *odp_model_name(enum odp_fault_model model)
{
	return (unsigned int)model < ODP_FAULT_MODELS ? model_names[model] : "?";
}

int odp_model_from_name(const char *name, enum odp_fault_model *model)
{
	for (unsigned int i = 0; i < ODP_FAULT_MODELS; i++) {
		if (!strcmp(name, model_names[i])) {
			*model = i;
			return 0;
		}
	}
	return -EINVAL;
}

/* struct parser - @err gets the first complaint */
struct parser {
	char *err;
	size_t errlen;
};

static int complain(struct parser *p, const char *what, const char *text)
{
	if (p->err && p->errlen) {
		snprintf(p->err, p->errlen, "%s in scripted fault: '%s'", what, text);
		text_make_line(p->err);
	}
	return -EINVAL;
}

static bool number(const char *s, int base, uint64_t max, uint64_t *out)
{
	char *end;

	if (base == 16 ? !isxdigit((unsigned char)*s) : !isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*out = strtoull(s, &end, base);
	return !errno && !*end && *out <= max;
}

static int parse_mr(struct parser *p, struct script_rule *r, const char *v)
{
	uint64_t key;

	if (!strcmp(v, "*")) {
		r->any = true;
		return 0;
	}
	if (!strncmp(v, "0x", 2)) {
		if (!number(v + 2, 16, UINT32_MAX, &key))
			return complain(p, "bad key", v);
		r->by_key = true;
		r->key = (uint32_t)key;
		return 0;
	}
	if (!*v || strlen(v) >= sizeof(r->name))
		return complain(p, "bad name of an MR", v);
	strcpy(r->name, v);
	return 0;
}

static int parse_fault(struct parser *p, struct script_rule *r, const char *v)
{
	if (!strcmp(v, "evict")) {
		r->action = SCRIPT_EVICT;
	} else if (!strcmp(v, "error")) {
		r->action = SCRIPT_ERROR;
	} else {
		r->action = SCRIPT_MODEL;
		if (odp_model_from_name(v, &r->model) || r->model == ODP_FAULT_SYNC)
			return complain(p, "unknown fault", v);
	}
	return 0;
}

enum { HAS_MR = 1, HAS_PAGE = 2, HAS_ACCESS = 4, HAS_FAULT = 8 };

static int parse_member(struct parser *p, struct script_rule *r, char *member,
			unsigned int *has)
{
	char *v = strchr(member, '=');
	unsigned int bit;
	int ret = 0;

	if (!v)
		return complain(p, "no '='", member);
	*v++ = 0;
	if (!strcmp(member, "mr")) {
		bit = HAS_MR;
		ret = parse_mr(p, r, v);
	} else if (!strcmp(member, "page")) {
		bit = HAS_PAGE;
		if (!number(v, 10, UINT64_MAX >> 12, &r->page))
			ret = complain(p, "bad page", v);
	} else if (!strcmp(member, "access")) {
		bit = HAS_ACCESS;
		if (!number(v, 10, UINT64_MAX, &r->access) || !r->access)
			ret = complain(p, "bad number of an access (1 is the first)", v);
	} else if (!strcmp(member, "fault")) {
		bit = HAS_FAULT;
		ret = parse_fault(p, r, v);
	} else {
		return complain(p, "unknown word", member);
	}
	if (!ret && (*has & bit))
		return complain(p, "word given twice", member);
	*has |= bit;
	return ret;
}

static int parse_rule(struct parser *p, struct script_rule *r, const char *text,
		      size_t len)
{
	char buf[256], *save, *member;
	unsigned int has = 0;
	int ret;

	if (len >= sizeof(buf))
		return complain(p, "rule too long", text);
	memcpy(buf, text, len);
	buf[len] = 0;
	for (member = strtok_r(buf, ",", &save); member;
	     member = strtok_r(NULL, ",", &save)) {
		ret = parse_member(p, r, member, &has);
		if (ret)
			return ret;
	}
	if ((has & (HAS_MR | HAS_PAGE | HAS_ACCESS)) !=
	    (HAS_MR | HAS_PAGE | HAS_ACCESS)) {
		snprintf(buf, sizeof(buf), "%.*s", (int)(len < 200 ? len : 200), text);
		return complain(p, "mr=, page= and access= are needed", buf);
	}
	return 0;
}

int script_parse(const char *text, struct script **out, char *err, size_t errlen)
{
	struct parser p = {err, errlen};
	struct script *s;
	size_t n = 1;
	int ret = 0;

	*out = NULL;
	for (const char *c = text; *c; c++)
		n += *c == ';';
	s = calloc(1, sizeof(*s) + n * sizeof(s->rule[0]));
	if (!s)
		return -ENOMEM;
	while (*text && !ret) {
		size_t len = strcspn(text, ";");

		/* empty rules are fine: a ';' at the end */
		if (len)
			ret = parse_rule(&p, &s->rule[s->n++], text, len);
		text += len + (text[len] == ';');
	}
	if (ret || !s->n) {
		free(s);
		return ret;
	}
	*out = s;
	return 0;
}

int odp_script_check(const char *text, char *err, size_t errlen)
{
	struct script *s;
	int ret = script_parse(text, &s, err, errlen);

	if (ret == -ENOMEM)
		snprintf(err, errlen, "out of memory");
	free(s);
	return ret ? -EINVAL : 0;
}

bool script_matches(const struct script_rule *rule, uint32_t key, const char *name)
{
	if (rule->any)
		return true;
	return rule->by_key ? rule->key == key : *name && !strcmp(rule->name, name);
}
