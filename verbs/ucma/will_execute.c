/*
 * will_execute.c - sending what the dead have left; see will.h.
 *
 * The messages are datagrams to QP1 (RoCEv2, UD SEND_ONLY), sent through a plain socket:
 * the one who sends them has no device. Nobody waits for an answer, so each is sent
 * twice.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/icrc.h"
#include "net/rocev2.h"
#include "verbs/ucma/will.h"
#include "verbs/ucma/will_file.h"

#define ROUNDS	  2
#define ROUND_NS  20000000 /* between them */
#define ENTRY_MAX (1u << 20)

static socklen_t to_sockaddr(const struct net_ip *ip, uint16_t port,
			     struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	if (net_ip_is_v4(ip)) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, ip->b + 12, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, ip->b, 16);
	return sizeof(*in6);
}

/* A socket on the dead process's address; its port enters the ICRC. */
static int open_socket(struct net_path *path)
{
	const int dont = IP_PMTUDISC_DO; /* identification 0, which the ICRC covers */
	bool v4 = net_ip_is_v4(&path->src);
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage ss;
	socklen_t len = to_sockaddr(&path->src, 0, &ss);

	if (fd < 0)
		return -1;
	if ((v4 && setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont, sizeof(dont))) ||
	    bind(fd, (struct sockaddr *)&ss, len) ||
	    getsockname(fd, (struct sockaddr *)&ss, &len)) {
		close(fd);
		return -1;
	}
	path->sport = ntohs(v4 ? ((struct sockaddr_in *)&ss)->sin_port
			       : ((struct sockaddr_in6 *)&ss)->sin6_port);
	return fd;
}

static void send_entry(const struct will_entry *e)
{
	const struct roce_hdr h = {.opcode = ROCE_UD | ROCE_SEND_ONLY,
				   .pkey = ROCE_PKEY_DEFAULT,
				   .dqpn = ROCE_QPN_GSI,
				   .qkey = ROCE_QKEY_GSI,
				   .sqpn = ROCE_QPN_GSI};
	uint8_t pkt[ROCE_MAD_AT + CM_MAD_LEN + ROCE_ICRC_LEN];
	struct net_path path = e->path;
	struct sockaddr_storage to;
	socklen_t to_len = to_sockaddr(&path.dst, ROCE_UDP_PORT, &to);
	uint32_t len = roce_build(pkt, &h);
	int fd = open_socket(&path);

	if (fd < 0)
		return;
	memcpy(pkt + len, e->mad, CM_MAD_LEN);
	len += CM_MAD_LEN;
	icrc_store(pkt + len, icrc_compute(&path, 0, pkt, len));
	sendto(fd, pkt, len + ROCE_ICRC_LEN, 0, (struct sockaddr *)&to, to_len);
	close(fd);
}

static unsigned int send_all(int fd)
{
	struct will_entry e;
	unsigned int i, sent = 0;

	for (i = 0; i < ENTRY_MAX; i++) {
		if (pread(fd, &e, sizeof(e), (off_t)i * (off_t)sizeof(e)) != sizeof(e))
			break;
		if (e.valid != WILL_VALID)
			continue;
		send_entry(&e);
		sent++;
	}
	return sent;
}

/*
 * Looked at without being opened for writing: who waits for the files of wills to be closed
 * by their owners must not be told of us.
 */
static bool is_owned(int dirfd, const char *name)
{
	struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool owned = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return owned;
}

/* Execute one file if its owner is dead. True if he is. */
static bool execute(int dirfd, const char *name)
{
	const struct timespec pause = {.tv_nsec = ROUND_NS};
	struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
	int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	int round;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || fcntl(fd, F_OFD_SETLK, &lock)) {
		close(fd);
		return false;
	}
	for (round = 0; round < ROUNDS && send_all(fd); round++)
		nanosleep(&pause, NULL);
	unlinkat(dirfd, name, 0);
	close(fd);
	return true;
}

unsigned int will_execute(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned int n = 0;
	struct dirent *de;

	if (!d)
		return 0;
	while ((de = readdir(d))) {
		if (!strncmp(de->d_name, WILL_PREFIX, strlen(WILL_PREFIX)) &&
		    !is_owned(dirfd(d), de->d_name))
			n += execute(dirfd(d), de->d_name);
	}
	closedir(d);
	return n;
}
