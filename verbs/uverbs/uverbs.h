/*
 * uverbs.h - the uverbs character device: contexts and the objects in them.
 *
 * Both ways in, commands by write(2) and methods by ioctl(2), end in the operations
 * declared here, which know nothing of how a request was laid out. Requests are parsed
 * and answered through guarded copies; all operations run under the engine lock.
 */
#ifndef URXE_VERBS_UVERBS_UVERBS_H
#define URXE_VERBS_UVERBS_UVERBS_H

#include <rdma/rdma_user_rxe.h>

#include "verbs/engine/engine.h"
#include "verbs/engine/vfile.h"
#include "verbs/uverbs/ring_memory.h"
#include "verbs/uverbs/uobject.h"

/*
 * struct uverbs_channel - an event file that the context made
 * @port:	registered with the engine for asynchronous ones
 */
struct uverbs_channel {
	struct uverbs_channel *next;
	struct event_channel *ch;
	struct engine_port_sink port;
};

/*
 * struct uverbs_context - an open command fd
 * @empty_ring:	a page where the provider expects a ring that a QP does not have, once
 *		needed
 * @ready:	GET_CONTEXT was done
 * @left:	memory that the operation under way has taken from its MR, see
 *		uverbs_leave()
 * @async:	where events of objects go that name no event file; owned by @channels
 * @channels:	@n_channels of them; those whose descriptor is closed are swept when there
 *		are @sweep_at
 */
struct uverbs_context {
	struct vfile vf;
	struct engine *engine;
	struct engine_device *dev;
	struct emu_hca *hca;
	struct ring_space rings;
	struct uobject_table objects;
	void *empty_ring;
	uint64_t empty_ring_offset;
	bool ready;
	struct odp_mr *left;
	struct event_channel *async;
	struct uverbs_channel *channels;
	unsigned int n_channels;
	unsigned int sweep_at;
};

/*
 * uverbs_open - open(2) of uverbs@index: a descriptor, or -errno. Starts the engine.
 */
int uverbs_open(unsigned int index, int flags);
/* The context of a command fd with a reference (vfile_put()), or NULL */
struct uverbs_context *uverbs_lookup(int fd);

/* write(2) and ioctl(2) of it: uverbs_write.c, uverbs_ioctl.c */
ssize_t uverbs_write(struct vfile *vf, int fd, const void *buf, size_t len);
int uverbs_ioctl(struct vfile *vf, int fd, unsigned long cmd, void *arg);

/*
 * uverbs_leave - the core's progress after an operation, and leave it. If the operation took
 * the memory from an MR, return when no page fault of the MR touches it any more; others go
 * on meanwhile.
 */
void uverbs_leave(struct uverbs_context *ctx, enum engine_work work);

/* --- a request -------------------------------------------------------------------- */

/*
 * struct uverbs_call - a command, whichever way it came
 * @in, @out:	the part that ib_uverbs defines, in the application's memory
 * @hw_in, @hw_out: the part that rxe defines
 * @work:	out: what it gave the core to do
 */
struct uverbs_call {
	struct uverbs_context *ctx;
	const void *in;
	size_t in_len;
	void *out;
	size_t out_len;
	const void *hw_in;
	size_t hw_in_len;
	void *hw_out;
	size_t hw_out_len;
	enum engine_work work;
};

/* Are @len bytes of the application's memory zero? 1, 0, or -EFAULT */
int uverbs_is_zero(uintptr_t p, size_t len);

/*
 * uverbs_request - copy the request; a shorter one is filled with zeros, what a longer
 * one has beyond @len must be zero, else -EOPNOTSUPP
 */
int uverbs_request(const struct uverbs_call *c, void *buf, size_t len);
/*
 * uverbs_response - copy as much of the answer as there is room, zeros to the rest of it
 */
int uverbs_response(const struct uverbs_call *c, const void *buf, size_t len);
int uverbs_hw_response(const struct uverbs_call *c, const void *buf, size_t len);

/*
 * uverbs_invoke - run a write command by its number; sizes against the command's own are
 * checked
 * (-ENOSPC), and that the context is ready. With the engine lock held.
 */
