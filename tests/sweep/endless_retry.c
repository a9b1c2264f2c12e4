/* endless_retry.c - posts a request again when it failed, on a QP that is in ERR for good. */
#include "side.h"

#define TRIES 3

static bool send_once(struct side *s)
{
	struct ibv_wc wc;
	int got = 0;

	if (side_post(s, 64))
		return false;
	while (got < 1) {
		if (!side_wait(s, &wc))
			return false;
		if (wc.status != IBV_WC_SUCCESS)
			return false;
		got += wc.opcode == IBV_WC_SEND;
	}
	return true;
}

int main(void)
{
	bool good = false;
	struct side s;

	if (!side_open(&s))
		return 1;
	if (side_connect(&s) && !side_receive(&s))
		for (int i = 0; !good && (FAULTY || i < TRIES); i++)
			good = send_once(&s);
	side_close(&s);
	return !good;
}
