/*
 * uobject.h - what the handles of a context stand for.
 *
 * A context numbers its objects as the kernel does: the lowest free number, one space for
 * all types. An object here is the handle, the core's object, and where its events go.
 * All of it is under the engine lock.
 */
#ifndef URXE_VERBS_UVERBS_UOBJECT_H
#define URXE_VERBS_UVERBS_UOBJECT_H

#include "emu/hca.h"
#include "verbs/engine/engine.h"
#include "verbs/engine/event_channel.h"

enum uobject_type {
	UOBJECT_PD,
	UOBJECT_MR,
	UOBJECT_MW,
	UOBJECT_CQ,
	UOBJECT_SRQ,
	UOBJECT_QP,
	UOBJECT_AH,
	UOBJECT_XRCD,
};

struct xrcd;
struct xrc_qp;

/* struct uobject_mcast - a group that a QP is attached to */
struct uobject_mcast {
	struct uobject_mcast *next;
	struct net_ip group;
};

/*
 * struct uobject
 * @length, @iova: of an MR, for QUERY_MR
 * @mcast, @xrc: of a QP: its groups; what it shares with others that opened it, if it is
 *		an XRC target
 * @users:	of an XRC domain: SRQs and QPs that came to it by this handle
 */
struct uobject {
	enum uobject_type type;
	uint32_t handle;
	union {
		struct emu_pd *pd;
		struct emu_mr *mr;
		struct emu_mw *mw;
		struct emu_cq *cq;
		struct emu_srq *srq;
		struct emu_qp *qp;
		struct emu_ah *ah;
		struct xrcd *xrcd;
	};
	union {
		struct {
			uint64_t length;
			uint64_t iova;
		};
		struct {
			struct uobject_mcast *mcast;
			struct xrc_qp *xrc;
		};
		uint32_t users;
	};
};

/*
 * struct uevobject - a CQ, SRQ or QP
 * @sink:	the cookie that the core gets
 * @comp:	completion events of a CQ
 * @async:	asynchronous events of all
 * @next_opener: of the same XRC target QP
 * @domain:	XRC: the handle of the domain by which it was made or opened
 */
struct uevobject {
	struct uobject base;
	struct engine_event_sink sink;
	struct event_source comp;
	struct event_source async;
	struct uevobject *next_opener;
	struct uobject *domain;
};

/*
 * struct uobject_table
 * @slot:	@cap of them, indexed by handle
 * @lowest:	no free handle is below
 * @left:	struct trace_header, where others see how many are left; NULL: what goes now is
 *		not destroyed by the program
 */
struct uobject_table {
	uint64_t *left;
	struct uobject **slot;
	uint32_t cap;
	uint32_t lowest;
	uint32_t used;
};

/*
 * uobject_new - an object of @type with a handle, the core's part still NULL; NULL:
 * ENOMEM
 */
struct uobject *uobject_new(struct uobject_table *t, enum uobject_type type);
/* Take it out of the table and free it, the core's part and its events being gone */
void uobject_free(struct uobject_table *t, struct uobject *o);
struct uobject *uobject_find(struct uobject_table *t, enum uobject_type type,
			     uint32_t handle);
static inline bool uobject_exists(const struct uobject_table *t, uint32_t handle)
{
	return handle < t->cap && t->slot[handle];
}
void uobject_table_fini(struct uobject_table *t);

static inline struct uevobject *uobject_events(struct uobject *o)
{
	return (struct uevobject *)o;
}

#endif
