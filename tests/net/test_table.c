/*
 * Description: the table that processes share: claims in it; how it is found, made and removed,
 * whatever others put in its place.
 */
#include "tests/net/harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "net/port_internal.h"
#include "net/process_table.h"

START_TEST(registry_keeps_claims_apart)
{
	struct h_node a, b;
	unsigned int slot;
	uint64_t k;

	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	ck_assert_int_eq(net_registry_find(a.port, 5, &slot), -ENOENT);
	ck_assert_int_eq(net_registry_claim(a.port, 5, true), 0);
	ck_assert_int_eq(net_registry_claim(b.port, 5, true), -EADDRINUSE);
	ck_assert_int_eq(net_registry_claim(b.port, 5, false), -EADDRINUSE);
	ck_assert_int_eq(net_registry_claim(a.port, 5, true), -EADDRINUSE);
	ck_assert_int_eq(net_registry_find(b.port, 5, &slot), 0);
	ck_assert_uint_eq(slot, a.port->slot);
	ck_assert_int_eq(net_registry_release(b.port, 5), -ENOENT);
	ck_assert_int_eq(net_registry_release(a.port, 5), 0);
	ck_assert_int_eq(net_registry_claim(b.port, 5, false), 0);
	ck_assert_int_eq(net_registry_claim(a.port, 5, false), 0);
	ck_assert_int_eq(net_registry_find(a.port, 5, &slot), 0);
	ck_assert_uint_eq(slot, a.port->slot);
	for (k = 1000; k < 3000; k++)
		ck_assert_int_eq(net_registry_claim(a.port, k, true), 0);
	for (k = 1000; k < 3000; k++)
		ck_assert_int_eq(net_registry_find(b.port, k, &slot), 0);
	/* the end of a process is the end of its claims */
	h_close(&a);
	usleep(120000);
	net_port_poll(b.port, 1);
	for (k = 1000; k < 3000; k++)
		ck_assert_int_eq(net_registry_claim(b.port, k, true), 0);
	h_close(&b);
}
END_TEST

/* Who has the slot of a process that ended has not claimed what that one did */
START_TEST(a_claim_ends_with_its_process_whoever_has_its_slot)
{
	struct table *first, *next;
	unsigned int found;
	int slot;

	ck_assert_int_eq(table_open(h_shm(), &first), 0);
	slot = table_lease(first, 1000);
	ck_assert_int_gt(slot, 0);
	ck_assert_int_eq(table_claim(first, 5, true), 0);
	table_abandon(first);
	ck_assert_int_eq(table_open(h_shm(), &next), 0);
	while (!table_is_own(next, (unsigned int)slot))
		ck_assert_int_gt(table_lease(next, 1001), 0);
	ck_assert_int_eq(table_find(next, 5, 1, &found), -ENOENT);
	ck_assert_int_eq(table_claim(next, 5, true), 0);
	table_close(next);
}
END_TEST

/* The files in the table's directory; the name of the last one in @name */
static int count_tables(char name[400])
{
	DIR *d = opendir(h_shm());
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d)))
		if (e->d_name[0] != '.') {
			snprintf(name, 400, "%s/%s", h_shm(), e->d_name);
			n++;
		}
	closedir(d);
	return n;
}

/* As the table @own would be called in another network namespace */
static void name_of_other_namespace(const char *own, char *other, size_t size)
{
	const char *number = strrchr(own, '/') + strlen("/urxe2.");

	snprintf(other, size, "%.*s9%s", (int)(number - own), own, number);
}

START_TEST(tables_of_namespaces_that_are_gone_are_removed)
{
	char own[400], other[404];
	struct h_node a, b;

	h_open(&a, h_lo(1));
	ck_assert_int_eq(count_tables(own), 1);
	name_of_other_namespace(own, other, sizeof(other));
	ck_assert_int_eq(rename(own, other), 0);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), 0); /* somebody uses it */
	h_open(&b, h_lo(2));
	h_close(&a);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), -1);
	h_close(&b);
	table_remove_stale(h_shm());
	ck_assert_int_eq(count_tables(own), 1); /* this namespace lives */
	name_of_other_namespace(own, other, sizeof(other));
	ck_assert_int_eq(symlink(own, other), 0);
	table_remove_stale(h_shm());
	ck_assert_int_eq(count_tables(other), 2); /* what is no table stays */
}
END_TEST

