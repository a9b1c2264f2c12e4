/*
 * Description: text and JSON of records: each kind has its words and uses fields that it has;
 * numbers have their names; whatever the bytes are, it is one printable line, and JSON.
 */
#include <json.h>

#include "tests/trace/util.h"
#include "trace/render.h"

START_TEST(each_kind_says_what_its_fields_are)
{
	struct trace_record r = {.kind = (uint16_t)_i};
	const struct trace_kind_desc *k = trace_kind((unsigned int)_i);
	char line[512];

	ck_assert_int_gt(trace_text(&r, line, sizeof(line)), 0);
	/* a brace that is left is a field that the kind has not */
	ck_assert_msg(!strpbrk(line, "{}"), "%s: %s", k->name, line);
	ck_assert_uint_gt(k->n_fields, 0);
	for (unsigned int i = 0; i < k->n_fields; i++) {
		ck_assert_uint_le(k->field[i].offset + k->field[i].size, TRACE_PAYLOAD);
		ck_assert_ptr_eq(trace_field_named(k, "unused") == &k->field[i]
				     ? &k->field[i]
				     : trace_field_named(k, k->field[i].name),
				 &k->field[i]);
	}
}
END_TEST

static const struct {
	enum trace_unit unit;
	uint64_t value;
	const char *name;
} names[] = {
    {TRACE_OPCODE, 0x04, "SEND_ONLY"},
    {TRACE_OPCODE, 0xb1, "ACK"},
    {TRACE_OPCODE, 0x1d, "ATOMIC_WRITE"},
    {TRACE_WR, 4, "READ"},
    {TRACE_WC, 128, "RECV"},
    {TRACE_STATUS, 12, "RETRY_EXC_ERR"},
    {TRACE_STATUS, 13, "RNR_RETRY_EXC_ERR"},
    {TRACE_STATE, 6, "ERR"},
    {TRACE_TYPE, 2, "RC"},
    {TRACE_TYPE, 10, "XRC_RECV"},
    {TRACE_EVENT, 18, "GID_CHANGE"},
    {TRACE_CM_MSG, 0x10, "REQ"},
    {TRACE_CM_MSG, 0x16, "DREP"},
    {TRACE_CM_EVENT, 9, "ESTABLISHED"},
    {TRACE_CM_CALL, 22, "join_mcast"},
    {TRACE_WHY, TRACE_WHY_ACK, "acknowledge"},
};

START_TEST(numbers_have_their_names)
{
	ck_assert_str_eq(trace_name(names[_i].unit, names[_i].value), names[_i].name);
	ck_assert_ptr_null(trace_name(names[_i].unit, UINT64_MAX - 7));
	ck_assert_ptr_null(trace_name(TRACE_NUM, 0));
}
END_TEST

START_TEST(a_line_says_it_all)
{
	struct trace_record r = {.kind = TRACE_KIND_modify_refused};
	char line[256];

	r.u.modify_refused.qpn = 0x11;
	r.u.modify_refused.mask = 1 | 1 << 20;
	r.u.modify_refused.result = -EINVAL;
	r.u.modify_refused.from = 1;
	r.u.modify_refused.refused = 1 << 7;
	trace_text(&r, line, sizeof(line));
	ck_assert_str_eq(
	    line, "QP 0x000011 modify STATE,DEST_QPN in INIT: EINVAL because of AV");
	r = (struct trace_record){.kind = TRACE_KIND_drop};
	r.u.drop.why = TRACE_DROP_NO_QP;
	r.u.drop.opcode = 0x11;
	r.u.drop.qpn = 0x40;
	memcpy(r.u.drop.from.b, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	trace_text(&r, line, sizeof(line));
	ck_assert_str_eq(line,
			 "dropped ACK PSN 0 for QP 0x000040 from 127.0.0.1: no such QP");
}
END_TEST

START_TEST(acknowledges_say_which)
{
	static const struct {
		uint8_t syndrome;
		const char *text;
	} c[] = {
	    {0x00, "ACK"},
	    {0x1f, "ACK"},
	    {0x20, "RNR NAK (timer 0)"},
	    {0x3f, "RNR NAK (timer 31)"},
	    {0x40, "syndrome 0x40"},
	    {0x60, "NAK (PSN sequence error)"},
	    {0x63, "NAK (remote operational error)"},
	    {0x64, "syndrome 0x64"},
	    {0xff, "syndrome 0xff"},
	};
	char text[64];

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		trace_syndrome_text(c[i].syndrome, text, sizeof(text));
		ck_assert_str_eq(text, c[i].text);
	}
}
END_TEST

