/*
 * live.h - the programs of the user that run, read again and again.
 */
#ifndef URXE_TOOLS_LIVE_H
#define URXE_TOOLS_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * struct live - private to live.c; live_new(): the processes with ids @pid, or all if @n is 0. They
 * record everything into @watch bytes while they are looked at, if that is not 0. NULL: no memory
 */
struct live;
struct live *live_new(const long *pid, int n, uint64_t watch);
void live_free(struct live *l);
/*
 * live_look - look for programs that are new and for what the others have recorded since. What
 * went before it stays. 0 or -ENOMEM
 */
int live_look(struct live *l);
/* How many programs were seen */
int live_programs(const struct live *l);
/*
 * live_json - what there is beyond block @from, as one JSON object: {"about": ..., "first": the
 * number of the first block, "next": the number to ask for, "blocks": [...]}
 */
void live_json(struct live *l, unsigned long from, FILE *out);

#endif
