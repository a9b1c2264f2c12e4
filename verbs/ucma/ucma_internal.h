/*
 * ucma_internal.h - the connection manager's objects, for its own files only.
 *
 * ucma.c is the character device, ucma_command.c what is written to it, ucma_event.c what is
 * read from it, ucma_table.c the handles of both. ucma_id.c is the life of
 * an identifier (what the kernel's cma.c does), ucma_peer.c the part of it that talks to
 * peers through emu/cm, ucma_port.c port numbers, ucma_addr.c addresses and routes. All
 * of it runs with the engine's lock held.
 */
#ifndef URXE_VERBS_UCMA_UCMA_INTERNAL_H
#define URXE_VERBS_UCMA_UCMA_INTERNAL_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "emu/cm.h"
#include "verbs/engine/bell.h"
#include "verbs/engine/engine.h"
#include "verbs/engine/vfile.h"

/* Events of <rdma/rdma_cma.h>, which is the library's header, not the kernel's */
enum ucma_event_type {
	UCMA_ADDR_RESOLVED,
	UCMA_ADDR_ERROR,
	UCMA_ROUTE_RESOLVED,
	UCMA_ROUTE_ERROR,
	UCMA_CONNECT_REQUEST,
	UCMA_CONNECT_RESPONSE,
	UCMA_CONNECT_ERROR,
	UCMA_UNREACHABLE,
	UCMA_REJECTED,
	UCMA_ESTABLISHED,
	UCMA_DISCONNECTED,
	UCMA_DEVICE_REMOVAL,
	UCMA_MULTICAST_JOIN,
	UCMA_MULTICAST_ERROR,
	UCMA_ADDR_CHANGE,
	UCMA_TIMEWAIT_EXIT,
};

/* States of an identifier, as in the kernel's cma.c */
enum ucma_state {
	UCMA_IDLE,
	UCMA_ADDR_BOUND,
	UCMA_ADDR_DONE,
	UCMA_ROUTE_DONE,
	UCMA_CONNECT,
	UCMA_DISCONNECT,
	UCMA_LISTEN,
};

#define UCMA_AF_IB	  27	     /* <infiniband/ib.h> */
#define UCMA_UDP_QKEY	  0x01234567 /* RDMA_UDP_QKEY of <rdma/rdma_cma.h> */
#define UCMA_MCAST_QPN	  0xffffff
#define UCMA_HOP_LIMIT	  64
#define UCMA_PKEY	  0xffff
#define UCMA_MAX_BACKLOG  1024 /* net.rdma_ucm.max_backlog */
#define UCMA_PORT_BUCKETS 1024
#define UCMA_LIFETIME	  16 /* packet life time on RoCE, 4.096 us * 2^n (cma.c) */

/* sockaddr_ib of <infiniband/ib.h> */
struct ucma_sockaddr_ib {
	uint16_t family;
	uint16_t pkey_be;
	uint32_t flowinfo_be;
	struct net_ip addr;
	uint64_t sid_be;
	uint64_t sid_mask_be;
	uint64_t scope_id;
};

union ucma_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct ucma_sockaddr_ib ib;
	struct sockaddr_storage ss;
};

struct ucma_id;
struct ucma_file;
struct ucma_mc;

/* struct ucma_table - handles: small numbers, the lowest free one first */
struct ucma_table {
	void **entry;
	uint32_t room;
	uint32_t lowest; /* no free entry is below */
};
int ucma_table_add(struct ucma_table *t, void *obj, uint32_t *handle); /* 0 or -ENOMEM */
void *ucma_table_get(const struct ucma_table *t, uint32_t handle);     /* or NULL */
void ucma_table_del(struct ucma_table *t, uint32_t handle);

/*
 * struct ucma - the connection manager of a process
 * @ids, @mcs:	by handle
 * @ports:	port numbers in use, hashed
 * @slot:	of the process
 * @will:	what its peers are told after its death
 * @n_watched:	connections whose peer is a process of this host
 * @watch_at:	when to look after them again
 * @last_port:	the ephemeral port that was given last; not to be given again next
 */