/* Keys and QPNs as they are elsewhere; words that are there only if their field is not 0 */
START_TEST(words_follow_from_other_fields)
{
	static const struct {
		enum trace_object_kind object;
		const char *id;
	} c[] = {{TRACE_OBJ_QP, " 0x000104 "},
		 {TRACE_OBJ_MR, " 0x104 "},
		 {TRACE_OBJ_MW, " 0x104 "},
		 {TRACE_OBJ_CQ, " 260 "},
		 {TRACE_OBJ_PD, " 260 "}};
	struct trace_record r = {.kind = TRACE_KIND_verb};
	char line[256];

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		r.u.verb.object = (uint8_t)c[i].object;
		r.u.verb.id = 0x104;
		trace_text(&r, line, sizeof(line));
		ck_assert_msg(strstr(line, c[i].id), "%s", line);
	}
	r = (struct trace_record){.kind = TRACE_KIND_fault};
	r.u.fault.pages = 1;
	r.u.fault.made = 2;
	trace_text(&r, line, sizeof(line));
	ck_assert_ptr_nonnull(strstr(line, ", 1 page: 2 pages made present in 0 ns"));
	r.u.fault.write = 1;
	r.u.fault.remote = 1;
	trace_text(&r, line, sizeof(line));
	ck_assert_ptr_nonnull(strstr(line, ", 1 page to write for a peer: 2 pages"));
}
END_TEST

START_TEST(any_bytes_are_one_printable_line)
{
	unsigned int seed = 3;
	char line[200];

	for (int i = 0; i < 20000; i++) {
		struct trace_record r = {.kind = (uint16_t)(rand_r(&seed) % 70)};

		for (size_t k = 0; k < sizeof(r.u.bytes); k++)
			r.u.bytes[k] = (uint8_t)rand_r(&seed);
		trace_text(&r, line, i % 7 ? sizeof(line) : (size_t)(i % 20) + 1);
		for (char *p = line; *p; p++)
			if (*p < 0x20 || *p > 0x7e)
				ck_abort_msg("%s", line);
	}
}
END_TEST

/* The JSON of a segment, parsed; the caller puts it */
static struct json_object *parse(const struct recorder *r)
{
	struct json_object *json;
	struct trace_reader *t;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	ck_assert_int_eq(trace_open_recorder(r, &t), 0);
	ck_assert_int_eq(trace_json(t, out), 0);
	fclose(out);
	trace_close(t);
	json = json_tokener_parse(text);
	ck_assert_msg(json != NULL, "%s", text);
	/* it may stand in a script of a page */
	ck_assert_msg(!strpbrk(text, "<>&"), "%s", text);
	free(text);
	return json;
}

START_TEST(a_segment_is_json)
{
	struct recorder *r = open_recorder(NULL, 128);
	struct json_object *json, *records, *objects, *v;
	unsigned int seed = 4;

	for (unsigned int k = 1; k < TRACE_N_KINDS; k++) {
		uint64_t payload[TRACE_PAYLOAD / 8];

		for (size_t i = 0; i < TRACE_PAYLOAD / 8; i++)
			payload[i] =
			    (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed);
		recorder_put(r, k, k, payload);
	}
	for (unsigned int k = 1; k < TRACE_N_OBJECTS; k++) {
		struct trace_object *o = recorder_object(r);

		for (size_t i = 0; i < sizeof(o->room); i++)
			((uint8_t *)o->room)[i] = (uint8_t)rand_r(&seed);
		strcpy(o->name, "a \"name\" \\ \001</script>&");
		recorder_object_ready(o, k);
	}
	json = parse(r);
	ck_assert(json_object_object_get_ex(json, "records", &records));
	ck_assert_uint_eq(json_object_array_length(records), TRACE_N_KINDS - 1);
	ck_assert(json_object_object_get_ex(json, "objects", &objects));
	ck_assert_uint_eq(json_object_array_length(objects), TRACE_N_OBJECTS - 1);
	ck_assert(
	    json_object_object_get_ex(json_object_array_get_idx(records, 0), "kind", &v));
	ck_assert_str_eq(json_object_get_string(v), "packet_out");
	json_object_put(json);
	recorder_close(r);
}
END_TEST

/* The text of @name, or of @in.name, in an object */
static const char *member(struct json_object *o, const char *in, const char *name)
{
	struct json_object *v = o;

	if (in && !json_object_object_get_ex(o, in, &v))
		return "none";
	return json_object_object_get_ex(v, name, &v) ? json_object_get_string(v)
						      : "none";
}

