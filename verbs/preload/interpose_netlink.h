/*
 * interpose_netlink.h - NETLINK_RDMA of the program, for what else happens to its sockets.
 */
#ifndef URXE_VERBS_PRELOAD_INTERPOSE_NETLINK_H
#define URXE_VERBS_PRELOAD_INTERPOSE_NETLINK_H

#include <sys/socket.h>

/* socket(2) for NETLINK_RDMA: a descriptor, or -1 with errno */
int netlink_socket(int type);
/* Before a receive: answers that wait for room follow. After it: the sender is the kernel */
void netlink_receiving(int fd);
void netlink_received(int fd, struct msghdr *msg);

#endif
