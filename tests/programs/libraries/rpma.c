/*
 * rpma.c - librpma: a server, whose memory its client (a second argument) reads, writes and flushes.
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SIZE (1 << 20)
#define USAGE                                                                            \
	(RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |     \
	 RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)
#define MUST(x) must(x, #x)
static struct rpma_conn_req *req;
static struct rpma_conn *conn;
static struct rpma_mr_local *mr;
static char *mem;

static void must(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(ret));
	exit(1);
}

static void event(enum rpma_conn_event expected)
{
	enum rpma_conn_event e;

	MUST(rpma_conn_next_event(conn, &e));
	MUST(e == expected ? 0 : RPMA_E_UNKNOWN);
}

static int server(struct rpma_peer *peer, const char *addr)
{
	struct rpma_conn_private_data p;
	struct rpma_ep *ep;
	char desc[64];
	size_t n;

	MUST(rpma_mr_get_descriptor_size(mr, &n));
	MUST(rpma_mr_get_descriptor(mr, desc));
	p.ptr = desc;
	p.len = n;
	MUST(rpma_ep_listen(peer, addr, "7777", &ep));
	MUST(rpma_ep_next_conn_req(ep, NULL, &req));
	MUST(rpma_conn_req_connect(&req, &p, &conn));
	event(RPMA_CONN_ESTABLISHED);
	event(RPMA_CONN_CLOSED);
	MUST(rpma_conn_disconnect(conn));
	MUST(rpma_conn_delete(&conn));
	MUST(rpma_ep_shutdown(&ep));
	return mem[5000] != 67;
}

static void completed(void)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;

	MUST(rpma_conn_get_cq(conn, &cq));
	MUST(rpma_cq_wait(cq));
	MUST(rpma_cq_get_wc(cq, 1, &wc, NULL));
	MUST(wc.status ? RPMA_E_PROVIDER : 0);
}

static int client(struct rpma_peer *peer, const char *addr)
{
	struct rpma_conn_private_data p;
	struct rpma_mr_remote *remote;

	MUST(rpma_conn_req_new(peer, addr, "7777", NULL, &req));
	MUST(rpma_conn_req_connect(&req, NULL, &conn));
	event(RPMA_CONN_ESTABLISHED);
	MUST(rpma_conn_get_private_data(conn, &p));
	MUST(rpma_mr_remote_from_descriptor(p.ptr, p.len, &remote));
	MUST(rpma_read(conn, mr, 0, remote, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, NULL));
	completed();
	if (mem[SIZE - 1] != 83)
		return 1;
	memset(mem, 67, 8192);
	MUST(rpma_write(conn, remote, 0, mr, 0, 8192, RPMA_F_COMPLETION_ON_ERROR, NULL));
	MUST(rpma_flush(conn, remote, 0, 8192, RPMA_FLUSH_TYPE_VISIBILITY,
			RPMA_F_COMPLETION_ALWAYS, NULL));
	completed();
	MUST(rpma_conn_disconnect(conn));
	event(RPMA_CONN_CLOSED);
	MUST(rpma_conn_delete(&conn));
	return 0;
}

int main(int argc, char **argv)
{
	int is_client = argc > 2;
	struct ibv_context *ctx;
	struct rpma_peer *peer;

	mem = aligned_alloc(4096, SIZE);
	memset(mem, is_client ? 0 : 83, SIZE);
	MUST(rpma_utils_get_ibv_context(argv[1],
					is_client ? RPMA_UTIL_IBV_CONTEXT_REMOTE
						  : RPMA_UTIL_IBV_CONTEXT_LOCAL,
					&ctx));
	MUST(rpma_peer_new(ctx, &peer));
	MUST(rpma_mr_reg(peer, mem, SIZE, USAGE, &mr));
	return is_client ? client(peer, argv[1]) : server(peer, argv[1]);
}
