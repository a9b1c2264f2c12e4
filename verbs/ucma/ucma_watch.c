/*
 * ucma_watch.c - peers that die, and what our own death means to them.
 *
 * Theory of operation
 *
 * With the kernel's rdma_cm a process that dies, by whatever signal, has its connections
 * disconnected by the kernel. Here the CM dies with the process. So
 *
 * - a peer on the same host is watched: each process claims a key of its slot in the
 *   registry that all share, and the registry forgets the claims of the dead. A connection
 *   whose peer's key has vanished is ended as if the peer had sent a DREQ;
 * - for peers on other hosts the message is kept in a file that `urxe run` sends from
 *   (will.h).
 *
 * Both hold in every state in which one end waits for the other, also where it has sent a
 * DREQ and waits for the DREP.
 *
 * Only a slot that was seen alive can be found dead, so that a peer that is not of our
 * registry (another user, another host behind one address) is never taken for dead.
 */
#include <errno.h>

#include "verbs/ucma/ucma_internal.h"
#include "verbs/ucma/will.h"

#define WATCH_NS 250000000u

/* Tag of a connection: the number of its entry in the will, and whether it is watched */
#define TAG_WATCHED 0x80000000u
#define TAG_ENTRY   0x7fffffffu

static uint64_t alive_key(uint32_t slot)
{
	return ucma_key('p', 0, 0, &slot, sizeof(slot));
}

static bool is_alive(struct ucma *u, uint32_t slot)
{
	unsigned int holder;

	return !net_registry_find(engine_port(u->engine), alive_key(slot), &holder);
}

int ucma_watch_init(struct ucma *u)
{
	const char *dir = engine_options(u->engine)->dir;
	int ret = net_registry_claim(engine_port(u->engine), alive_key(u->slot), true);

	u->watch_at = EMU_CM_NO_DEADLINE;
	if (ret)
		return ret;
	/* Without it only peers elsewhere are worse off, and only if we are killed. */
	if (dir[0])
		will_open(dir, &u->will);
	return 0;
}

void ucma_watch_abandon(void *arg)
{
	struct ucma *u = arg;

	if (u->will)
		will_abandon(u->will);
}

/*
 * Is the peer a process of this host, other than this one? Asked once, when its communication ID
 * is known. Who asks for a datagram service leaves nothing behind that could be ended.
 */
static bool should_watch(struct ucma *u, struct emu_cm_conn *c)
{
	uint32_t slot = emu_cm_slot_of(emu_cm_remote_id(c));
	union ucma_addr peer;

	ucma_addr_set_ip(&peer, net_ip_is_v4(emu_cm_peer(c)) ? AF_INET : AF_INET6,
			 emu_cm_peer(c), 0);
	return slot && slot != u->slot && emu_cm_qp_type(c) != IBV_QPT_UD &&
	       ucma_addr_is_local(&peer) && is_alive(u, slot);
}

static void watch(struct ucma *u, uint32_t *tag, bool on)
{
	if (on == !!(*tag & TAG_WATCHED))
		return;
	*tag ^= TAG_WATCHED;
	u->n_watched += on ? 1 : -1u;
	if (on && u->watch_at == EMU_CM_NO_DEADLINE)
		u->watch_at = engine_now() + WATCH_NS;
}

static void set_will(struct ucma *u, uint32_t *tag, const struct net_path *path,
		     const uint8_t *mad)
{
	uint32_t entry = *tag & TAG_ENTRY;

	if (!u->will)
		return;
	if (path)
		will_set(u->will, &entry, path, mad);
	else
		will_drop(u->will, &entry);
	*tag = (*tag & ~TAG_ENTRY) | entry;
}

void ucma_watch_changed(struct ucma *u, struct emu_cm_conn *c)
{
	uint32_t tag = emu_cm_tag(c);
	uint8_t mad[CM_MAD_LEN];
	struct net_path path;

	if (emu_cm_farewell(c, &path, mad)) {
		set_will(u, &tag, &path, mad);
		if (!(tag & TAG_WATCHED) && should_watch(u, c))
			watch(u, &tag, true);
	} else {
		set_will(u, &tag, NULL, NULL);
		watch(u, &tag, false);
	}
	emu_cm_set_tag(c, tag);
}

/*
 * struct looking - a look at all; what was asked last, as most peers are the same process
 */
struct looking {
	struct ucma *u;
	uint32_t slot;
	bool alive;
};

static void look(void *arg, struct emu_cm_conn *c)
{
	uint32_t slot = emu_cm_slot_of(emu_cm_remote_id(c));
	struct looking *l = arg;

	if (!(emu_cm_tag(c) & TAG_WATCHED))
		return;
	if (slot != l->slot) {
		l->slot = slot;
		l->alive = is_alive(l->u, slot);
	}
	if (!l->alive)
		emu_cm_peer_gone(c);
}

uint64_t ucma_watch_run(struct ucma *u, uint64_t now)
{
	struct looking l = {.u = u};

	if (now < u->watch_at)
		return u->watch_at;
	if (u->n_watched)
		emu_cm_for_each(u->cm, look, &l);
	u->watch_at = u->n_watched ? now + WATCH_NS : EMU_CM_NO_DEADLINE;
	return u->watch_at;
}
