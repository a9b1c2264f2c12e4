/*
 * http.c - an HTTP server for one request, over sockets as rsockets need them: made without flags, no accept4(), no
 * epoll.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static char body[300000], line[4096];
int main(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(18123)};
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0), c, n;
	size_t at;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (void *)&a, sizeof(a)) || listen(s, 4) ||
	    (c = accept(s, NULL, NULL)) < 0)
		return 1;
	if (recv(c, line, sizeof(line), 0) <= 0)
		return 2;
	n = snprintf(line, sizeof(line), "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n",
		     sizeof(body));
	memset(body, 120, sizeof(body));
	if (send(c, line, n, 0) != n)
		return 3;
	for (at = 0; at < sizeof(body); at += n)
		if ((n = send(c, body + at, sizeof(body) - at, 0)) <= 0)
			return 4;
	shutdown(c, SHUT_RDWR);
	return close(c) || close(s);
}
