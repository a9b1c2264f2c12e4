/*
 * view.c - `urxe view`: the page of `urxe report` while programs run, for a browser of this
 * user on this machine.
 *
 * It listens at 127.0.0.1 only. Other users reach that too, and so do web pages in the browser: so
 * the address has a token that they cannot guess, and requests that name another host are refused
 * (a name of somebody else may lead to 127.0.0.1). There is nothing to change: only GET is served.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tools/control.h"
#include "tools/inputs.h"
#include "tools/live.h"
#include "tools/page_data.h"
#include "tools/tools.h"

#define LOOK_MS                                                                          \
	200 /* how often new records are taken; a ring of them must not turn between */
#define TOKEN_BYTES 16

/*
 * struct view
 * @token:	hexadecimal
 * @watch:	bytes that programs record into while they are watched, 0: they do not for us
 * @failed:	exit code of what went wrong while it served
 */
struct view {
	struct event_base *base;
	struct evhttp *http;
	struct live *live;
	long pid[INPUTS_MAX];
	uint64_t watch;
	int n_pid;
	uint16_t port;
	char token[2 * TOKEN_BYTES + 1];
	int failed;
};

static void print_help(FILE *out)
{
	fputs(
	    "usage: urxe view [--port PORT] [PID...]\n"
	    "\n"
	    "Serves the page of urxe report while your programs, or those with the ids "
	    "PID, run.\n"
	    "It prints an address for a browser of this machine; who does not know it "
	    "gets\n"
	    "nothing. While they are watched the programs record everything, as after "
	    "urxe\n"
	    "trace start; they end that by themselves two seconds after this has ended, "
	    "by\n"
	    "Ctrl-C or in any other way.\n"
	    "\n"
	    "  --port PORT  listen there; 0 or not given: any that is free\n"
	    "  --size SIZE  room for what a program records between two looks: bytes, "
	    "with\n"
	    "               k, m or g (16m)\n"
	    "  --as-is      let the programs record what they do by themselves: without "
	    "urxe\n"
	    "               run --trace or urxe trace start only what is rare\n"
	    "  --help\n",
	    out);
}

/* --- requests --------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b, size_t n)
{
	unsigned char differs = 0;

	/* always all of it, so that time does not tell how much was right */
	for (size_t i = 0; i < n; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return !differs;
}

/* The part of the path behind the token; NULL: this is nobody of ours */
static const char *path_of(const struct view *v, struct evhttp_request *req)
{
	const char *host =
	    evhttp_find_header(evhttp_request_get_input_headers(req), "Host");
	const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
	size_t n = strlen(v->token);
	char want[2][32];

	snprintf(want[0], sizeof(want[0]), "127.0.0.1:%u", v->port);
	snprintf(want[1], sizeof(want[1]), "localhost:%u", v->port);
	if (!host || (strcmp(host, want[0]) && strcmp(host, want[1])) || !path ||
	    strlen(path) < n + 2 || path[0] != '/' || path[n + 1] != '/' ||
	    !same_text(path + 1, v->token, n))
		return NULL;
	return path + n + 2;
}

static void answer(struct evhttp_request *req, const char *type, struct evbuffer *body)
{
	struct evkeyvalq *h = evhttp_request_get_output_headers(req);

	evhttp_add_header(h, "Content-Type", type);
	evhttp_add_header(h, "Cache-Control", "no-store");
	evhttp_add_header(h, "Referrer-Policy", "no-referrer");
	evhttp_add_header(h, "X-Content-Type-Options", "nosniff");
	evhttp_add_header(h, "X-Frame-Options", "DENY");
	evhttp_add_header(h, "Cross-Origin-Resource-Policy", "same-origin");
	evhttp_send_reply(req, HTTP_OK, "OK", body);
}

static void forget_text(const void *data, size_t len, void *arg)
{
	free((void *)data);
}

/* What there is beyond block @from, as the body of an answer; NULL: no memory */
static struct evbuffer *body_of(struct view *v, unsigned long from)
{
	struct evbuffer *body = evbuffer_new();
	char *text = NULL;
	size_t len = 0;
	FILE *mem = open_memstream(&text, &len);

	if (mem)
		live_json(v->live, from, mem);
	if (!mem || fclose(mem) || !body ||
	    evbuffer_add_reference(body, text, len, forget_text, NULL)) {
		free(text);
		if (body)
			evbuffer_free(body);
		return NULL;
	}
	return body;
}

static void serve_page(struct evhttp_request *req)
{
	struct evbuffer *body = evbuffer_new();

	if (!body) {
		evhttp_send_error(req, HTTP_SERVUNAVAIL, NULL);
		return;
	}
	evbuffer_add(body, page_head, strlen(page_head));
	evbuffer_add(body, page_tail, strlen(page_tail));
	answer(req, "text/html; charset=utf-8", body);
	evbuffer_free(body);
}

static void serve_data(struct view *v, struct evhttp_request *req)
{
	const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(req));
	unsigned long from =
	    query && !strncmp(query, "from=", 5) ? strtoul(query + 5, NULL, 10) : 0;
	struct evbuffer *body = body_of(v, from);

	if (!body) {
		evhttp_send_error(req, HTTP_SERVUNAVAIL, NULL);
		return;
	}
	answer(req, "application/json", body);
	evbuffer_free(body);
}

static void serve(struct evhttp_request *req, void *arg)
{
	struct view *v = arg;
	const char *path = path_of(v, req);

	if (!path)
		evhttp_send_error(req, HTTP_NOTFOUND, NULL);
	else if (!*path)
		serve_page(req);
	else if (!strcmp(path, "data"))
		serve_data(v, req);
	else
		evhttp_send_error(req, HTTP_NOTFOUND, NULL);
}