struct ucma {
	struct engine *engine;
	struct emu_cm *cm;
	struct ucma_table ids;
	struct ucma_table mcs;
	struct ucma_port *ports[UCMA_PORT_BUCKETS];
	uint16_t last_port;
	uint64_t rng;
	unsigned int slot;
	struct will *will;
	uint32_t n_watched;
	uint64_t watch_at;
};

/*
 * struct ucma_event - in a file's queue
 * @id:		whose; of a request, the listener
 * @mc:		the group of a multicast event
 * @conn:	the new identifier of a request
 * @since:	when it came to be (ns)
 */
struct ucma_event {
	struct ucma_event *next;
	struct ucma_id *id;
	struct ucma_mc *mc;
	struct ucma_id *conn;
	uint64_t since;
	struct rdma_ucm_event_resp resp;
};

/*
 * struct ucma_write_event - RDMA_USER_CM_CMD_WRITE_CM_EVENT of newer <rdma/rdma_user_cm.h>: a
 * program, or librdmacm for itself, puts an event into its own channel
 */
#define UCMA_CMD_WRITE_CM_EVENT 24
#define UCMA_EVENT_USER		18
#define UCMA_EVENT_INTERNAL	19
struct ucma_write_event {
	uint32_t id;
	uint32_t reserved;
	uint32_t event;
	uint32_t status;
	uint32_t arg[2];
};

/*
 * struct ucma_file - an event channel
 * @bell:	rings while there are events
 */
struct ucma_file {
	struct vfile vf;
	struct ucma *u;
	struct bell bell;
	struct ucma_event *events;
	struct ucma_event **events_end;
	struct ucma_id *ids;
};

/*
 * struct ucma_mc - membership in a multicast group
 */
struct ucma_mc {
	struct ucma_mc *next;
	struct ucma_id *id;
	uint32_t handle;
	uint32_t events_reported;
	uint64_t uid;
	union ucma_addr addr;
};

/*
 * struct ucma_path - the route, as far as RoCE has one
 */
struct ucma_path {
	enum ibv_mtu mtu;
	uint8_t lifetime;
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t flow;
};

/*
 * struct ucma_id - what the application knows as rdma_cm_id
 * @uid:	the library's; 0 until the application accepted: nobody hears its events
 * @backlog:	requests that may still be queued
 * @dev:	NULL: not (yet) tied to one
 * @sgid, @dgid: may differ from the addresses on loopback, where any 127.x names this
 * host
 * @implicit:	the port was not asked for: no other process need know of it
 * @port_next:	next owner of the port
 * @claim:	what it has claimed in the registry
 * @seen:	what others see of it
 */
struct ucma_id {
	struct ucma_file *file;
	struct ucma_id *next, **prevp;
	uint32_t handle;
	uint64_t uid;
	uint32_t events_reported;
	uint32_t backlog;
	enum ucma_state state;
	uint16_t ps;
	uint8_t qp_type;
	union ucma_addr src, dst;
	struct engine_device *dev;
	unsigned int gid_index;
	struct net_ip sgid, dgid;
	unsigned int num_paths;
	struct ucma_path path;
	struct emu_cm_conn *conn;
	uint32_t qp_num;
	bool srq;
	uint32_t psn;
	uint8_t tos;
	bool reuseaddr, afonly, afonly_set;
	uint8_t ack_timeout;
	bool ack_timeout_set;
	struct ucma_port *port;
	struct ucma_id *port_next;
	bool implicit;
	uint64_t claim[2];
	unsigned int n_claims;
	struct ucma_mc *mcs;
	struct trace_object *seen;
};

/* --- ucma.c ----------------------------------------------------------------------- */

/* The channel that @fd is, held until vfile_put(); NULL: it is none */
struct ucma_file *ucma_file_get(int fd);

/* --- ucma_command.c --------------------------------------------------------------- */

/* What the application writes to a channel: its length, or -errno. Takes the engine's lock */
ssize_t ucma_command(struct ucma_file *f, int fd, const void *buf, size_t len);

