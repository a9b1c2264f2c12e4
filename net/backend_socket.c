/*
 * backend_socket.c - datagrams by sendmsg and recvmsg, with UDP_SEGMENT and UDP_GRO.
 *
 * Theory of operation
 *
 * A process has two sockets for each address, and nearly all of them are silent. Those
 * that spoke lately are "hot" and are read at every poll, directly; all are in an epoll
 * set, which is asked only when the hot ones had nothing (every fourth time), or once in
 * a while. So a process that waits for one peer pays for one system call per look.
 *
 * A hot socket is read with recvmmsg when calls keep bringing as many datagrams as were
 * asked for: a peer that sends many single packets. Batches of a peer that uses
 * UDP_SEGMENT come whole in one datagram buffer anyway, and then one buffer, which stays
 * in the cache, is better than many.
 */
#include "net/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define RX_BUF	    65536 /* no datagram is longer */
#define RX_BATCH    16	  /* datagrams per recvmmsg, at most */
#define HOT_MAX	    4
#define HOT_EMPTY   1024 /* reads without a packet, after which a socket is hot no more */
#define EMPTY_POLLS 4	 /* polls without a packet per look at the epoll set */
#define BUSY_POLLS  16	 /* the same for polls with packets */
#define FULL_READS  4	 /* so many, and a socket is asked for more */
#define SMALL	    (RX_BUF / 4)

/*
 * struct sb_sock - what is kept for a socket
 * @hot:	index in net_backend.hot, -1 if it is not there
 * @empty:	reads without a packet, in a row
 * @full:	reads that brought all that was asked for, in a row
 * @want:	datagrams to ask for: 1 .. RX_BATCH
 */
struct sb_sock {
	int hot;
	unsigned int empty;
	unsigned int full;
	unsigned int want;
};

/*
 * struct net_backend
 * @ep:		epoll set of all sockets
 * @bufs:	RX_BATCH buffers of RX_BUF bytes
 * @skipped, @busy: polls since the epoll set was asked
 */
struct net_backend {
	int ep;
	struct net_sock *hot[HOT_MAX];
	int n_hot;
	unsigned int skipped, busy;
	uint8_t *bufs;
	struct mmsghdr rx[RX_BATCH];
	struct iovec rx_iov[RX_BATCH];
	union net_sa rx_sa[RX_BATCH];
	_Alignas(struct cmsghdr) uint8_t rx_ctl[RX_BATCH][NET_CTL_LEN];
	struct mmsghdr tx[NET_BATCHES_MAX];
	struct iovec tx_iov[NET_BATCHES_MAX];
	_Alignas(struct cmsghdr) uint8_t tx_ctl[NET_BATCHES_MAX][NET_CTL_LEN];
};

static void sb_close(struct net_backend *be)
{
	if (be->bufs)
		munmap(be->bufs, RX_BATCH * RX_BUF);
	if (be->ep >= 0)
		close(be->ep);
	free(be);
}

static void rx_prepare(struct net_backend *be, unsigned int i)
{
	be->rx_iov[i] = (struct iovec){be->bufs + (size_t)i * RX_BUF, RX_BUF};
	be->rx[i].msg_hdr = (struct msghdr){
	    .msg_name = &be->rx_sa[i],
	    .msg_iov = &be->rx_iov[i],
	    .msg_iovlen = 1,
	    .msg_control = be->rx_ctl[i],
	};
}

static int sb_open(struct net_backend **out)
{
	struct net_backend *be = calloc(1, sizeof(*be));
	unsigned int i;
	int ret;

	if (!be)
		return -ENOMEM;
	be->ep = epoll_create1(EPOLL_CLOEXEC);
	be->bufs = mmap(NULL, RX_BATCH * RX_BUF, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (be->bufs == MAP_FAILED)
		be->bufs = NULL;
	if (be->ep < 0 || !be->bufs) {
		ret = -errno;
		sb_close(be);
		return ret;
	}
	for (i = 0; i < RX_BATCH; i++)
		rx_prepare(be, i);
	*out = be;
	return 0;
}

static int sb_add(struct net_backend *be, struct net_sock *sk)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = sk};
	struct sb_sock *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	if (epoll_ctl(be->ep, EPOLL_CTL_ADD, sk->fd, &ev) < 0) {
		ret = -errno;
		free(s);
		return ret;
	}
	s->hot = -1;
	s->want = 1;
	sk->priv = s;
	return 0;
}

static void cool(struct net_backend *be, struct net_sock *sk)
{
	struct sb_sock *s = sk->priv, *moved;

	be->hot[s->hot] = be->hot[--be->n_hot];
	moved = be->hot[s->hot]->priv;
	moved->hot = s->hot;
	s->hot = -1;
	s->want = 1;
}

static void sb_del(struct net_backend *be, struct net_sock *sk, bool forked)
{
	struct sb_sock *s = sk->priv;

	if (s->hot >= 0)
		cool(be, sk);
	if (!forked) /* the set is the parent's, too */
		epoll_ctl(be->ep, EPOLL_CTL_DEL, sk->fd, NULL);
	free(s);
	sk->priv = NULL;
}

static void deliver(struct net_backend *be, struct net_sock *sk, unsigned int i,
		    net_backend_rx fn, void *arg)
{
	struct msghdr *msg = &be->rx[i].msg_hdr;
	struct net_dgram d = {.data = be->rx_iov[i].iov_base, .len = be->rx[i].msg_len};

	net_ctl_read(msg, &d);
	net_from_sa(&d, &be->rx_sa[i]);
	fn(arg, sk, &d);
}

