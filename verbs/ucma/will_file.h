/*
 * will_file.h - the file of a will: an array of entries, for will.c and will_execute.c
 * only.
 */
#ifndef URXE_VERBS_UCMA_WILL_FILE_H
#define URXE_VERBS_UCMA_WILL_FILE_H

#include <stdint.h>

#include "emu/cm_mad.h"
#include "net/path.h"

#define WILL_PREFIX "will."
#define WILL_BELL   ".wills" /* a FIFO: a byte says that there is a will */
#define WILL_VALID  0x77696c6c

/*
 * struct will_entry - one message
 * @valid: WILL_VALID, or 0: none; in front, so that it can be written alone
 */
struct will_entry {
	uint32_t valid;
	struct net_path path;
	uint8_t mad[CM_MAD_LEN];
};

#endif