/* --- ucma_event.c ----------------------------------------------------------------- */

/* Queue an event of @id; NULL if nobody wants it or memory is short */
struct ucma_event *ucma_push(struct ucma_id *id, enum ucma_event_type type, int status);
void ucma_event_queue(struct ucma_file *f, struct ucma_event *ev);
/* Take out what is queued of @id: a list of which the caller is the owner */
struct ucma_event *ucma_event_take(struct ucma_id *id);
/* The first one in the queue has been given to the application */
void ucma_event_done(struct ucma_file *f);
void ucma_event_drop_mc(struct ucma_mc *mc);
/* Destroy @id and what is queued of it; how many events were reported */
uint32_t ucma_event_drop_id(struct ucma_id *id);

/* --- ucma_id.c -------------------------------------------------------------------- */

struct ucma_id *ucma_id_new(struct ucma_file *f, uint16_t ps, uint8_t qp_type);
/* Destroy; how many events were reported */
uint32_t ucma_id_destroy(struct ucma_id *id);
int ucma_bind(struct ucma_id *id, const union ucma_addr *addr);
int ucma_resolve_addr(struct ucma_id *id, const union ucma_addr *src,
		      const union ucma_addr *dst);
int ucma_resolve_route(struct ucma_id *id);
/* The application brings its own path record (RDMA_OPTION_IB_PATH). */
int ucma_set_path(struct ucma_id *id, const struct ucma_path *path);
int ucma_listen(struct ucma_id *id, int backlog);
int ucma_join(struct ucma_id *id, const union ucma_addr *addr, uint64_t uid,
	      struct ucma_mc **out);
uint32_t ucma_leave(struct ucma_mc *mc);
void ucma_fill_ah(const struct ucma_id *id, struct ib_uverbs_ah_attr *ah);

/* --- ucma_show.c ------------------------------------------------------------------ */

/* What others see of @id begins. 0 or -ENOMEM */
int ucma_show_new(struct ucma_id *id);
/* ... and ends; @waits: this thread is in rdma_destroy_id(3), which may have to wait */
void ucma_show_gone(struct ucma_id *id);
/* Its state, addresses, device or QP may be other ones now */
void ucma_show(struct ucma_id *id);
/* An event of it was queued; was given to the program, or dropped */
void ucma_show_queued(const struct ucma_event *ev);
void ucma_show_given(const struct ucma_event *ev);
void ucma_show_dropped(const struct ucma_event *ev);
/* The program has called @command, which names @id if it is not NULL; in the end it was @ret */
void ucma_show_call(struct ucma *u, struct ucma_id *id, uint32_t handle, uint32_t command,
		    uint32_t private_len, int ret);

/* --- ucma_peer.c ------------------------------------------------------------------ */

int ucma_peer_init(struct ucma *u);
int ucma_connect(struct ucma_id *id, const struct rdma_ucm_conn_param *p,
		 const struct rdma_ucm_ece *ece);
/* @p NULL: the active side agrees to the reply (RTU) */
int ucma_accept(struct ucma_id *id, const struct rdma_ucm_conn_param *p,
		const struct rdma_ucm_ece *ece);
int ucma_reject(struct ucma_id *id, uint8_t reason, const void *priv, uint8_t priv_len);
int ucma_disconnect(struct ucma_id *id);
int ucma_notify(struct ucma_id *id, uint32_t event);
int ucma_init_qp_attr(struct ucma_id *id, uint32_t state, struct ib_uverbs_qp_attr *resp);
/* A message from QP1 of @dev, to the struct ucma @arg: see struct engine_cm_ops */
void ucma_mad(void *arg, struct engine_device *dev, const struct net_path *path,
	      const uint8_t *mad, uint32_t len);

/* --- ucma_point.c ----------------------------------------------------------------- */

