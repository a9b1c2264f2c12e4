/*
 * uverbs_ioctl.h - a request of RDMA_VERBS_IOCTL: between its parser (uverbs_ioctl.c) and the
 * methods (uverbs_methods.c).
 */
#ifndef URXE_VERBS_UVERBS_UVERBS_IOCTL_H
#define URXE_VERBS_UVERBS_UVERBS_IOCTL_H

#include <rdma/rdma_user_ioctl_cmds.h>

#include "verbs/uverbs/uverbs.h"

#define UATTR_MAX 20 /* attributes of one method */

enum uattr_kind {
	ATTR_NONE,   /* the end of a table */
	ATTR_INT,    /* a number of @len to 8 bytes, in the attribute itself */
	ATTR_IN,     /* data of at least @len bytes; more must be zero */
	ATTR_IN_MIN, /* data of at least @len bytes */
	ATTR_OUT,    /* room for at least @len bytes */
	ATTR_IDR,    /* a handle */
	ATTR_NEW,    /* receives the handle of what is created */
	ATTR_FD,     /* a descriptor */
	ATTR_NEW_FD,
};

struct uattr_spec {
	uint16_t id;
	uint8_t kind;
	bool mandatory;
	uint16_t len;
};

struct uverbs_request;

/*
 * struct uverbs_method
 * @new_context: may run before GET_CONTEXT
 * @unlocked:	takes the engine lock itself
 */
struct uverbs_method {
	uint16_t object, id;
	int (*run)(struct uverbs_request *r);
	bool new_context, unlocked;
	struct uattr_spec attr[UATTR_MAX];
};

/*
 * struct uverbs_request - one that is being served
 * @user:	the attributes in the application's memory
 * @attr, @index: of each attribute in the method's table, its copy and its place in @user
 * @given:	bit i: attribute i of the table is there
 * @hw_in, @hw_out: UVERBS_ATTR_UHW_*, zero if not given
 * @work:	out: what it gave the core to do
 */
struct uverbs_request {
	struct uverbs_context *ctx;
	const struct uverbs_method *method;
	struct ib_uverbs_attr *user;
	struct ib_uverbs_attr attr[UATTR_MAX];
	uint16_t index[UATTR_MAX];
	uint32_t given;
	struct ib_uverbs_attr hw_in, hw_out;
	enum engine_work work;
};

/* The method with this number, or NULL */
const struct uverbs_method *uverbs_find_method(uint16_t object, uint16_t id);

/* --- attributes ------------------------------------------------------------------- */

/* Its place in the method's table, -1: there is none such */
int uattr_slot(const struct uverbs_method *m, uint16_t id);
/* NULL: it was not given */
struct ib_uverbs_attr *uattr_of(struct uverbs_request *r, uint16_t id);
/* Data of up to 8 bytes is in the attribute itself. */
int uattr_read(const struct ib_uverbs_attr *a, void *buf, size_t len);
/* An integer attribute; 0 if it is not there */
uint64_t uattr_number(struct uverbs_request *r, uint16_t id);
uint32_t uattr_number32(struct uverbs_request *r, uint16_t id);
/* Tell the application that the attribute in this place was answered. */
int uattr_set_flags(struct uverbs_request *r, int slot);
/*
 * Answer an attribute that may not be there; what is longer than the answer gets zeros.
 */
int uattr_put(struct uverbs_request *r, uint16_t id, const void *buf, size_t len);
int uattr_put_u32(struct uverbs_request *r, uint16_t id, uint32_t v);
/* The handle or descriptor of a new object */
int uattr_put_new(struct uverbs_request *r, uint16_t id, int64_t value);
int uattr_put_hw(struct uverbs_request *r, const void *buf, size_t len);
/*
 * Optional attribute with the descriptor of an asynchronous event file; a reference, or
 * NULL
 */
int uattr_event_fd(struct uverbs_request *r, uint16_t id, struct event_channel **out);
void uattr_event_fd_put(struct event_channel *ch);

#endif
