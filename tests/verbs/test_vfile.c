/*
 * Description: the table of emulated files follows dup and close, calls release once, and
 * is of no effect in children, however they were made.
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/verbs/util.h"

struct file {
	struct vfile vf;
	int released;
};

static ssize_t file_read(struct vfile *vf, int fd, void *buf, size_t len)
{
	return 42;
}

static void file_release(struct vfile *vf)
{
	((struct file *)vf)->released++;
}

static const struct vfile_ops ops = {.read = file_read, .release = file_release};
static const struct vfile_ops other_ops = {.read = file_read};

static int open_file(struct file *f)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	*f = (struct file){.vf = {.ops = &ops}};
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(vfile_install(fd, &f->vf), 0);
	return fd;
}

START_TEST(unknown_descriptors_are_none)
{
	static const int fds[] = {-1,	     0,	       1023, 1 << 20, (1 << 20) - 1,
				  INT32_MAX, INT32_MIN};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		ck_assert_ptr_null(vfile_get(fds[i]));
		vfile_close(fds[i]);
		vfile_dup(fds[i], fds[i]);
		ck_assert(!vfile_is_private(fds[i]));
	}
	ck_assert_int_eq(vfile_install(-1, &(struct vfile){.ops = &ops}), -EMFILE);
	ck_assert_int_eq(vfile_install(1 << 20, &(struct vfile){.ops = &ops}), -EMFILE);
}
END_TEST

START_TEST(release_comes_with_the_last_close)
{
	struct file f;
	int fd = open_file(&f), copy = dup(fd), third = dup(fd);

	vfile_dup(fd, copy);
	vfile_dup(copy, third);
	util_close(fd);
	ck_assert_ptr_null(vfile_get(fd));
	ck_assert_int_eq(util_read(copy, NULL, 0), 42);
	util_close(copy);
	ck_assert_int_eq(f.released, 0);
	util_close(third);
	ck_assert_int_eq(f.released, 1);
}
END_TEST

START_TEST(a_borrowed_reference_defers_release)
{
	struct file f;
	int fd = open_file(&f);
	struct vfile *vf = vfile_get(fd);

	ck_assert_ptr_eq(vf, &f.vf);
	util_close(fd);
	ck_assert_int_eq(f.released, 0);
	vfile_put(vf);
	ck_assert_int_eq(f.released, 1);
}
END_TEST

START_TEST(dup_over_another)
{
	struct file f, g;
	int a = open_file(&f), b = open_file(&g), plain = eventfd(0, 0);

	vfile_dup(a, b); /* dup2(a, b) */
	ck_assert_int_eq(g.released, 1);
	vfile_dup(plain, b);
	ck_assert_ptr_null(vfile_get(b));
	ck_assert_int_eq(f.released, 0);
	vfile_dup(plain, a);
	ck_assert_int_eq(f.released, 1);
}
END_TEST

START_TEST(only_what_has_the_operations)
{
	struct file f;
	int fd = open_file(&f);
	struct vfile *vf = vfile_get_as(fd, &ops);

	ck_assert_ptr_eq(vf, &f.vf);
	vfile_put(vf);
	ck_assert_ptr_null(vfile_get_as(fd, &other_ops));
}
END_TEST

START_TEST(private_descriptors_are_hidden)
{
	int fd = eventfd(7, 0), p = vfile_private_dup(fd);
	uint64_t v;

	ck_assert_int_ge(p, 32);
	ck_assert(vfile_is_private(p));
	ck_assert_ptr_null(vfile_get(p));
	ck_assert_uint_gt(vfile_limit(), (unsigned int)p);
	ck_assert_int_eq(read(p, &v, sizeof(v)), sizeof(v));
	ck_assert_uint_eq(v, 7);
	vfile_private_close(p);
	ck_assert(!vfile_is_private(p));
	ck_assert_int_eq(fcntl(p, F_GETFD), -1);
	vfile_private_close(fd); /* not one: stays open */
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
	ck_assert_int_eq(vfile_private_dup(9999), -EBADF);
}
END_TEST

static rlim_t limit_now(void)
{
	struct rlimit now;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &now), 0);
	return now.rlim_cur;
}