/* Whoever locks any part of it has it in use */
START_TEST(a_table_with_a_lock_in_it_is_not_removed)
{
	struct flock fl = {
	    .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 1};
	char own[400], other[404];
	struct h_node a;
	int fd;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	name_of_other_namespace(own, other, sizeof(other));
	ck_assert_int_eq(rename(own, other), 0);
	fd = open(other, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &fl), 0);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), 0);
	close(fd);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), -1);
}
END_TEST

/* It was a table: who may have written into it meanwhile? */
START_TEST(a_table_that_is_open_to_others_is_not_used)
{
	char own[400];
	struct h_node a;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	ck_assert_int_eq(chmod(own, 0600 | (_i ? 020 : 04)), 0);
	h_open(&a, h_lo(1));
	ck_assert_int_eq(count_tables(own), 2);
	h_close(&a);
}
END_TEST

static void write_file(const char *name, mode_t mode)
{
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, mode);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "precious", 8), 8);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

START_TEST(what_has_the_name_of_a_table_and_is_none_stays)
{
	char own[400], other[404];
	struct h_node a;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	name_of_other_namespace(own, other, sizeof(other));
	write_file(other, 0600);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), 0);
}
END_TEST

/* Names can be foretold but for their end: somebody else may have as many as he likes. */
START_TEST(nobody_can_take_the_place_of_the_table)
{
	struct h_node a, b;
	char own[400], name[404];
	const char *end[] = {"000000", "000001", "000002", "000003", "000004"};
	size_t n;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	ck_assert_int_eq(unlink(own), 0);
	n = strlen(own) - 6;
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "%.*s%s", (int)n, own, end[i]);
		if (i == 0) /* readable by others */
			write_file(name, 0644);
		else if (i == 1) /* of another length */
			write_file(name, 0600);
		else if (i == 2)
			ck_assert_int_eq(mkdir(name, 0700), 0);
		else if (i == 3)
			ck_assert_int_eq(symlink("/dev/null", name), 0);
		else /* another user's, if this one may give it away */
			ck_assert_int_eq(
			    mkfifo(name, 0600) ||
				(geteuid() == 0 && chown(name, 65534, 65534)),
			    0);
	}
	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	ck_assert_int_eq(count_tables(name), 6);
	h_send(&a, &b.ip, b.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&b, 1);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* As a user whose files are closed to him by their mode */
static int meet_under_a_closed_umask(void)
{
	struct h_node a, b;

	if (geteuid() == 0 &&
	    (chown(h_shm(), 65534, 65534) || setresuid(65534, 65534, 65534)))
		return 1;
	umask(0777);
	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	h_send(&a, &b.ip, b.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&b, 1);
	return 0;
}

START_TEST(the_umask_separates_nobody)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(meet_under_a_closed_umask());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* Somebody else may keep the lock under which tables are made. */
START_TEST(a_locked_directory_delays_only)
{
	int fd = open(h_shm(), O_RDONLY | O_DIRECTORY);
	struct h_node a;

	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	h_open(&a, h_lo(1));
	h_close(&a);
	close(fd);
}
END_TEST

/* The one who removes holds this lock (see table_file.c), and the file is still there. */
START_TEST(a_table_that_is_being_removed_is_made_anew)
{
	struct flock fl = {
	    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1025, .l_len = 1};
	char own[400];
	struct h_node a, b;
	pid_t pid;
	int fd;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	fd = open(own, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &fl), 0);
	pid = fork();
	if (!pid) {
		usleep(100000);
		_exit(unlink(own)); /* and lets go of the lock */
	}
	close(fd);
	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	ck_assert_int_eq(count_tables(own), 1);
	h_send(&a, &b.ip, b.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&b, 1);
	waitpid(pid, NULL, 0);
	h_close(&a);
	h_close(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("table");
	TCase *t = tcase_create("table");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, h_setup, h_shm_remove);
	tcase_add_test(t, registry_keeps_claims_apart);
	tcase_add_test(t, a_claim_ends_with_its_process_whoever_has_its_slot);
	tcase_add_test(t, tables_of_namespaces_that_are_gone_are_removed);
	tcase_add_test(t, a_table_with_a_lock_in_it_is_not_removed);
	tcase_add_loop_test(t, a_table_that_is_open_to_others_is_not_used, 0, 2);
	tcase_add_test(t, what_has_the_name_of_a_table_and_is_none_stays);
	tcase_add_test(t, nobody_can_take_the_place_of_the_table);
	tcase_add_test(t, the_umask_separates_nobody);
	tcase_add_test(t, a_locked_directory_delays_only);
	tcase_add_test(t, a_table_that_is_being_removed_is_made_anew);
	suite_add_tcase(s, t);
	return h_main(s);
}