/* Does a rule of inject/ want a function, or that of a command, to fail? 0 or -errno */
int ucma_point(const char *function);
int ucma_point_command(uint32_t cmd);
/* Ask about an event of @id, which a rule may change. False: it never comes */
bool ucma_point_event(struct ucma_id *id, enum ucma_event_type *type, int *status);
/* ... about a request for a connection: 0, -ENOMEM: it never came, -ECONNREFUSED */
int ucma_point_request(void);

/* --- ucma_port.c ------------------------------------------------------------------ */

/* Give @id the port in its source address, or any if that is 0. 0 or -errno */
int ucma_port_bind(struct ucma_id *id);
void ucma_port_unbind(struct ucma_id *id);
/* May @id begin to listen? (others that share its port did not, yet) */
int ucma_port_may_listen(const struct ucma_id *id);
/* Who listens on @ps and @port for what is sent to @dst (of family @family) at @dev? */
struct ucma_id *ucma_port_listener(struct ucma *u, uint16_t ps, uint16_t port,
				   sa_family_t family, const struct net_ip *dst,
				   const struct engine_device *dev);
/* Which process of the host a message to QP1 is for: see net_port_set_gsi_router() */
int ucma_port_router(void *arg, const uint8_t *mad, uint32_t len);

/*
 * A key for the registry of the host (net/port.h); "ucma" in it keeps it apart from keys
 * of others. @kind: 4, 6 a wildcard of the family, a an address, p a process
 */
uint64_t ucma_key(char kind, uint16_t ps, uint16_t port, const void *extra, size_t len);

/* --- ucma_watch.c ----------------------------------------------------------------- */

/* After ucma_peer_init() */
int ucma_watch_init(struct ucma *u);
/* See emu_cm_ops.changed. */
void ucma_watch_changed(struct ucma *u, struct emu_cm_conn *conn);
/* Look whether peers are alive; when to look again */
uint64_t ucma_watch_run(struct ucma *u, uint64_t now);
/* In the child of fork, with the struct ucma @arg: see struct engine_cm_ops */
void ucma_watch_abandon(void *arg);

/* --- ucma_addr.c ------------------------------------------------------------------ */

/* Bytes of an address of a known family, else 0 */
uint32_t ucma_addr_size(const union ucma_addr *a);
bool ucma_addr_is_zero(const union ucma_addr *a);
bool ucma_addr_is_loopback(const union ucma_addr *a);
void ucma_addr_set_loopback(union ucma_addr *a);
uint16_t ucma_addr_port(const union ucma_addr *a);
void ucma_addr_set_port(union ucma_addr *a, uint16_t port);
struct net_ip ucma_addr_ip(const union ucma_addr *a);
void ucma_addr_set_ip(union ucma_addr *a, sa_family_t family, const struct net_ip *ip,
		      uint16_t port);
/* Is it an address of this host? */
bool ucma_addr_is_local(const union ucma_addr *a);
/*
 * ucma_route - the address that this host uses towards @dst; @src is kept if it is not
 * zero. 0 with @src, or -errno (-ENETUNREACH ...)
 */
int ucma_route(union ucma_addr *src, const union ucma_addr *dst);
/* The device with address @ip, and the index in its GID table; NULL if there is none */
struct engine_device *ucma_dev_by_ip(struct engine *e, const struct net_ip *ip,
				     unsigned int *index);
/*
 * ucma_dev_loopback - the device for loopback addresses of @family: that of lo, else the
 * first that has an address of the family, else the first with any
 */
struct engine_device *ucma_dev_loopback(struct engine *e, sa_family_t family,
					unsigned int *index, struct net_ip *gid);

/*
 * path_record.c: the route of @id as a path record, what a program gave as one, and the
 * route in the kernel's older structure
 */
#define UCMA_PATH_RECORD_LEN 64
void ucma_path_pack(const struct ucma_id *id, uint8_t record[UCMA_PATH_RECORD_LEN]);
void ucma_path_unpack(const uint8_t record[UCMA_PATH_RECORD_LEN], struct ucma_path *path);
void ucma_path_user(const struct ucma_id *id, struct ib_user_path_rec *r);

#endif