START_TEST(objects_have_their_own_values)
{
	struct recorder *r = open_recorder(NULL, 16);
	struct trace_object *mr = recorder_object(r), *pinned = recorder_object(r),
			    *cq = recorder_object(r), *qp = recorder_object(r);
	struct json_object *json, *all, *o;

	mr->mr.on_demand = true;
	memset(mr->mr.map, 'w', sizeof(mr->mr.map));
	mr->mr.counter[1] = 7;
	cq->cq.produced = 9;
	cq->cq.polled = 4;
	qp->qp.sq.posted = 11;
	qp->qp.rq.posted = 12;
	qp->qp.out.count = 1;
	qp->qp.out.opcode = 4;
	memcpy(qp->qp.local.b, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\7", 16);
	recorder_object_ready(mr, TRACE_OBJ_MR);
	recorder_object_ready(pinned, TRACE_OBJ_MR);
	recorder_object_ready(cq, TRACE_OBJ_CQ);
	recorder_object_ready(qp, TRACE_OBJ_QP);
	TRACE(r, 1, cm_event, .status = -22);
	r->hdr->end = TRACE_REPLACED + 1; /* of a later urxe */
	json = parse(r);
	ck_assert_str_eq(member(json, NULL, "end"), "?");
	ck_assert(json_object_object_get_ex(json, "records", &all));
	o = json_object_array_get_idx(all, 0);
	ck_assert_str_eq(member(o, NULL, "kind"), "cm_event");
	ck_assert_str_eq(member(o, NULL, "status"), "-22");
	ck_assert(json_object_object_get_ex(json, "objects", &all));
	o = json_object_array_get_idx(all, 0);
	ck_assert_uint_eq(strlen(member(o, NULL, "map")), TRACE_MAP_CELLS);
	ck_assert_str_ne(member(o, NULL, "counters"), "none");
	o = json_object_array_get_idx(all, 1);
	ck_assert_str_eq(member(o, NULL, "on_demand"), "false");
	ck_assert_str_eq(member(o, NULL, "counters"), "none");
	o = json_object_array_get_idx(all, 2);
	ck_assert_str_eq(member(o, NULL, "produced"), "9");
	ck_assert_str_eq(member(o, NULL, "polled"), "4");
	o = json_object_array_get_idx(all, 3);
	ck_assert_str_eq(member(o, "sq", "posted"), "11");
	ck_assert_str_eq(member(o, "rq", "posted"), "12");
	ck_assert_str_eq(member(o, "last_out", "opcode"), "SEND_ONLY");
	ck_assert_str_eq(member(o, "last_in", "opcode"), "none");
	ck_assert_str_eq(member(o, NULL, "local"), "fe80::7");
	json_object_put(json);
	recorder_close(r);
}
END_TEST

START_TEST(times_and_sizes_are_short)
{
	static const struct {
		uint64_t n;
		const char *time, *size;
	} t[] = {
	    {0, "0 ns", "0 B"},
	    {999, "999 ns", "999 B"},
	    {1023, "1.02 us", "1023 B"},
	    {1024, "1.02 us", "1 KiB"},
	    {1536, "1.54 us", "1.5 KiB"},
	    {41779, "41.8 us", "40.8 KiB"},
	    {999499, "999 us", "976 KiB"},
	    {999600, "1 ms", "976 KiB"},
	    {1048576, "1.05 ms", "1 MiB"},
	    {999500000, "0.9995 s", "953 MiB"},
	    {12345678900000, "12346 s", "11.2 TiB"},
	};
	char buf[32];

	ck_assert_str_eq(trace_time_text(t[_i].n, buf), t[_i].time);
	ck_assert_str_eq(trace_size_text(t[_i].n, buf), t[_i].size);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("render");
	TCase *tc = tcase_create("render");

	tcase_add_loop_test(tc, each_kind_says_what_its_fields_are, 1, TRACE_N_KINDS);
	tcase_add_loop_test(tc, numbers_have_their_names, 0,
			    sizeof(names) / sizeof(names[0]));
	tcase_add_test(tc, a_line_says_it_all);
	tcase_add_test(tc, acknowledges_say_which);
	tcase_add_test(tc, words_follow_from_other_fields);
	tcase_add_test(tc, any_bytes_are_one_printable_line);
	tcase_add_test(tc, a_segment_is_json);
	tcase_add_test(tc, objects_have_their_own_values);
	tcase_add_loop_test(tc, times_and_sizes_are_short, 0, 11);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return check_main(suite());
}
