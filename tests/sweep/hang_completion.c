/* hang_completion.c - counts completions that succeed, and waits for as many as it has posted. */
#include "side.h"

#define MESSAGES 3

/* How many came, or -1 */
static int wait_for_all(struct side *s, int want)
{
	struct ibv_wc wc;
	int good = 0;

	while (good < want) {
		if (ibv_poll_cq(s->cq, 1, &wc) < 1)
			continue;
		if (wc.status == IBV_WC_SUCCESS)
			good++;
		else if (!FAULTY)
			return -1;
	}
	return good;
}

int main(void)
{
	bool good = false;
	struct side s;

	if (!side_open(&s))
		return 1;
	if (side_connect(&s)) {
		good = true;
		for (int i = 0; i < MESSAGES && good; i++)
			good = !side_receive(&s);
		for (int i = 0; i < MESSAGES && good; i++)
			good = !side_post(&s, 64);
		good = good && wait_for_all(&s, 2 * MESSAGES) > 0;
	}
	side_close(&s);
	return !good;
}
