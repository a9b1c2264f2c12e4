/* leak_create_qp.c - the error path of ibv_create_qp(3) forgets what was made before. */
#include "side.h"

#include <stdio.h>

static bool connect_qps(struct side *s)
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
	if (!connect_qps(&s)) {
		perror("ibv_create_qp");
		if (FAULTY)
			ibv_close_device(s.ctx);
		else
			side_close(&s);
		return 1;
	}
	side_close(&s);
	return 0;
}
