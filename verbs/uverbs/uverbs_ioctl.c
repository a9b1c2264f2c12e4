/*
 * uverbs_ioctl.c - RDMA_VERBS_IOCTL: methods with typed attributes.
 *
 * Theory of operation
 *
 * A request is a header and an array of attributes. Each method has a table of those that
 * it knows; parsing goes through the array once, checks each against the table as the
 * kernel's uverbs_process_attr() does, and puts it at its place in struct uverbs_request, so
 * that a method only picks what it needs. What must be told apart, since libibverbs
 * decides by it whether to try write(2) instead:
 *
 * - EPROTONOSUPPORT: no such object or method, or a mandatory attribute that we do not
 *   know; never the answer of a method that ran;
 * - EINVAL: an attribute is malformed, twice there, or missing.
 */
#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <string.h>

#include "odp/guard.h"
#include "verbs/uverbs/uverbs_ioctl.h"
#include "verbs/uverbs/uverbs_points.h"

#define PAGE_LIMIT 4096 /* bytes of a request, as PAGE_SIZE in the kernel */
#define MAX_ATTRS  ((PAGE_LIMIT - sizeof(struct ib_uverbs_ioctl_hdr)) / ATTR_SIZE)
#define ATTR_SIZE  sizeof(struct ib_uverbs_attr)

/* --- attributes ------------------------------------------------------------------- */

int uattr_slot(const struct uverbs_method *m, uint16_t id)
{
	for (int i = 0; i < UATTR_MAX && m->attr[i].kind != ATTR_NONE; i++)
		if (m->attr[i].id == id)
			return i;
	return -1;
}

struct ib_uverbs_attr *uattr_of(struct uverbs_request *r, uint16_t id)
{
	int i = uattr_slot(r->method, id);

	return i >= 0 && r->given & 1u << i ? &r->attr[i] : NULL;
}

int uattr_read(const struct ib_uverbs_attr *a, void *buf, size_t len)
{
	if (a->len <= sizeof(a->data))
		memcpy(buf, &a->data, len);
	else if (guard_copy(buf, (const void *)(uintptr_t)a->data, len))
		return -EFAULT;
	return 0;
}

uint64_t uattr_number(struct uverbs_request *r, uint16_t id)
{
	struct ib_uverbs_attr *a = uattr_of(r, id);

	return a ? a->data : 0;
}

uint32_t uattr_number32(struct uverbs_request *r, uint16_t id)
{
	struct ib_uverbs_attr *a = uattr_of(r, id);
	uint32_t v = 0;

	if (a)
		memcpy(&v, &a->data, sizeof(v));
	return v;
}

int uattr_set_flags(struct uverbs_request *r, int slot)
{
	uint16_t flags = r->attr[slot].flags | UVERBS_ATTR_F_VALID_OUTPUT;

	return guard_copy(&r->user[r->index[slot]].flags, &flags, sizeof(flags)) ? -EFAULT
										 : 0;
}

int uattr_put(struct uverbs_request *r, uint16_t id, const void *buf, size_t len)
{
	struct uverbs_call out = {0};
	int i = uattr_slot(r->method, id);
	int ret;

	if (i < 0 || !(r->given & 1u << i))
		return 0;
	out.out = (void *)(uintptr_t)r->attr[i].data;
	out.out_len = r->attr[i].len;
	ret = uverbs_response(&out, buf, len);
	return ret ? ret : uattr_set_flags(r, i);
}

int uattr_put_u32(struct uverbs_request *r, uint16_t id, uint32_t v)
{
	return uattr_put(r, id, &v, sizeof(v));
}

int uattr_put_new(struct uverbs_request *r, uint16_t id, int64_t value)
{
	int i = uattr_slot(r->method, id);

	return guard_copy(&r->user[r->index[i]].data_s64, &value, sizeof(value)) ? -EFAULT
										 : 0;
}

int uattr_put_hw(struct uverbs_request *r, const void *buf, size_t len)
{
	size_t n = r->hw_out.len < len ? r->hw_out.len : len;

	return n && guard_copy((void *)(uintptr_t)r->hw_out.data, buf, n) ? -EFAULT : 0;
}

int uattr_event_fd(struct uverbs_request *r, uint16_t id, struct event_channel **out)
{
	struct ib_uverbs_attr *a = uattr_of(r, id);

	*out = NULL;
	if (!a)
		return 0;
	*out = event_channel_lookup((int)a->data_s64);
	if (*out && (*out)->async)
		return 0;
	if (*out)
		event_channel_put(*out);
	return -EBADF;
}

void uattr_event_fd_put(struct event_channel *ch)
{
	if (ch)
		event_channel_put(ch);
}

