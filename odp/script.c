/*
 * script.c - scripted faults in the words of inject/, whose parser takes them, and the names of fault
 * models; see script.h.
 */
#include "base/text.h"
#include "inject/rule.h"
#include "odp/script.h"

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

/*
 * A word of a script, and how inject/ says the same. Names of MRs are not said there: they may
 * have any character.
 */
enum { MR, PAGE, ACCESS, FAULT, N_WORDS };
static const struct {
	const char *word, *says, *bad;
} words[N_WORDS] = {
    [MR] = {"mr", "mr", "bad key"},
    [PAGE] = {"page", "page", "bad page"},
    [ACCESS] = {"access", "n", "bad number of an access (1 is the first)"},
    [FAULT] = {"fault", "do", "unknown fault"},
};

/* What is not the name of a fault model has two others */
static const char *says_fault(const char *v)
{
	enum odp_fault_model model;

	if (!strcmp(v, "evict"))
		return "absent";
	if (!strcmp(v, "error"))
		return v;
	return odp_model_from_name(v, &model) || model == ODP_FAULT_SYNC ? "" : v;
}

/* Take one value by the parser of inject/, in a rule that is whole otherwise */
static int take(struct parser *p, struct script_rule *r, int word, const char *v)
{
	const char *says = word == FAULT ? says_fault(v) : v;
	struct inject_rule one;
	char text[320];

	if (word == MR && (!*v || strlen(v) >= sizeof(r->name)))
		return complain(p, "bad name of an MR", v);
	if (word == MR && strncmp(v, "0x", 2) != 0) {
		r->any = !strcmp(v, "*");
		strcpy(r->name, v);
		return 0;
	}
	snprintf(text, sizeof(text), "access,%s=%s%s", words[word].says, says,
		 word == FAULT ? "" : ",do=absent");
	if (inject_parse(text, &one, 1, NULL, 0) != 1)
		return complain(p, words[word].bad, v);
	switch (word) {
	case MR:
		r->by_key = true;
		r->key = one.key;
		break;
	case PAGE:
		r->page = one.page;
		break;
	case ACCESS:
		r->access = one.n;
		break;
	case FAULT:
		r->action = one.action;
		break;
	}
	return 0;
}

static int parse_member(struct parser *p, struct script_rule *r, char *member,
			unsigned int *has)
{
	char *v = strchr(member, '=');
	int word = 0, ret;

	if (!v)
		return complain(p, "no '='", member);
	*v++ = 0;
	while (word < N_WORDS && strcmp(words[word].word, member) != 0)
		word++;
	if (word == N_WORDS)
		return complain(p, "unknown word", member);
	ret = take(p, r, word, v);
	if (!ret && (*has & 1u << word))
		return complain(p, "word given twice", member);
	*has |= 1u << word;
	return ret;
}

static int parse_rule(struct parser *p, struct script_rule *r, const char *text,
		      size_t len)
{
	const unsigned int needed = 1u << MR | 1u << PAGE | 1u << ACCESS;
	char buf[256], *save, *member;
	unsigned int has = 0;
	int ret;

	if (len >= sizeof(buf))
		return complain(p, "rule too long", text);
	memcpy(buf, text, len);
	buf[len] = 0;
	r->action = INJECT_DO_ABSENT;
	for (member = strtok_r(buf, ",", &save); member;
	     member = strtok_r(NULL, ",", &save)) {
		ret = parse_member(p, r, member, &has);
		if (ret)
			return ret;
	}
	if ((has & needed) != needed) {
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
