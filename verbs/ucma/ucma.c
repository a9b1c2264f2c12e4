/*
 * ucma.c - the rdma_cm character device, and the connection manager of a process behind it.
 *
 * Theory of operation
 *
 * Each open gives an event channel (struct ucma_file). Its descriptor (bell.h)
 * is readable while events are queued (ucma_event.c); commands are written to it
 * (ucma_command.c).
 *
 * One lock, the engine's, covers all channels and identifiers. Only GET_EVENT waits,
 * without it.
 *
 * The connection manager starts with the first channel, or with the first message that comes for one.
 *
 * Owns: channels, the struct ucma of the process. Must not know: what commands mean.
 */
#include "verbs/ucma/ucma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/splitmix.h"
#include "verbs/host/paths.h"
#include "verbs/ucma/ucma_internal.h"

/* --- channels --------------------------------------------------------------------- */

static ssize_t file_write(struct vfile *vf, int fd, const void *buf, size_t len)
{
	return ucma_command((struct ucma_file *)vf, fd, buf, len);
}

static void file_release(struct vfile *vf)
{
	struct ucma_file *f = (struct ucma_file *)vf;
	struct engine *e = f->u->engine;

	engine_enter(e);
	while (f->ids)
		ucma_event_drop_id(f->ids);
	engine_progress(e, ENGINE_CHANGED);
	engine_leave(e);
	bell_close(&f->bell);
	free(f);
}

static const struct vfile_ops file_ops = {
    .write = file_write,
    .write_waits = true,
    .release = file_release,
};

struct ucma_file *ucma_file_get(int fd)
{
	return (struct ucma_file *)vfile_get_as(fd, &file_ops);
}

/* --- the process's connection manager --------------------------------------------- */

static uint64_t on_run(void *arg, uint64_t now)
{
	struct ucma *u = arg;
	uint64_t watch, next;

	emu_cm_set_time(u->cm, now);
	watch = ucma_watch_run(u, now);
	next = emu_cm_run(u->cm);
	return watch < next ? watch : next;
}

static const struct engine_cm_ops engine_ops = {
    .mad = ucma_mad, .run = on_run, .abandon = ucma_watch_abandon};

/* Lock held. NULL with the reason in @err */
static struct ucma *ucma_start(struct engine *e, int *err)
{
	struct ucma *u = calloc(1, sizeof(*u));

	*err = -ENOMEM;
	if (!u)
		return NULL;
	u->engine = e;
	if (getrandom(&u->rng, sizeof(u->rng), 0) != sizeof(u->rng))
		u->rng = engine_now() * SPLITMIX_STEP;
	*err = ucma_peer_init(u);
	if (*err) {
		free(u);
		return NULL;
	}
	*err = ucma_watch_init(u);
	if (*err) {
		emu_cm_destroy(u->cm);
		free(u);
		return NULL;
	}
	emu_cm_set_time(u->cm, engine_now());
	net_port_set_gsi_router(engine_port(e), ucma_port_router, u);
	engine_set_cm(e, &engine_ops, u);
	return u;
}

static struct ucma *ucma_get(struct engine *e, int *err)
{
	struct ucma *u;

	engine_enter(e);
	u = engine_cm(e);
	if (!u)
		u = ucma_start(e, err);
	engine_progress(e, ENGINE_CHANGED);
	engine_leave(e);
	return u;
}

/*
 * The first MAD of a process that has not used rdma_cm. A host has a CM that answers,
 * whoever listens there; and the process that has ROCE_UDP_PORT decides which of the
 * others a request is for.
 */
static int first_mad(void *arg, const uint8_t *mad, uint32_t len)
{
	int ret;
	struct ucma *u = ucma_start(arg, &ret);

	return u ? ucma_port_router(u, mad, len) : NET_GSI_ALL;
}

void ucma_serve(struct engine *e)
{
	net_port_set_gsi_router(engine_port(e), first_mad, e);
}

static int open_file(struct ucma *u, int flags)
{
	struct ucma_file *f = calloc(1, sizeof(*f));
	int fd;

	if (!f)
		return -ENOMEM;
	f->u = u;
	f->events_end = &f->events;
	f->vf.ops = &file_ops;
	f->vf.rdev = paths_node_rdev(PATHS_NODE_CM);
	fd = bell_open(&f->bell, &f->vf, flags & (O_CLOEXEC | O_NONBLOCK));
	if (fd < 0)
		free(f);
	return fd;
}

int ucma_open(int flags)
{
	struct engine *e = engine_get();
	struct ucma *u;
	int ret;

	if (!e)
		return errno ? -errno : -ENODEV;
	ret = ucma_point("rdma_create_event_channel");
	if (ret)
		return ret;
	u = ucma_get(e, &ret);
	return u ? open_file(u, flags) : ret;
}
