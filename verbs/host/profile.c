/* profile.c - profiles as text, see profile.h */
#include "verbs/host/profile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/host/options_text.h"

#define KEY_MAX	    40
#define VALUE_MAX   100
#define LATENCY_MAX 1000000u /* us */

/* How a value is written */
enum kind { NUMBER, HEX, BITS, ODP, GENERAL, TYPES, GIDS };

/*
 * struct field - one of EMU_LIMITS
 * @offset:	in struct emu_limits
 */
struct field {
	const char *name;
	enum kind kind;
	size_t offset;
	uint64_t rxe, least, most;
};

#define FIELD(name, kind, rxe, least, most)                                              \
	{#name, kind, offsetof(struct emu_limits, name), rxe, least, most},
static const struct field fields[] = {EMU_LIMITS(FIELD)};
#undef FIELD
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Words that stand for bits */
static const struct word {
	enum kind kind;
	const char *name;
	uint64_t bits;
} words[] = {
    {GENERAL, "ODP", IBV_ODP_SUPPORT},
    {GENERAL, "IMPLICIT", IBV_ODP_SUPPORT_IMPLICIT},
    {ODP, "SEND", IBV_ODP_SUPPORT_SEND},
    {ODP, "RECV", IBV_ODP_SUPPORT_RECV},
    {ODP, "WRITE", IBV_ODP_SUPPORT_WRITE},
    {ODP, "READ", IBV_ODP_SUPPORT_READ},
    {ODP, "ATOMIC", IBV_ODP_SUPPORT_ATOMIC},
    {ODP, "SRQ", IBV_ODP_SUPPORT_SRQ_RECV},
    {ODP, "FLUSH", EMU_ODP_SUPPORT_FLUSH},
    {ODP, "ATOMIC_WRITE", EMU_ODP_SUPPORT_ATOMIC_WRITE},
    {TYPES, "RC", EMU_TYPE(IBV_QPT_RC)},
    {TYPES, "UC", EMU_TYPE(IBV_QPT_UC)},
    {TYPES, "UD", EMU_TYPE(IBV_QPT_UD)},
    {TYPES, "XRC", EMU_TYPES_XRC},
    {GIDS, "V1", EMU_GID_V1},
    {GIDS, "V2", EMU_GID_V2},
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

/* The texts of a profile */
static const struct text_field {
	const char *name;
	size_t offset, size;
} texts[] = {
    {"fw_ver", offsetof(struct profile, limits.fw_ver),
     sizeof(((struct profile *)0)->limits.fw_ver)},
    {"hca_type", offsetof(struct profile, hca_type),
     sizeof(((struct profile *)0)->hca_type)},
    {"board_id", offsetof(struct profile, board_id),
     sizeof(((struct profile *)0)->board_id)},
};
#define N_TEXTS (sizeof(texts) / sizeof(texts[0]))

static uint64_t *value_of(struct profile *p, const struct field *f)
{
	return (uint64_t *)((char *)&p->limits + f->offset);
}

static char *text_of(struct profile *p, const struct text_field *t)
{
	return (char *)p + t->offset;
}

static void profile_default(struct profile *p)
{
	*p = (struct profile){.limits = EMU_LIMITS_RXE, .model = ODP_FAULT_SYNC};
}

/* --- reading ---------------------------------------------------------------------- */

static bool take_number(const char *v, uint64_t *n)
{
	char *end;

	if (!isdigit((unsigned char)*v))
		return false;
	errno = 0;
	*n = strtoull(v, &end,
		      v[0] == '0' && tolower((unsigned char)v[1]) == 'x' ? 16 : 10);
	return !*end && !errno;
}

/* The bits of words that are separated by blanks; "none": no bits */
static int take_words(enum kind kind, const char *v, uint64_t *bits, char *err,
		      size_t errlen)
{
	*bits = 0;
	if (!strcmp(v, "none"))
		return 0;
	while (*v) {
		size_t n = strcspn(v, " \t"), i = 0;

		while (i < N_WORDS &&
		       (words[i].kind != kind || strlen(words[i].name) != n ||
			strncmp(words[i].name, v, n) != 0))
			i++;
		if (i == N_WORDS)
			return bad(err, errlen, "'%.*s' is not known here",
				   n < 40 ? (int)n : 40, v);
		*bits |= words[i].bits;
		v += n;
		v += strspn(v, " \t");
	}
	return 0;
}

static int take_value(struct profile *p, const struct field *f, const char *v, char *err,
		      size_t errlen)
{
	uint64_t n = 0;

	switch (f->kind) {
	case NUMBER:
	case HEX:
		if (!take_number(v, &n))
			return bad(err, errlen, "'%s' is no number", v);
		if (n < f->least || n > f->most)
			return bad(err, errlen,
				   "%s is not between %" PRIu64 " and %" PRIu64, v,
				   f->least, f->most);
		break;
	case BITS:
		if (!take_number(v, &n))
			return bad(err, errlen, "'%s' is no number", v);
		if (n & ~f->most)
			return bad(err, errlen, "0x%" PRIx64 " is not among 0x%" PRIx64,
				   n & ~f->most, f->most);
		break;
	case ODP:
	case GENERAL:
	case TYPES:
	case GIDS:
		if (take_words(f->kind, v, &n, err, errlen))
			return -EINVAL;
		if (n & ~f->most)
			return bad(err, errlen, "'%s' is more than the transport has", v);
		if (f->least & ~n)
			return bad(err, errlen, "'%s' is less than urxe needs", v);
		break;
	}
	*value_of(p, f) = n;
	return 0;
}

/* One KEY = VALUE; @seen: those that there were, by their places in the lists */
static int take_key(struct profile *p, const char *key, const char *v, uint64_t *seen,
		    char *err, size_t errlen)
{
	size_t i = 0, t = 0, place;
	uint64_t n;

	while (i < N_FIELDS && strcmp(fields[i].name, key) != 0)
		i++;
	while (t < N_TEXTS && strcmp(texts[t].name, key) != 0)
		t++;
	if (i < N_FIELDS)
		place = i;
	else if (t < N_TEXTS)
		place = N_FIELDS + t;
	else if (!strcmp(key, "fault_model"))
		place = N_FIELDS + N_TEXTS;
	else if (!strcmp(key, "fault_latency_us"))
		place = N_FIELDS + N_TEXTS + 1;
	else
		return bad(err, errlen, "there is no such key");
	if (*seen & 1ull << place)
		return bad(err, errlen, "is given twice");
	*seen |= 1ull << place;
	if (!*v)
		return bad(err, errlen, "has no value");
	if (i < N_FIELDS)
		return take_value(p, &fields[i], v, err, errlen);
	if (t < N_TEXTS)
		return take_text(text_of(p, &texts[t]), texts[t].size, v, err, errlen);
	if (place == N_FIELDS + N_TEXTS)
		return odp_model_from_name(v, &p->model)
			   ? bad(err, errlen, "'%s' is not one of %s", v,
				 ODP_FAULT_MODEL_NAMES)
			   : 0;
	if (!take_number(v, &n) || n > LATENCY_MAX)
		return bad(err, errlen, "'%s' is no number up to %u", v, LATENCY_MAX);
	p->fault_latency_us = n;
	return 0;
}

_Static_assert(N_FIELDS + N_TEXTS + 2 <= 64, "one bit for each key");

static void strip(char *s)
{
	size_t n = strlen(s), lead = strspn(s, " \t\r");

	while (n > lead && strchr(" \t\r", s[n - 1]))
		n--;
	memmove(s, s + lead, n - lead);
	s[n - lead] = '\0';
}

static int take_line(struct profile *p, const char *from, size_t len, uint64_t *seen,
		     char *err, size_t errlen)
{
	char line[KEY_MAX + VALUE_MAX], why[160];
	char *eq;

	if (len >= sizeof(line))
		return bad(err, errlen, "is longer than %zu bytes", sizeof(line) - 1);
	memcpy(line, from, len);
	line[len] = '\0';
	strip(line);
	if (!*line || *line == '#')
		return 0;
	eq = strchr(line, '=');
	if (!eq)
		return bad(err, errlen, "'%s' is not KEY = VALUE", line);
	*eq = '\0';
	strip(line);
	strip(eq + 1);
	if (take_key(p, line, eq + 1, seen, why, sizeof(why)))
		return bad(err, errlen, "%s: %s", line, why);
	return 0;
}

int profile_parse(const char *text, struct profile *p, char *err, size_t errlen)
{
	char why[240];
	uint64_t seen = 0;

	profile_default(p);
	for (unsigned int line = 1; *text; line++) {
		size_t n = strcspn(text, "\n");

		if (take_line(p, text, n, &seen, why, sizeof(why)))
			return bad(err, errlen, "line %u: %s", line, why);
		text += n + (text[n] == '\n');
	}
	return 0;
}

bool profile_is_file(const char *name)
{
	return strpbrk(name, "./");
}

static int load_file(const char *path, struct profile *p, char *err, size_t errlen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[PROFILE_TEXT_MAX + 1], why[260];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	int error = errno;

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return bad(err, errlen, "%.200s: %s", path, strerror(error));
	if ((size_t)n == sizeof(text))
		return bad(err, errlen, "%.200s has more than %d bytes", path,
			   PROFILE_TEXT_MAX);
	text[n] = '\0';
	if (strlen(text) != (size_t)n)
		return bad(err, errlen, "%.200s is no text", path);
	if (profile_parse(text, p, why, sizeof(why)))
		return bad(err, errlen, "%.200s: %s", path, why);
	return 0;
}

int profile_load(const char *name, struct profile *p, char *err, size_t errlen)
{
	const struct profile_known *k;

	for (size_t i = 0; (k = profile_known(i)); i++)
		if (!strcmp(k->name, *name ? name : "rxe"))
			return profile_parse(k->text, p, err, errlen);
	if (profile_is_file(name))
		return load_file(name, p, err, errlen);
	return bad(err, errlen,
		   "'%.64s' is no profile (see urxe profile list); a file has a "
		   "dot or a slash in its name",
		   name);
}

/* --- writing ---------------------------------------------------------------------- */

static void print_words(enum kind kind, uint64_t bits, FILE *out)
{
	const char *between = "";

	for (size_t i = 0; i < N_WORDS; i++)
		if (words[i].kind == kind && (bits & words[i].bits) == words[i].bits) {
			fprintf(out, "%s%s", between, words[i].name);
			between = " ";
		}
	if (!*between)
		fputs("none", out);
}

void profile_print(const struct profile *p, bool given, FILE *out)
{
	struct profile *q = (struct profile *)p; /* only to find its members */
	struct profile rxe;

	profile_default(&rxe);
	for (size_t i = 0; i < N_TEXTS; i++)
		if (*text_of(q, &texts[i]) &&
		    (!given ||
		     strcmp(text_of(q, &texts[i]), text_of(&rxe, &texts[i])) != 0))
			fprintf(out, "%s = %s\n", texts[i].name, text_of(q, &texts[i]));
	for (size_t i = 0; i < N_FIELDS; i++) {
		const struct field *f = &fields[i];
		uint64_t n = *value_of(q, f);

		if (given && n == f->rxe)
			continue;
		fprintf(out, "%s = ", f->name);
		switch (f->kind) {
		case NUMBER:
			fprintf(out, "%" PRIu64, n);
			break;
		case HEX:
		case BITS:
			fprintf(out, "0x%" PRIx64, n);
			break;
		case ODP:
		case GENERAL:
		case TYPES:
		case GIDS:
			print_words(f->kind, n, out);
			break;
		}
		fputc('\n', out);
	}
	if (!given || p->model != ODP_FAULT_SYNC)
		fprintf(out, "fault_model = %s\n", odp_model_name(p->model));
	if (!given || p->fault_latency_us)
		fprintf(out, "fault_latency_us = %" PRIu64 "\n", p->fault_latency_us);
}

/* --- from ibv_devinfo(1) ---------------------------------------------------------- */

/* The line of @key in the lines of one device, or NULL; what stands behind its colon */
static const char *devinfo_line(const char *text, const char *key)
{
	size_t n = strlen(key);

	while (*text) {
		const char *p = text + strspn(text, " \t");

		if (!strncmp(p, "hca_id:", 7) && strcmp(key, "hca_id") != 0)
			return NULL;
		if (!strncmp(p, key, n) && p[n] == ':')
			return p + n + 1 + strspn(p + n + 1, " \t");
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return NULL;
}

/* "ATOMIC_HCA (1)": 1, "0x1234": that */
static bool devinfo_number(const char *v, uint64_t *n)
{
	size_t len = strcspn(v, "\r\n");
	const char *open = memchr(v, '(', len);
	char word[32];

	if (open)
		v = open + 1;
	len = strcspn(v, " \t\r\n)");
	if (len >= sizeof(word))
		return false;
	memcpy(word, v, len);
	word[len] = '\0';
	return take_number(word, n);
}

/* The words of the lines behind a key, which ibv_devinfo writes as SUPPORT_SEND, ODP_SUPPORT */
static uint64_t devinfo_words(enum kind kind, const char *v)
{
	uint64_t bits = 0;

	for (v += strcspn(v, "\n"); *v; v += strcspn(v, "\n")) {
		size_t n, i = 0;

		v += 1 + strspn(v + 1, " \t\r");
		n = strcspn(v, " \t\r\n");
		if (n == 11 && kind == GENERAL && !strncmp(v, "ODP_SUPPORT", n)) {
			bits |= IBV_ODP_SUPPORT;
			continue;
		}
		if (!strncmp(v, "ODP_SUPPORT_", 12)) {
			v += 12;
			n -= 12;
		} else if (!strncmp(v, "SUPPORT_", 8)) {
			v += 8;
			n -= 8;
		} else {
			break;
		}
		while (i < N_WORDS &&
		       (words[i].kind != kind || strlen(words[i].name) != n ||
			strncmp(words[i].name, v, n) != 0))
			i++;
		if (i < N_WORDS)
			bits |= words[i].bits;
	}
	return bits;
}

/* What urxe can do of what the device does */
static void take_as_far(struct profile *p, const struct field *f, uint64_t n, FILE *out)
{
	uint64_t can = n;

	if (f->kind != NUMBER && f->kind != HEX)
		can &= f->most;
	else if (can > f->most)
		can = f->most;
	else if (can < f->least)
		can = f->least;
	if (can != n)
		fprintf(out,
			f->kind == NUMBER ? "# %s is %" PRIu64 "; urxe has %" PRIu64 "\n"
					  : "# %s is 0x%" PRIx64 "; urxe has 0x%" PRIx64
					    "\n",
			f->name, n, can);
	*value_of(p, f) = can;
}

/* Is one of the GIDs of type RoCE v1? Its line ends with that. */
static bool devinfo_has_v1(const char *text)
{
	for (; *text; text += *text == '\n') {
		size_t n = strcspn(text, "\r\n"), blank = strspn(text, " \t");

		if (!strncmp(text + blank, "hca_id:", 7))
			return false;
		if (!strncmp(text + blank, "GID[", 4) && n > 7 &&
		    !strncmp(text + n - 7, "RoCE v1", 7))
			return true;
		text += strcspn(text, "\n");
	}
	return false;
}

static void devinfo_field(const char *text, struct profile *p, const struct field *f,
			  FILE *out)
{
	const char *v = devinfo_line(text, f->name);
	uint64_t n;

	switch (f->kind) {
	case BITS:
		/* an older ibv_devinfo has the lower half only */
		if (devinfo_line(text, "device_cap_flags_ex"))
			v = devinfo_line(text, "device_cap_flags_ex");
		/* fallthrough */
	case NUMBER:
	case HEX:
		if (v && devinfo_number(v, &n))
			take_as_far(p, f, n, out);
		break;
	case ODP:
	case GENERAL:
		if (v)
			take_as_far(p, f, devinfo_words(f->kind, v), out);
		break;
	case GIDS:
		if (devinfo_has_v1(text))
			*value_of(p, f) |= EMU_GID_V1;
		break;
	case TYPES:
		break;
	}
}

/* IEEE's number of the vendor, and PCI's */
static const struct {
	uint32_t vendor, pci;
} pci_vendors[] = {{0x2c9, 0x15b3}, {0x8086, 0x8086}, {0x14e4, 0x14e4}, {0x1425, 0x1425}};

/* What ibv_devinfo does not say, and follows from what it says */
static void complete(struct profile *p)
{
	struct emu_limits *l = &p->limits;

	for (size_t i = 0; i < sizeof(pci_vendors) / sizeof(pci_vendors[0]); i++)
		if (l->vendor_id == pci_vendors[i].vendor)
			l->pci_vendor = pci_vendors[i].pci;
	if (!(l->device_cap_flags & IBV_DEVICE_XRC))
		l->qp_types &= ~(uint64_t)EMU_TYPES_XRC;
	/* the name that mlx5 gives a card in hca_type */
	if (l->vendor_id == pci_vendors[0].vendor)
		snprintf(p->hca_type, sizeof(p->hca_type), "MT%" PRIu64,
			 l->vendor_part_id);
	if (!l->max_srq)
		l->max_srq_wr = l->max_srq_sge = 0;
}

/* The lines of @device, or of the first; NULL: there are none */
static const char *devinfo_device(const char *text, const char *device)
{
	const char *v;

	for (v = devinfo_line(text, "hca_id"); v && device;
	     v = devinfo_line(v + strcspn(v, "\n"), "hca_id")) {
		size_t n = strcspn(v, " \t\r\n");

		if (strlen(device) == n && !strncmp(v, device, n))
			break;
	}
	return v ? v + strcspn(v, "\n") : NULL;
}

int profile_from_devinfo(const char *text, const char *device, struct profile *p,
			 FILE *out, char *err, size_t errlen)
{
	const char *of = devinfo_device(text, device);

	profile_default(p);
	if (!of)
		return device ? bad(err, errlen, "there is no device %.64s in it", device)
			      : bad(err, errlen, "is no output of ibv_devinfo -v");
	if (!devinfo_line(of, "max_qp_wr"))
		return bad(err, errlen, "has no limits: ibv_devinfo needs -v");
	for (size_t i = 0; i < N_TEXTS; i++) {
		const char *v = devinfo_line(of, texts[i].name);
		size_t n = v ? strcspn(v, "\r\n") : 0;

		if (n && n < texts[i].size) {
			memcpy(text_of(p, &texts[i]), v, n);
			text_of(p, &texts[i])[n] = '\0';
			text_make_line(text_of(p, &texts[i]));
		}
	}
	for (size_t i = 0; i < N_FIELDS; i++)
		devinfo_field(of, p, &fields[i], out);
	complete(p);
	return 0;
}

/* --- the speed of the port -------------------------------------------------------- */

/* enum ib_port_speed, and rates of one lane in units of 100 Mb/s (rate_show() of the kernel) */
static const struct {
	uint64_t speed;
	unsigned int rate;
	const char *name;
} speeds[] = {{1, 25, "SDR"},	{2, 50, "DDR"},	  {4, 100, "QDR"},  {8, 100, "FDR10"},
	      {16, 140, "FDR"}, {32, 250, "EDR"}, {64, 500, "HDR"}, {128, 1000, "NDR"}};

void profile_rate(const struct profile *p, char *text, size_t size)
{
	uint64_t w = p->limits.active_width;
	unsigned int width = w == 2 ? 4 : w == 4 ? 8 : w == 8 ? 12 : w == 16 ? 2 : 1;
	size_t i = 0, n = sizeof(speeds) / sizeof(speeds[0]);

	while (i < n - 1 && speeds[i].speed < p->limits.active_speed)
		i++;
	snprintf(text, size, "%u%s Gb/sec (%uX %s)", speeds[i].rate * width / 10,
		 speeds[i].rate * width % 10 ? ".5" : "", width, speeds[i].name);
}
