/*
 * misuse_order.c - the error path destroys the CQ of a QP that is still there, and tries again later: all is given
 * back in the end, and the first try is wrong use.
 */
#include "side.h"

static bool make_qps(struct side *s)
{
	s->left = side_qp(s);
	s->right = s->left ? side_qp(s) : NULL;
	return s->right;
}

int main(void)
{
	struct side s;

	if (!side_open(&s))
		return 1;
	if (!make_qps(&s)) {
		if (FAULTY && s.left)
			ibv_destroy_cq(s.cq);
		side_close(&s);
		return 1;
	}
	side_close(&s);
	return 0;
}
