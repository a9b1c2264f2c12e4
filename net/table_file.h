/*
 * table_file.h - the file behind the table of processes: where it is, whose, how it is
 * found, made and removed. What is in it is process_table.c's.
 *
 * Theory of operation
 *
 * All processes of a user in a network namespace must find the same file, however they
 * were started, in a directory that other users write to as well. A name that can be
 * foretold could be taken by somebody else first, and the user would be locked out. So the
 * name ends at random, and a process takes the file that has the name of its network
 * namespace and is its user's: nobody else can make one of those. Whose a file is, the
 * kernel says, in terms of the process's own user namespace.
 *
 * If there is none, it is made under a lock of the directory, so that two processes that
 * start at once do not make two. Others can keep that lock, but only for LOCK_DIR_MS.
 */
#ifndef URXE_NET_TABLE_FILE_H
#define URXE_NET_TABLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of each table, from which it is known when it is to be removed */
#define TABLE_MAGIC 0x75727832u /* "urx2" */

/*
 * table_file_open - the descriptor of this user's file for this network namespace in @dir
 * (NULL: the usual places), which is made if there is none; it has @size bytes or none yet.
 * It holds a read lock on byte @used, so that nobody removes the file. Or -errno.
 */
int table_file_open(const char *dir, size_t size, unsigned int used);

/*
 * table_file_check - 0 if the open file is this user's alone, and its length in @size, else
 * -errno: it may lie where everybody can write
 */
int table_file_check(int fd, size_t *size);

/*
 * table_file_where - one line's worth of text: the directory that table_file_open() takes,
 * and whose it is
 */
void table_file_where(const char *dir, char *text, size_t size);

/*
 * table_file_remove_stale - remove from @dir this user's files of other network
 * namespaces: those with TABLE_MAGIC that nobody uses or will (locks on bytes up to @used)
 */
void table_file_remove_stale(const char *dir, unsigned int used);

/*
 * table_file_wait_lock - lock_byte(), but wait for it: for so long only, because a process
 * may be stopped while it has the lock
 */
int table_file_wait_lock(int fd, short type, unsigned int byte);

#endif