/* The program's limit is the same before, meanwhile and after; no child is left to wait for. */
START_TEST(private_above_the_limit)
{
	struct rlimit limit;
	int p;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	p = vfile_private_dup(0);
	ck_assert_int_ge(p, 64);
	ck_assert(vfile_is_private(p));
	ck_assert_int_eq(fcntl(p, F_GETFD), FD_CLOEXEC);
	ck_assert_uint_eq(limit_now(), 64);
	ck_assert_int_eq(waitpid(-1, NULL, __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
	vfile_private_close(p);
	ck_assert_int_eq(fcntl(p, F_GETFD), -1);
}
END_TEST

/* Also when the program has none left */
START_TEST(private_when_all_are_used)
{
	struct rlimit limit;
	int p;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (dup(0) >= 0)
		;
	p = vfile_private_dup(0);
	ck_assert_int_ge(p, 64);
	ck_assert_int_eq(dup(0), -1);
}
END_TEST

/* The program raises its limit later: what is made then is above the new one */
START_TEST(private_above_a_raised_limit)
{
	struct rlimit limit;
	rlim_t high;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	high = limit.rlim_max / 2 < 8192 ? limit.rlim_max / 2 : 8192;
	limit.rlim_cur = 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_ge(vfile_private_dup(0), 64);
	limit.rlim_cur = high;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_ge(vfile_private_dup(0), (int)high);
	ck_assert_uint_eq(limit_now(), high);
}
END_TEST

/* Soft and hard limit are equal, and nobody may raise them */
START_TEST(private_below_a_fixed_limit)
{
	struct rlimit small = {64, 64};
	int p;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
	if (!getuid())
		ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
	p = vfile_private_dup(0);
	ck_assert_int_ge(p, 32);
	ck_assert_int_lt(p, 64);
}
END_TEST

static int note(void *arg, int fd)
{
	*(int *)arg = fd;
	return 0;
}

START_TEST(a_file_is_used_by_a_descriptor_it_has)
{
	struct file f;
	int fd = open_file(&f), copy = dup(fd), seen = -1;

	vfile_dup(fd, copy);
	util_close(fd);
	ck_assert_int_eq(vfile_use(&f.vf, note, &seen), 0);
	ck_assert_int_eq(seen, copy);
	util_close(copy);
	ck_assert_int_eq(vfile_use(&f.vf, note, &seen), -EBADF);
}
END_TEST

/* The exit status of a child that finds what it should */
static void expect_child(pid_t pid)
{
	int status;

	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

START_TEST(a_forked_child_has_orphans)
{
	struct file f;
	int fd = open_file(&f), p = vfile_private_dup(fd);
	pid_t pid = fork();

	if (!pid) {
		struct vfile *vf = vfile_get(fd);
		bool good = vf && vf->ops->read(vf, fd, NULL, 0) == -EIO &&
			    vf->ops->write(vf, fd, NULL, 0) == -EIO &&
			    vf->ops->ioctl(vf, fd, 0, NULL) == -EIO && !vf->rdev;

		good = good && !vfile_is_private(p);
		vfile_put(vf);
		vfile_close(fd);
		good = good && !f.released && !vfile_get(fd);
		/* what the child opens is its own */
		open_file(&f);
		_exit(good ? 0 : 1);
	}
	expect_child(pid);
	ck_assert_int_eq(util_read(fd, NULL, 0), 42);
	ck_assert(vfile_is_private(p));
}
END_TEST

START_TEST(a_vforked_child_closes_nothing)
{
	struct file f;
	int fd = open_file(&f);
	pid_t pid = vfork();

	if (!pid) {
		vfile_close(fd);
		vfile_dup(0, fd);
		_exit(0);
	}
	expect_child(pid);
	ck_assert_int_eq(f.released, 0);
	ck_assert_int_eq(util_read(fd, NULL, 0), 42);
}
END_TEST

#define TURNS 20000

static void *get_and_put(void *arg)
{
	int fd = *(int *)arg;

	for (int i = 0; i < TURNS; i++) {
		struct vfile *vf = vfile_get(fd);

		if (vf)
			vfile_put(vf);
	}
	return NULL;
}

/* Lookups race with close and a new file under the same number */
START_TEST(lookups_race_with_close)
{
	struct file *f = calloc(TURNS, sizeof(*f));
	pthread_t t[2];
	int fd = eventfd(0, 0);

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, get_and_put, &fd);
	for (int i = 0; i < TURNS; i++) {
		f[i].vf.ops = &ops;
		ck_assert_int_eq(vfile_install(fd, &f[i].vf), 0);
		vfile_close(fd);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < TURNS; i++)
		ck_assert_int_eq(f[i].released, 1);
	free(f);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, unknown_descriptors_are_none);
	tcase_add_test(tc, release_comes_with_the_last_close);
	tcase_add_test(tc, a_borrowed_reference_defers_release);
	tcase_add_test(tc, dup_over_another);
	tcase_add_test(tc, only_what_has_the_operations);
	tcase_add_test(tc, private_descriptors_are_hidden);
	tcase_add_test(tc, private_above_the_limit);
	tcase_add_test(tc, private_when_all_are_used);
	tcase_add_test(tc, private_above_a_raised_limit);
	tcase_add_test(tc, private_below_a_fixed_limit);
	tcase_add_test(tc, a_file_is_used_by_a_descriptor_it_has);
	tcase_add_test(tc, a_forked_child_has_orphans);
	tcase_add_test(tc, a_vforked_child_closes_nothing);
	tcase_add_test(tc, lookups_race_with_close);
}

int main(void)
{
	return util_run("vfile", add);
}
