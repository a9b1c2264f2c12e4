/*
 * backend_uring.c - datagrams by io_uring: multishot recvmsg into provided buffers, and
 * UDP_SEGMENT sends submitted together.
 *
 * Theory of operation
 *
 * One ring receives. Each socket has one multishot request in it, which takes a buffer
 * from a common pool for each datagram; to look for packets is to look into shared
 * memory, without a system call. A request ends by itself when the pool is empty, when
 * the thread that made it exits (the kernel cancels what a thread has asked for), or on
 * errors; the next poll makes it again. A socket that is removed has its request
 * cancelled; what is kept for it is freed with the request's last completion, and until
 * then the kernel may hold the descriptor's port.
 *
 * The socket with the port that other processes wait for (NET_SOCK_ROCE) is not in the
 * ring: the kernel gives up what is in the ring of a process that was killed when it finds
 * the time, which may be half a minute, and until then nobody else gets the port. It is
 * left to the socket backend, and looked at now and then.
 *
 * Another ring sends, so that completions of sends are never mixed with packets. Batches
 * are linked, which keeps their order when the kernel refuses one.
 *
 * Known costs: completions are posted in the context of the thread that made the request,
 * which the kernel interrupts for it; a blocking call of that thread may return EINTR.
 */
#include "net/backend.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define RX_BUFS	   32 /* power of two */
#define NAME_LEN   32 /* a socket address; keeps the control messages behind it aligned */
#define RX_HEAD	   (sizeof(struct io_uring_recvmsg_out) + NAME_LEN + NET_CTL_LEN)
#define RX_BUF	   (65536 + 4096) /* datagram and head, in whole pages */
#define RX_GROUP   1
#define RX_ENTRIES 64
#define RX_CQ	   512
#define CANCEL_MS  100
#define PLAIN_TURN 8 /* polls for one look at the sockets that are not in the ring */

/*
 * struct ub_sock - a socket's request
 * @sk:		NULL: removed, waiting for the request to end
 * @armed:	the kernel has the request
 */
struct ub_sock {
	struct ub_sock *next;
	struct net_sock *sk;
	struct msghdr msg;
	bool armed;
};

/*
 * struct net_backend
 * @pool:	ring of free buffers, shared with the kernel, and its @bufs
 * @socks:	all, removed ones included
 * @rearm:	some request is to be made again
 * @plain:	the socket backend, for the @n_plain sockets that are not in the ring
 * @turn:	polls since it was asked
 * @ep:		epoll of the ring and @plain
 */
struct net_backend {
	struct io_uring rx, tx;
	bool rx_ok, tx_ok;
	struct io_uring_buf_ring *pool;
	size_t pool_len;
	uint8_t *bufs;
	struct ub_sock *socks;
	bool rearm;
	struct net_backend *plain;
	unsigned int n_plain, turn;
	int ep;
	struct msghdr tx_msg[NET_BATCHES_MAX];
	struct iovec tx_iov[NET_BATCHES_MAX];
	_Alignas(struct cmsghdr) uint8_t tx_ctl[NET_BATCHES_MAX][NET_CTL_LEN];
	int tx_res[NET_BATCHES_MAX];
};

static uint8_t *buf_at(struct net_backend *be, unsigned int i)
{
	return be->bufs + (size_t)i * RX_BUF;
}

static void give_buf(struct net_backend *be, unsigned int i)
{
	io_uring_buf_ring_add(be->pool, buf_at(be, i), RX_BUF, (unsigned short)i,
			      io_uring_buf_ring_mask(RX_BUFS), 0);
	io_uring_buf_ring_advance(be->pool, 1);
}

static void ub_close(struct net_backend *be)
{
	struct ub_sock *s;

	if (be->plain)
		net_backend_socket.close(be->plain);
	if (be->ep >= 0)
		close(be->ep);
	if (be->rx_ok)
		io_uring_queue_exit(&be->rx);
	if (be->tx_ok)
		io_uring_queue_exit(&be->tx);
	if (be->pool)
		munmap(be->pool, be->pool_len);
	if (be->bufs)
		munmap(be->bufs, (size_t)RX_BUFS * RX_BUF);
	while ((s = be->socks)) {
		be->socks = s->next;
		free(s);
	}
	free(be);
}

static void *map(size_t len)
{
	void *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* the kernel's view must stay this process's view */
	madvise(p, len, MADV_DONTFORK);
	return p;
}

static int open_pool(struct net_backend *be)
{
	struct io_uring_buf_reg reg = {.ring_entries = RX_BUFS, .bgid = RX_GROUP};
	unsigned int i;
	int ret;

	be->pool_len = RX_BUFS * sizeof(struct io_uring_buf);
	be->pool = map(be->pool_len);
	be->bufs = map((size_t)RX_BUFS * RX_BUF);
	if (!be->pool || !be->bufs)
		return -ENOMEM;
	reg.ring_addr = (uintptr_t)be->pool;
	ret = io_uring_register_buf_ring(&be->rx, &reg, 0);
	if (ret)
		return ret;
	io_uring_buf_ring_init(be->pool);
	for (i = 0; i < RX_BUFS; i++)
		give_buf(be, i);
	return 0;
}

