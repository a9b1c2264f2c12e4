/*
 * rank.h - which of the processes that mpirun, srun or the like have started this one is. They
 * say it in the environment, each in its own word.
 */
#ifndef URXE_BASE_RANK_H
#define URXE_BASE_RANK_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RANK_LEN 12

/* rank_text - the rank as text, or NULL where there is none, or it is no number */
static inline const char *rank_text(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
					    "PMIX_RANK", "SLURM_PROCID"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *text = getenv(names[i]);
		size_t n = text ? strlen(text) : 0;

		if (n && n < RANK_LEN && strspn(text, "0123456789") == n)
			return text;
	}
	return NULL;
}

#endif
