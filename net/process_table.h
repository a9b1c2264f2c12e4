/*
 * process_table.h - what the processes of one user in one network namespace know of each other.
 *
 * A file that all of them map: who is there, at which UDP port, with which QPNs, and who
 * claims which key. It knows no sockets and no packets.
 *
 * Theory of operation
 *
 * A process is known by its slot. It holds a slot as long as it holds the write lock of
 * an open file description (fcntl F_OFD_SETLK) on the byte of that slot: the kernel gives
 * the lock back when the process dies, in whatever way, so nothing has to be cleaned up
 * and nothing said by an entry is believed unless its byte is locked. A QPN is slot:10,
 * index:14, so each process makes QPNs without asking, and everybody sees from a QPN
 * whose it is. Slot 0 is never given, which keeps QPN 0 and 1 free for what IBTA reserves
 * them for. Slots are handed out in turn, so that the QPNs of a process that just died
 * are not met again soon.
 *
 * Liveness costs a system call, so it is remembered for TABLE_TRUST_NS. Meanwhile a
 * packet may go to the port of a process that is gone; the transport's retransmission
 * covers that, as it covers a packet that was lost on a wire.
 *
 * All entries are written by other processes of the same user: values are taken as
 * numbers within bounds, never as anything that memory safety depends on.
 */
#ifndef URXE_NET_PROCESS_TABLE_H
#define URXE_NET_PROCESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table;

#define TABLE_SLOTS	 1024 /* slot 0 is not used */
#define TABLE_SLOT_SHIFT 14
#define TABLE_SLOT_QPNS	 (1 << TABLE_SLOT_SHIFT)
#define TABLE_TRUST_NS	 100000000ull
#define TABLE_EMPTIED_NS 1000000ull

/* table_open - map the file in @dir, made if it is not there. 0 or -errno */
int table_open(const char *dir, struct table **out);
/* table_memory - the mapping of the file, which others may shorten */
void *table_memory(const struct table *t, size_t *len);
/* table_close - give all slots back */
void table_close(struct table *t);
/* table_abandon - in a forked child: let go of what still is the parent's */
void table_abandon(struct table *t);

/*
 * table_remove_stale - remove what this user's processes in other network namespaces left
 * in @dir and nobody uses any more
 */
void table_remove_stale(const char *dir);

/*
 * table_lease - take a slot and publish @port with it. The slot, or -EAGAIN: none is free
 */
int table_lease(struct table *t, uint16_t port);
bool table_is_own(const struct table *t, unsigned int slot);

/*
 * table_port - the UDP port of the process that holds @slot; 0: nobody. @now: ns, any
 * clock
 */
uint16_t table_port(struct table *t, unsigned int slot, uint64_t now);

/*
 * table_emptied - this process had read all packets that were sent to it before @now, ns of
 * CLOCK_MONOTONIC; told to the others at most once in TABLE_EMPTIED_NS
 */
void table_emptied(struct table *t, uint64_t now);
/*
 * table_emptied_at - until when the process that holds @slot, below TABLE_SLOTS, had read all, as
 * far as it has told
 */
uint64_t table_emptied_at(const struct table *t, unsigned int slot, uint64_t now);
/* table_pid - its process; 0: nobody */
int table_pid(struct table *t, unsigned int slot, uint64_t now);

/* table_generation - changes when @slot, below TABLE_SLOTS, is leased anew */
uint32_t table_generation(const struct table *t, unsigned int slot);

/* The registry: see net_registry_claim() and so on in port.h */
int table_claim(struct table *t, uint64_t key, bool exclusive);
int table_release(struct table *t, uint64_t key);
int table_find(struct table *t, uint64_t key, uint64_t now, unsigned int *slot);

#endif
