/* mesh_kill.c - which process is killed, and when. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mesh.h"

#define ROCE_PORT 0x12b7

/* Inodes of the sockets of this network namespace that are bound to ROCE_PORT */
static int roce_sockets(const char *file, unsigned long *inode, int n, int max)
{
	char line[512];
	FILE *f = fopen(file, "r");
	unsigned int port;

	while (f && n < max && fgets(line, sizeof(line), f))
		if (sscanf(line, " %*d: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %*s %*s %lu",
			   &port, &inode[n]) == 2 &&
		    port == ROCE_PORT)
			n++;
	if (f)
		fclose(f);
	return n;
}

static bool has_socket(pid_t pid, const unsigned long *inode, int n)
{
	char dir[64], path[400], link[64], want[64];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", pid);
	d = opendir(dir);
	while (d && !found && (e = readdir(d))) {
		ssize_t len;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		len = readlink(path, link, sizeof(link) - 1);
		link[len > 0 ? len : 0] = '\0';
		for (int i = 0; i < n; i++) {
			snprintf(want, sizeof(want), "socket:[%lu]", inode[i]);
			found |= !strcmp(link, want);
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* The process to kill: the switch of an address, else any that lives */
static int victim(const pid_t *pid, bool *is_switch)
{
	unsigned long inode[16];
	int n = roce_sockets("/proc/net/udp", inode, 0, 16), any = -1;

	n = roce_sockets("/proc/net/udp6", inode, n, 16);
	*is_switch = true;
	for (int i = 0; i < opt.count; i++) {
		if (sh->who[opt.base + i].dying)
			continue;
		if (has_socket(pid[i], inode, n))
			return i;
		any = i;
	}
	*is_switch = false;
	return any;
}

void kill_some(const pid_t *pid)
{
	int switches = 0;

	while (sh->begun < opt.n && !late())
		nap(5);
	for (int k = 0; k < opt.kills && !late(); k++) {
		bool is_switch;
		int i;

		nap(300);
		/* on a busy machine it takes a while until another one has the port */
		for (int n = 0; n < 12; n++) {
			i = victim(pid, &is_switch);
			if (i < 0 || is_switch)
				break;
			nap(100);
		}
		if (i < 0)
			break;
		switches += is_switch;
		sh->who[opt.base + i].dying = 1;
		if (opt.how == BY_KILL)
			kill(pid[i], SIGKILL);
	}
	/* after the last one the others go on for a while */
	nap(500);
	sh->kills -= opt.kills;
	if (opt.kills)
		printf("%d of %d had UDP port 4791\n", switches, opt.kills);
}