/* --- events ----------------------------------------------------------------------- */

static void look(evutil_socket_t fd, short what, void *arg)
{
	struct view *v = arg;

	if (live_look(v->live) == 0)
		return;
	usage_error("there is not enough memory for what the programs record");
	v->failed = EXIT_SETUP;
	event_base_loopbreak(v->base);
}

static void stop(evutil_socket_t sig, short what, void *arg)
{
	event_base_loopbreak(arg);
}

/* --- the command ------------------------------------------------------------------ */

static int make_token(struct view *v)
{
	uint8_t b[TOKEN_BYTES];

	if (getrandom(b, sizeof(b), 0) != sizeof(b)) {
		usage_error("no random numbers: %s", strerror(errno));
		return EXIT_SETUP;
	}
	for (size_t i = 0; i < sizeof(b); i++)
		snprintf(v->token + 2 * i, 3, "%02x", b[i]);
	return 0;
}

static int parse_port(const char *s, uint16_t *port)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	if (end == s || *end || n > 65535 || s[0] == '-')
		return usage_error("--port: '%s' is not a port", s);
	*port = (uint16_t)n;
	return 0;
}

/* 0, an exit code, or -1: help was printed */
static int parse(int argc, char **argv, struct view *v)
{
	static const struct option lo[] = {
	    {.name = "port", .has_arg = required_argument, .val = 'p'},
	    {.name = "size", .has_arg = required_argument, .val = 's'},
	    {.name = "as-is", .val = 'a'},
	    {.name = "help", .val = 'h'},
	    {0},
	};
	bool as_is = false;
	char *end;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", lo, NULL)) != -1) {
		if (c == 'h') {
			print_help(stdout);
			return -1;
		}
		if (c == 'a')
			as_is = true;
		else if (c != 'p' && c != 's')
			return option_error(c, argv, "view");
		else if (c == 'p' ? parse_port(optarg, &v->port)
				  : control_size(optarg, &v->watch))
			return EXIT_USAGE;
	}
	if (as_is)
		v->watch = 0;
	for (; optind < argc; optind++) {
		if (v->n_pid == INPUTS_MAX)
			return usage_error("more than %d process ids", INPUTS_MAX);
		v->pid[v->n_pid] = strtol(argv[optind], &end, 10);
		if (*end || v->pid[v->n_pid++] <= 0)
			return usage_error("'%s' is not a process id", argv[optind]);
	}
	return 0;
}

static int listen_at(struct view *v)
{
	struct evhttp_bound_socket *s;
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	v->http = evhttp_new(v->base);
	if (!v->http) {
		usage_error("out of memory");
		return EXIT_SETUP;
	}
	evhttp_set_allowed_methods(v->http, EVHTTP_REQ_GET);
	evhttp_set_gencb(v->http, serve, v);
	errno = 0;
	s = evhttp_bind_socket_with_handle(v->http, "127.0.0.1", v->port);
	if (!s ||
	    getsockname(evhttp_bound_socket_get_fd(s), (struct sockaddr *)&at, &len)) {
		usage_error("port %u: %s%s", v->port, strerror(errno),
			    errno == EADDRINUSE ? "; without --port a free one is taken"
						: "");
		return EXIT_SETUP;
	}
	v->port = ntohs(at.sin_port);
	return 0;
}

static int serve_all(struct view *v)
{
	const struct timeval period = {.tv_usec = LOOK_MS * 1000};
	struct event *tick = event_new(v->base, -1, EV_PERSIST, look, v);
	struct event *ctrl_c = evsignal_new(v->base, SIGINT, stop, v->base);
	struct event *term = evsignal_new(v->base, SIGTERM, stop, v->base);

	if (!tick || !ctrl_c || !term || event_add(tick, &period) ||
	    event_add(ctrl_c, NULL) || event_add(term, NULL)) {
		usage_error("cannot wait: %s", strerror(errno));
		return EXIT_SETUP;
	}
	printf("http://127.0.0.1:%u/%s/\n", v->port, v->token);
	if (stdout_done(0))
		return EXIT_SETUP;
	event_base_dispatch(v->base);
	event_free(tick);
	event_free(ctrl_c);
	event_free(term);
	return v->failed;
}

static int view(struct view *v)
{
	int ret = make_token(v);

	v->live = live_new(v->pid, v->n_pid, v->watch);
	v->base = event_base_new();
	if (!v->live || !v->base || (!ret && v->n_pid && live_look(v->live))) {
		usage_error("out of memory");
		return EXIT_SETUP;
	}
	if (!ret && v->n_pid && !live_programs(v->live)) {
		fprintf(stderr, "urxe: process %ld has no emulated device open\n",
			v->pid[0]);
		return 1;
	}
	return ret ? ret : listen_at(v) ? EXIT_SETUP : serve_all(v);
}

static int view_command(int argc, char **argv)
{
	struct view *v = calloc(1, sizeof(*v));
	int ret;

	if (!v) {
		usage_error("out of memory");
		return EXIT_SETUP;
	}
	v->watch = CONTROL_SIZE;
	signal(SIGPIPE, SIG_IGN); /* a browser that goes away */
	ret = parse(argc, argv, v);
	if (!ret)
		ret = view(v);
	if (v->http)
		evhttp_free(v->http);
	if (v->base)
		event_base_free(v->base);
	live_free(v->live);
	free(v);
	return ret < 0 ? 0 : ret;
}

const struct command command_view = {
    .name = "view",
    .summary = "show in a browser what running programs do",
    .run = view_command,
    .help = print_help,
};
