/*
 * annotated.c - a program that changes what it sends, and says that it knows.
 *
 * usage: annotated none|ignore|expect|crash
 */
#include <signal.h>
#include <string.h>

#include "kit.h"
#include "urxe_check.h"

#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define REMOTE (LOCAL | IBV_ACCESS_REMOTE_WRITE)

int main(int argc, char **argv)
{
	struct ibv_mr *from, *to;
	struct kit k;

	kit_open(&k);
	from = kit_reg(&k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL);
	to = kit_reg(&k, kit_map(KIT_PAGE), KIT_PAGE, REMOTE);
	if (!strcmp(argv[argc - 1], "ignore"))
		URXE_CHECK_IGNORE((char *)from->addr + 100, 1);
	if (!strcmp(argv[argc - 1], "expect"))
		URXE_CHECK_EXPECT("send-changed");
	for (int i = 0; i < 8; i++) {
		NEED(!kit_rdma(k.left, IBV_WR_RDMA_WRITE, from, from->addr, 200, to->addr,
			       to->rkey, IBV_SEND_SIGNALED));
		((char *)from->addr)[100]++;
		kit_good(k.left_cq);
	}
	if (!strcmp(argv[argc - 1], "crash"))
		raise(SIGSEGV);
	kit_destroy_qps(&k);
	kit_dereg(from);
	kit_dereg(to);
	kit_close_rest(&k);
	return 0;
}