static int open_rings(struct net_backend *be)
{
	struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE, .cq_entries = RX_CQ};
	struct io_uring_params none = {0};
	int ret = io_uring_queue_init_params(RX_ENTRIES, &be->rx, &p);

	if (ret)
		return ret;
	be->rx_ok = true;
	ret = io_uring_queue_init_params(NET_BATCHES_MAX, &be->tx, &none);
	if (ret)
		return ret;
	be->tx_ok = true;
	return open_pool(be);
}

static int watch(struct net_backend *be, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(be->ep, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int open_plain(struct net_backend *be)
{
	int ret = net_backend_socket.open(&be->plain);

	if (ret)
		return ret;
	be->ep = epoll_create1(EPOLL_CLOEXEC);
	if (be->ep < 0)
		return -errno;
	ret = watch(be, be->rx.ring_fd);
	return ret ? ret : watch(be, net_backend_socket.wait_fd(be->plain));
}

/* --- receive ---------------------------------------------------------------------- */

static int arm(struct net_backend *be, struct ub_sock *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&be->rx);
	int ret;

	if (!sqe)
		return -EAGAIN;
	io_uring_prep_recvmsg_multishot(sqe, s->sk->fd, &s->msg, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = RX_GROUP;
	io_uring_sqe_set_data(sqe, s);
	ret = io_uring_submit(&be->rx);
	s->armed = ret == 1;
	return ret < 0 ? ret : 0;
}

static int ub_add(struct net_backend *be, struct net_sock *sk)
{
	struct ub_sock *s;
	int ret;

	if (sk->kind == NET_SOCK_ROCE) {
		ret = net_backend_socket.add(be->plain, sk);
		be->n_plain += !ret;
		return ret;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->sk = sk;
	s->msg.msg_namelen = NAME_LEN;
	s->msg.msg_controllen = NET_CTL_LEN;
	ret = arm(be, s);
	if (ret) {
		free(s);
		return ret;
	}
	s->next = be->socks;
	be->socks = s;
	sk->priv = s;
	return 0;
}

static void free_sock(struct net_backend *be, struct ub_sock *s)
{
	struct ub_sock **link;

	for (link = &be->socks; *link != s; link = &(*link)->next)
		;
	*link = s->next;
	free(s);
}

/* Has the last completion of @s come? Looks without taking any. */
static bool ended(struct net_backend *be, const struct ub_sock *s)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	io_uring_for_each_cqe(&be->rx, head, cqe)
	{
		if (io_uring_cqe_get_data(cqe) == s && !(cqe->flags & IORING_CQE_F_MORE))
			return true;
	}
	return false;
}

static void cancel(struct net_backend *be, struct ub_sock *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&be->rx);
	int ms;

	if (!sqe)
		return;
	io_uring_prep_cancel(sqe, s, 0);
	io_uring_sqe_set_data(sqe, NULL);
	io_uring_submit(&be->rx);
	/* so that the port is free when the caller goes on */
	for (ms = 0; ms < CANCEL_MS && !ended(be, s); ms++)
		usleep(1000);
}

static void ub_del(struct net_backend *be, struct net_sock *sk, bool forked)
{
	struct ub_sock *s = sk->priv;

	if (sk->kind == NET_SOCK_ROCE) {
		net_backend_socket.del(be->plain, sk, forked);
		be->n_plain--;
		return;
	}
	sk->priv = NULL;
	s->sk = NULL;
	if (forked)
		return;
	if (s->armed)
		cancel(be, s);
	else
		free_sock(be, s);
}

static void deliver(struct ub_sock *s, uint8_t *buf, int len, net_backend_rx fn,
		    void *arg)
{
	struct io_uring_recvmsg_out *o = io_uring_recvmsg_validate(buf, len, &s->msg);
	struct msghdr msg = {0};
	struct net_dgram d;

	if (!o || (o->flags & MSG_TRUNC))
		return;
	msg.msg_control = (uint8_t *)io_uring_recvmsg_name(o) + NAME_LEN;
	msg.msg_controllen = o->controllen;
	d.data = io_uring_recvmsg_payload(o, &s->msg);
	d.len = io_uring_recvmsg_payload_length(o, len, &s->msg);
	net_ctl_read(&msg, &d);
	net_from_sa(&d, io_uring_recvmsg_name(o));
	fn(arg, s->sk, &d);
}

static int completed(struct net_backend *be, const struct io_uring_cqe *cqe,
		     net_backend_rx fn, void *arg)
{
	struct ub_sock *s = io_uring_cqe_get_data(cqe);
	unsigned int buf = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	bool has_buf = cqe->flags & IORING_CQE_F_BUFFER,
	     more = cqe->flags & IORING_CQE_F_MORE;
	int len = cqe->res;

	io_uring_cqe_seen(&be->rx, (struct io_uring_cqe *)cqe);
	if (has_buf) {
		if (s && s->sk && len >= 0)
			deliver(s, buf_at(be, buf), len, fn, arg);
		give_buf(be, buf);
	}
	if (s && !more) {
		s->armed = false;
		if (s->sk)
			be->rearm = true;
		else
			free_sock(be, s);
	}
	return has_buf ? len / 2048 + 1 : 0;
}

static void rearm(struct net_backend *be)
{
	struct ub_sock *s;

	be->rearm = false;
	for (s = be->socks; s; s = s->next)
		if (s->sk && !s->armed && arm(be, s))
			be->rearm = true;
}

static int ub_poll(struct net_backend *be, int budget, net_backend_rx fn, void *arg)
{
	struct io_uring_cqe *cqe;
	int n = 0;

	while (n < budget && io_uring_peek_cqe(&be->rx, &cqe) == 0)
		n += completed(be, cqe, fn, arg);
	if (be->rearm)
		rearm(be);
	if (be->n_plain && be->turn++ % PLAIN_TURN == 0)
		n += net_backend_socket.poll(be->plain, budget, fn, arg);
	return n;
}

static int ub_wait_fd(struct net_backend *be)
{
	return be->ep;
}

/* --- transmit --------------------------------------------------------------------- */

static bool tx_prepare(struct net_backend *be, unsigned int i, struct net_batch *b,
		       bool last)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&be->tx);
	size_t ctl = net_ctl_write(b, be->tx_ctl[i]);

	if (!sqe)
		return false;
	b->err = 0;
	be->tx_iov[i] = (struct iovec){b->data, b->len};
	be->tx_msg[i] = (struct msghdr){
	    .msg_name = &b->dst,
	    .msg_namelen = net_sa_len(&b->dst),
	    .msg_iov = &be->tx_iov[i],
	    .msg_iovlen = 1,
	    .msg_control = ctl ? be->tx_ctl[i] : NULL,
	    .msg_controllen = ctl,
	};
	io_uring_prep_sendmsg(sqe, b->sk->fd, &be->tx_msg[i], MSG_DONTWAIT);
	if (!last)
		sqe->flags |= IOSQE_IO_LINK;
	io_uring_sqe_set_data64(sqe, i);
	return true;
}

