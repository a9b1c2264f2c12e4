/*
 * Description: exactly the paths of the emulated devices go to the generated tree.
 */
#include <sys/sysmacros.h>

#include "tests/verbs/util.h"
#include "verbs/host/paths.h"

#define DIR "/run/s"

static const struct {
	const char *path, *place;
} mapped[] = {
    {"/sys/class/infiniband", DIR "/sys/class/infiniband"},
    {"/sys/class/infiniband/", DIR "/sys/class/infiniband/"},
    {"/sys/class/infiniband/rxe0/ports/1/gids/0",
     DIR "/sys/class/infiniband/rxe0/ports/1/gids/0"},
    {"/sys/class/infiniband_verbs/uverbs0/dev",
     DIR "/sys/class/infiniband_verbs/uverbs0/dev"},
    {"/sys/class/infiniband_verbs/abi_version",
     DIR "/sys/class/infiniband_verbs/abi_version"},
    {"/sys/class/infiniband_mad/umad0", DIR "/sys/class/infiniband_mad/umad0"},
    {"/sys/class/misc/rdma_cm/abi_version", DIR "/sys/class/misc/rdma_cm/abi_version"},
    {"/sys/devices/urxe/rxe0/vendor", DIR "/sys/devices/urxe/rxe0/vendor"},
    {"/dev/infiniband", DIR "/dev/infiniband"},
    {"/dev/infiniband/uverbs0", DIR "/dev/infiniband/uverbs0"},
};

static const char *const untouched[] = {
    "",
    "/",
    "/sys",
    "/sys/class",
    "/sys/class/infiniban",
    "/sys/class/infinibandx",
    "/sys/class/infiniband_foo",
    "/sys/class/net/lo",
    "/sys/class/misc",
    "/sys/class/misc/rdma_cmx",
    "/sys/devices/urxe2",
    "/sys/devices/pci0000:00",
    "/dev",
    "/dev/infinibandx",
    "/dev/null",
    "sys/class/infiniband",
    "./dev/infiniband",
    "/tmp/sys/class/infiniband",
    "/proc/self/maps",
};

START_TEST(paths_lead_into_the_tree)
{
	char buf[PATH_MAX];

	ck_assert(paths_is_ours(mapped[_i].path));
	ck_assert_str_eq(paths_map(DIR, mapped[_i].path, buf), mapped[_i].place);
	ck_assert(paths_unmap(DIR, buf));
	ck_assert_str_eq(buf, mapped[_i].path);
	ck_assert_ptr_eq(paths_map(NULL, mapped[_i].path, buf), mapped[_i].path);
}
END_TEST

START_TEST(leaves_others_alone)
{
	char buf[PATH_MAX], copy[64];

	ck_assert(!paths_is_ours(untouched[_i]));
	ck_assert_ptr_eq(paths_map(DIR, untouched[_i], buf), untouched[_i]);
	strcpy(copy, untouched[_i]);
	ck_assert(!paths_unmap(DIR, copy));
	ck_assert_str_eq(copy, untouched[_i]);
}
END_TEST

START_TEST(odd_paths_lead_where_they_should)
{
	char buf[PATH_MAX], path[PATH_MAX + 16];

	ck_assert(!paths_is_ours(NULL));
	ck_assert_ptr_null(paths_map(DIR, NULL, buf));
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	memcpy(path, "/dev/infiniband/", 16);
	errno = 0;
	ck_assert_ptr_null(paths_map(DIR, path, buf));
	ck_assert_int_eq(errno, ENAMETOOLONG);
	/* the longest that fits, and one byte more */
	path[PATH_MAX - 1 - strlen(DIR)] = '\0';
	ck_assert_ptr_eq(paths_map(DIR, path, buf), buf);
	ck_assert_uint_eq(strlen(buf), PATH_MAX - 1);
	path[PATH_MAX - 1 - strlen(DIR)] = 'a';
	path[PATH_MAX - strlen(DIR)] = '\0';
	ck_assert_ptr_null(paths_map(DIR, path, buf));
	strcpy(path, DIR "x/sys");
	ck_assert(!paths_unmap(DIR, path));
	strcpy(path, DIR);
	ck_assert(!paths_unmap(DIR, path));
}
END_TEST

START_TEST(device_nodes_are_known)
{
	static const struct {
		const char *path;
		int node;
	} n[] = {
	    {"/dev/infiniband/uverbs0", 0},
	    {"/dev/infiniband/uverbs31", 31},
	    {"/dev/infiniband/rdma_cm", PATHS_NODE_CM},
	    {"/dev/infiniband/uverbs32", PATHS_NODE_NONE},
	    {"/dev/infiniband/uverbs", PATHS_NODE_NONE},
	    {"/dev/infiniband/uverbs00", PATHS_NODE_NONE},
	    {"/dev/infiniband/uverbs1x", PATHS_NODE_NONE},
	    {"/dev/infiniband/uverbs-1", PATHS_NODE_NONE},
	    {"/dev/infiniband/uverbs99999999999999999999", PATHS_NODE_NONE},
	    {"/dev/infiniband/umad0", PATHS_NODE_NONE},
	    {"/dev/infiniband", PATHS_NODE_NONE},
	    {"/dev/uverbs0", PATHS_NODE_NONE},
	    {NULL, PATHS_NODE_NONE},
	};

	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++)
		ck_assert_int_eq(paths_node(n[i].path), n[i].node);
	ck_assert_uint_eq(paths_node_rdev(3), makedev(231, 195));
	ck_assert_uint_eq(major(paths_node_rdev(PATHS_NODE_CM)), 10);
	ck_assert_uint_eq(paths_node_rdev(PATHS_NODE_NONE), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, paths_lead_into_the_tree, 0,
			    sizeof(mapped) / sizeof(mapped[0]));
	tcase_add_loop_test(tc, leaves_others_alone, 0,
			    sizeof(untouched) / sizeof(untouched[0]));
	tcase_add_test(tc, odd_paths_lead_where_they_should);
	tcase_add_test(tc, device_nodes_are_known);
}

int main(void)
{
	return util_run("paths", add);
}