int uverbs_invoke(struct uverbs_call *c, uint32_t command);

/* --- operations: uverbs_objects.c ------------------------------------------------- */

int uverbs_get_context(struct uverbs_context *ctx);
unsigned int uverbs_comp_vectors(void);
/*
 * A new event file; the first asynchronous one becomes the context's own. The fd or
 * -errno
 */
int uverbs_make_channel(struct uverbs_context *ctx, bool async);
void uverbs_drop_channels(struct uverbs_context *ctx);

struct uverbs_cq_args {
	uint64_t user_handle;
	uint32_t cqe;
	uint32_t comp_vector;
	uint32_t flags;
	int comp_fd; /* -1: none */
	struct event_channel *async;
};

/* Handles of what does not apply are ignored */
struct uverbs_qp_args {
	uint64_t user_handle;
	enum ibv_qp_type type;
	uint32_t pd, send_cq, recv_cq, srq, xrcd;
	uint32_t qpn; /* uverbs_qp_open() */
	bool has_srq;
	bool sq_sig_all;
	struct ibv_qp_cap cap; /* in and out */
	struct event_channel *async;
};

struct uverbs_srq_args {
	uint64_t user_handle;
	uint32_t type; /* enum ib_uverbs_srq_type */
	uint32_t pd, xrcd, cq;
	struct ibv_srq_attr attr; /* in and out */
	struct event_channel *async;
};

int uverbs_cq_create(struct uverbs_context *ctx, const struct uverbs_cq_args *args,
		     struct uobject **out);
int uverbs_qp_create(struct uverbs_context *ctx, struct uverbs_qp_args *args,
		     struct uobject **out);
int uverbs_srq_create(struct uverbs_context *ctx, struct uverbs_srq_args *args,
		      struct uobject **out);
/* uverbs_qp_open - another handle for the XRC target QP @args->qpn of @args->xrcd */
int uverbs_qp_open(struct uverbs_context *ctx, const struct uverbs_qp_args *args,
		   struct uobject **out);
int uverbs_xrcd_open(struct uverbs_context *ctx, int fd, int oflags,
		     struct uobject **out);

/*
 * struct uverbs_reported - events of an object that the application has read, which
 * libibverbs waits for to be acknowledged
 */
struct uverbs_reported {
	uint32_t comp;
	uint32_t async;
};
/*
 * struct uverbs_unacked - events of an object that the program has read and not acknowledged
 * @object, @id: enum trace_object_kind, and its number in records
 */
struct uverbs_unacked {
	enum trace_object_kind object;
	uint32_t id;
	uint32_t comp, async;
};
void uverbs_unacked(struct uobject *o, struct uverbs_unacked *out);

/* uverbs_destroy - by handle; 0, -ENOENT, -EINVAL (of another type), -EBUSY */
int uverbs_destroy(struct uverbs_context *ctx, enum uobject_type type, uint32_t handle,
		   struct uverbs_reported *rep);
/* An object that was created by a request whose answer cannot be delivered */
void uverbs_undo(struct uverbs_context *ctx, struct uobject *o);
void uverbs_destroy_all(struct uverbs_context *ctx);

struct mminfo uverbs_mminfo(struct emu_ring_info ring);
/*
 * Where the provider finds the rings of a QP; those that it does not have are a page of
 * nothing
 */
struct rxe_create_qp_resp uverbs_qp_rings(struct uverbs_context *ctx,
					  const struct uobject *o);

/*
 * The provider does not know XRC targets. It is asked for an RC QP instead, while this
 * says what to make of the request that it sends for it (xrc.c). Of the calling thread.
 */
struct uverbs_xrc_target {
	bool pending;
	bool open; /* an existing one: @qpn */
	uint32_t xrcd;
	uint32_t qpn;
};
extern __thread struct uverbs_xrc_target uverbs_xrc_target;

/*
 * uverbs_advise_mr - ibv_advise_mr(3). Without the engine lock. @sges is the
 * application's own array.
 */
int uverbs_advise_mr(struct uverbs_context *ctx, uint32_t pd, uint32_t advice,
		     uint32_t flags, const struct ibv_sge *sges, uint32_t n);

#endif
