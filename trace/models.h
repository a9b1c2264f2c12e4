/*
 * models.h - the fault models, each in one line: X(ID, name, what the responder does while a page is
 * missing, what the requester does while it has no place for a response, what it is).
 *
 * Enumerations, names of options, scripts and records, and the behaviour in emu/ (responder_faults.c,
 * completer.c) are made from the list. The numbers are also those of enum urxe_fault_model: new ones come
 * at the end. What the two columns mean is in odp/odp.h; longer in docs/odp.md.
 */
#ifndef URXE_TRACE_MODELS_H
#define URXE_TRACE_MODELS_H

/* clang-format off */
#define TRACE_MODELS(X) \
	X(SYNC, "sync", HOLDS, WAITS, "at once, nobody notices but for the time") \
	X(RNR, "rnr", NAKS, WAITS, "the responder answers RNR NAK meanwhile, the requester waits") \
	X(DROP, "drop", DROPS, WAITS, "the responder drops the packet") \
	X(DAMMING, "damming", GOES_DEAF, LOSES, "as DROP, and what else comes on that QP meanwhile is lost, too") \
	X(FLOOD, "flood", NAKS_SOON, ASKS_AGAIN, "the requester re-sends over and over until it is resolved")
/* clang-format on */

#endif
