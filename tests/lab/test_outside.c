/*
 * Description: a program that is linked with liburxe.so and not run by urxe. Everything
 * says so, and the machine's own devices are as ever.
 */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdlib.h>

#include "urxe.h"
#include "../check_main.h"

START_TEST(nothing_is_ours)
{
	struct ibv_context context = {.cmd_fd = 0};
	struct ibv_pd pd = {.context = &context};
	struct ibv_mr mr = {.context = &context, .pd = &pd};
	struct ibv_exp_device_attr attr = {0};
	struct ibv_exp_prefetch_attr prefetch = {0};
	struct ibv_exp_reg_mr_in in = {.pd = &pd};
	struct urxe_counters c;
	uint64_t value;
	uint8_t bit;

	ck_assert_int_eq(urxe_active(), 0);
	ck_assert_int_eq(urxe_is_emulated(&context), 0);
	ck_assert_int_eq(urxe_mr_counters(&mr, &c, sizeof(c)), ENOSYS);
	ck_assert_int_eq(errno, ENOSYS);
	ck_assert_int_eq(urxe_mr_reset_counters(&mr), ENOSYS);
	ck_assert_int_eq(urxe_device_counters(&context, &c, sizeof(c)), ENOSYS);
	ck_assert_int_eq(urxe_device_reset_counters(&context), ENOSYS);
	ck_assert_int_eq(urxe_device_hw_counter(&context, "sent_pkts", &value), ENOSYS);
	ck_assert_int_eq(urxe_mr_set_name(&mr, "x"), ENOSYS);
	ck_assert_int_eq(urxe_mr_page_map(&mr, NULL, 1, URXE_PAGE_READ, &bit, 1), ENOSYS);
	ck_assert_uint_eq(urxe_mr_page_size(&mr), 0);
	ck_assert_int_eq(urxe_prefetch_wait(&context), ENOSYS);
	ck_assert_int_eq(urxe_mr_set_fault_model(&mr, URXE_FAULT_RNR, 0), ENOSYS);
	ck_assert_int_eq(urxe_device_set_fault_model(&context, URXE_FAULT_RNR, 0),
			 ENOSYS);
	ck_assert_int_eq(urxe_set_fault_script(&context, NULL), ENOSYS);
	ck_assert_int_eq(ibv_exp_prefetch_mr(&mr, &prefetch), ENOSYS);
	ck_assert_int_eq(ibv_exp_query_device(&context, &attr), ENOSYS);
	errno = 0;
	ck_assert_ptr_null(ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, ENOSYS);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("outside");
	TCase *tc = tcase_create("all");

	tcase_add_test(tc, nothing_is_ours);
	suite_add_tcase(s, tc);
	return check_main(s);
}