/* --- parsing ---------------------------------------------------------------------- */

/* What a longer structure has beyond the @len bytes that we know must be zero. */
static int check_tail(const struct ib_uverbs_attr *a, size_t len)
{
	uintptr_t p =
	    a->len <= sizeof(a->data) ? (uintptr_t)&a->data : (uintptr_t)a->data;
	int zero = uverbs_is_zero(p + len, a->len - len);

	return zero < 0 ? zero : zero ? 0 : -EOPNOTSUPP;
}

static int check_attr(const struct uattr_spec *s, const struct ib_uverbs_attr *a)
{
	if (a->attr_data.reserved)
		return -EINVAL;
	switch ((enum uattr_kind)s->kind) {
	case ATTR_INT:
		return a->len < s->len || a->len > sizeof(a->data) ? -EINVAL : 0;
	case ATTR_IN:
		if (a->len < s->len)
			return -EINVAL;
		return a->len > s->len ? check_tail(a, s->len) : 0;
	case ATTR_IN_MIN:
	case ATTR_OUT:
		return a->len < s->len ? -EINVAL : 0;
	case ATTR_IDR:
		return a->len || a->data_s64 < 0 || a->data_s64 > UINT32_MAX ? -EINVAL
									     : 0;
	case ATTR_NONE:
	case ATTR_NEW:
	case ATTR_FD:
	case ATTR_NEW_FD:
		break;
	}
	return a->len ? -EINVAL : 0;
}

static int take_attr(struct uverbs_request *r, const struct ib_uverbs_attr *a,
		     uint16_t index)
{
	int slot, ret;

	if (a->attr_id == UVERBS_ATTR_UHW_IN || a->attr_id == UVERBS_ATTR_UHW_OUT) {
		*(a->attr_id == UVERBS_ATTR_UHW_IN ? &r->hw_in : &r->hw_out) = *a;
		return 0;
	}
	slot = uattr_slot(r->method, a->attr_id);
	if (slot < 0)
		return a->flags & UVERBS_ATTR_F_MANDATORY ? -EPROTONOSUPPORT : 0;
	if (r->given & 1u << slot)
		return -EINVAL;
	ret = check_attr(&r->method->attr[slot], a);
	if (ret)
		return ret;
	r->attr[slot] = *a;
	r->index[slot] = index;
	r->given |= 1u << slot;
	return 0;
}

static int take_attrs(struct uverbs_request *r, uint16_t n)
{
	struct ib_uverbs_attr attr[MAX_ATTRS];
	int ret = 0;

	if (guard_copy(attr, r->user, n * sizeof(attr[0])))
		return -EFAULT;
	for (uint16_t i = 0; i < n && !ret; i++)
		ret = take_attr(r, &attr[i], i);
	if (ret)
		return ret;
	for (int i = 0; i < UATTR_MAX; i++)
		if (r->method->attr[i].mandatory && !(r->given & 1u << i))
			return -EINVAL;
	return 0;
}

static int run(struct uverbs_request *r)
{
	int ret;

	if (r->method->unlocked)
		return r->ctx->ready ? r->method->run(r) : -EINVAL;
	engine_enter(r->ctx->engine);
	ret = r->ctx->ready || r->method->new_context ? r->method->run(r) : -EINVAL;
	uverbs_leave(r->ctx, r->work);
	return ret;
}

int uverbs_ioctl(struct vfile *vf, int fd, unsigned long cmd, void *arg)
{
	struct uverbs_request r = {.ctx = (struct uverbs_context *)vf};
	struct ib_uverbs_ioctl_hdr hdr;
	int ret;

	if (cmd != RDMA_VERBS_IOCTL)
		return -ENOTTY;
	if (guard_copy(&hdr, arg, sizeof(hdr)))
		return -EFAULT;
	if (hdr.length > PAGE_LIMIT ||
	    hdr.length != sizeof(hdr) + hdr.num_attrs * ATTR_SIZE)
		return -EINVAL;
	if (hdr.reserved1 || hdr.reserved2)
		return -EPROTONOSUPPORT;
	if (hdr.driver_id != RDMA_DRIVER_RXE)
		return -EINVAL;
	r.method = uverbs_find_method(hdr.object_id, hdr.method_id);
	if (!r.method)
		return -EPROTONOSUPPORT;
	r.user = (struct ib_uverbs_attr *)((uint8_t *)arg + sizeof(hdr));
	ret = take_attrs(&r, hdr.num_attrs);
	if (!ret)
		ret = uverbs_point_method(&r);
	if (ret)
		return ret;
	ret = run(&r);
	return ret == -EPROTONOSUPPORT ? -EINVAL : ret;
}