/* Packets, of which a datagram may hold several */
static int packets(const struct net_backend *be, unsigned int i)
{
	return (int)(be->rx[i].msg_len / 2048 + 1);
}

static int receive(struct net_backend *be, struct net_sock *sk, unsigned int want)
{
	unsigned int i;
	ssize_t len;

	for (i = 0; i < want; i++) {
		be->rx[i].msg_hdr.msg_namelen = sizeof(be->rx_sa[i]);
		be->rx[i].msg_hdr.msg_controllen = NET_CTL_LEN;
	}
	if (want > 1)
		return recvmmsg(sk->fd, be->rx, want, MSG_DONTWAIT, NULL);
	len = recvmsg(sk->fd, &be->rx[0].msg_hdr, MSG_DONTWAIT);
	if (len < 0)
		return -1;
	be->rx[0].msg_len = (unsigned int)len;
	return 1;
}

/* How many datagrams to ask for next time, when @n came */
static void adapt(const struct net_backend *be, struct sb_sock *s, unsigned int n)
{
	if (n < s->want || be->rx[n - 1].msg_len >= SMALL) {
		s->full = 0;
		if (n * 2 <= s->want)
			s->want /= 2;
	} else if (++s->full >= FULL_READS && s->want < RX_BATCH) {
		s->full = 0;
		s->want *= 2;
	}
}

static int sock_poll(struct net_backend *be, struct net_sock *sk, net_backend_rx fn,
		     void *arg)
{
	struct sb_sock *s = sk->priv;
	int n = receive(be, sk, s->want), i, count = 0;

	if (n <= 0) { /* also ICMP errors, which are nobody's business here */
		s->empty++;
		s->full = 0;
		s->want = 1;
		return 0;
	}
	s->empty = 0;
	adapt(be, s, (unsigned int)n);
	for (i = 0; i < n; i++) {
		count += packets(be, (unsigned int)i);
		deliver(be, sk, (unsigned int)i, fn, arg);
	}
	return count;
}

static int poll_hot(struct net_backend *be, int budget, net_backend_rx fn, void *arg)
{
	int i, n = 0;

	for (i = 0; i < be->n_hot && n < budget; i++)
		n += sock_poll(be, be->hot[i], fn, arg);
	for (i = be->n_hot - 1; i >= 0; i--)
		if (((struct sb_sock *)be->hot[i]->priv)->empty > HOT_EMPTY)
			cool(be, be->hot[i]);
	return n;
}

static int poll_all(struct net_backend *be, int budget, net_backend_rx fn, void *arg)
{
	struct epoll_event ev[16];
	int i, n = 0, ready = epoll_wait(be->ep, ev, 16, 0);
	struct net_sock *sk;
	struct sb_sock *s;

	for (i = 0; i < ready && n < budget; i++) {
		sk = ev[i].data.ptr;
		s = sk->priv;
		n += sock_poll(be, sk, fn, arg);
		if (s->hot < 0 && be->n_hot < HOT_MAX) {
			s->hot = be->n_hot;
			be->hot[be->n_hot++] = sk;
		}
	}
	return n;
}

static int sb_poll(struct net_backend *be, int budget, net_backend_rx fn, void *arg)
{
	int n = poll_hot(be, budget, fn, arg);

	if (n ? ++be->busy < BUSY_POLLS : be->n_hot && ++be->skipped < EMPTY_POLLS)
		return n;
	be->busy = 0;
	be->skipped = 0;
	return n + poll_all(be, budget, fn, arg);
}

static void tx_prepare(struct net_backend *be, unsigned int i, struct net_batch *b)
{
	size_t ctl = net_ctl_write(b, be->tx_ctl[i]);

	be->tx_iov[i] = (struct iovec){b->data, b->len};
	be->tx[i].msg_hdr = (struct msghdr){
	    .msg_name = &b->dst,
	    .msg_namelen = net_sa_len(&b->dst),
	    .msg_iov = &be->tx_iov[i],
	    .msg_iovlen = 1,
	    .msg_control = ctl ? be->tx_ctl[i] : NULL,
	    .msg_controllen = ctl,
	};
}

/* Batches from one socket. How many were dealt with; 0: the kernel's buffer is full */
static unsigned int send_run(struct net_backend *be, struct net_batch *b, unsigned int n)
{
	int ret;

	do
		ret = n > 1 ? sendmmsg(b->sk->fd, be->tx, n, MSG_DONTWAIT)
			    : (int)sendmsg(b->sk->fd, &be->tx[0].msg_hdr, MSG_DONTWAIT);
	while (ret < 0 && errno == EINTR);
	if (ret >= 0)
		return n > 1 ? (unsigned int)ret : 1;
	if (errno == EAGAIN)
		return 0;
	b->err = -errno;
	return 1;
}

static unsigned int sb_send(struct net_backend *be, struct net_batch *b, unsigned int n)
{
	unsigned int done = 0, run, sent;

	while (done < n) {
		for (run = 0; done + run < n && run < NET_BATCHES_MAX &&
			      b[done + run].sk == b[done].sk;
		     run++) {
			b[done + run].err = 0;
			tx_prepare(be, run, &b[done + run]);
		}
		sent = send_run(be, &b[done], run);
		if (!sent)
			break;
		done += sent;
	}
	return done;
}

static int sb_wait_fd(struct net_backend *be)
{
	return be->ep;
}

const struct net_backend_ops net_backend_socket = {
    .name = "socket",
    .open = sb_open,
    .close = sb_close,
    .add = sb_add,
    .del = sb_del,
    .poll = sb_poll,
    .send = sb_send,
    .wait_fd = sb_wait_fd,
};