/* Submit @n prepared sends and wait for their results */
static void tx_run(struct net_backend *be, unsigned int n)
{
	struct io_uring_cqe *cqe;
	unsigned int i;

	for (i = 0; i < n; i++)
		be->tx_res[i] = -ECANCELED;
	do
		i = (unsigned int)io_uring_submit_and_wait(&be->tx, n);
	while ((int)i == -EINTR);
	for (i = 0; i < n && io_uring_wait_cqe(&be->tx, &cqe) == 0; i++) {
		be->tx_res[io_uring_cqe_get_data64(cqe) % NET_BATCHES_MAX] = cqe->res;
		io_uring_cqe_seen(&be->tx, cqe);
	}
}

/* The first that failed ends the chain: -EAGAIN for good, others are skipped */
static unsigned int tx_results(struct net_backend *be, struct net_batch *b,
			       unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n && be->tx_res[i] >= 0; i++)
		;
	if (i == n || be->tx_res[i] == -EAGAIN || be->tx_res[i] == -ECANCELED)
		return i;
	b[i].err = be->tx_res[i];
	return i + 1;
}

static unsigned int ub_send(struct net_backend *be, struct net_batch *b, unsigned int n)
{
	unsigned int done = 0, run, sent;

	while (done < n) {
		for (run = 0; run < NET_BATCHES_MAX && done + run < n; run++)
			if (!tx_prepare(be, run, &b[done + run],
					run + 1 == NET_BATCHES_MAX ||
					    done + run + 1 == n))
				break;
		tx_run(be, run);
		sent = tx_results(be, b + done, run);
		done += sent;
		if (!sent)
			break;
	}
	return done;
}

/* --- is it there? ----------------------------------------------------------------- */

static void nothing(void *arg, struct net_sock *sk, const struct net_dgram *d)
{
}

/* Multishot recvmsg came later (Linux 6.0) than what was needed so far */
static int self_test(struct net_backend *be)
{
	struct net_sock sk = {.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
	int ret;

	if (sk.fd < 0)
		return -errno;
	ret = ub_add(be, &sk);
	if (!ret) {
		ret = ended(be, sk.priv) ? -EOPNOTSUPP : 0;
		ub_del(be, &sk, false);
		ub_poll(be, 1, nothing, NULL);
	}
	close(sk.fd);
	return ret;
}

static int ub_open(struct net_backend **out)
{
	struct net_backend *be = calloc(1, sizeof(*be));
	int ret;

	if (!be)
		return -ENOMEM;
	be->ep = -1;
	ret = open_rings(be);
	if (!ret)
		ret = open_plain(be);
	if (!ret)
		ret = self_test(be);
	if (ret) {
		ub_close(be);
		return ret;
	}
	*out = be;
	return 0;
}

const struct net_backend_ops net_backend_uring = {
    .name = "uring",
    .open = ub_open,
    .close = ub_close,
    .add = ub_add,
    .del = ub_del,
    .poll = ub_poll,
    .send = ub_send,
    .wait_fd = ub_wait_fd,
};
