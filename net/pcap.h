/*
 * pcap.h - write packets to a file that Wireshark and tshark decode as RoCEv2.
 *
 * Makes Ethernet, IP and UDP headers, with right lengths and checksums, and destination
 * port ROCE_UDP_PORT also for packets that went to the port of a process. Several
 * processes may write to one file: each record is appended whole, and the order is put right
 * when the last of them has ended.
 */
#ifndef URXE_NET_PCAP_H
#define URXE_NET_PCAP_H

#include <stdint.h>

#include "net/path.h"

struct pcap;

/*
 * pcap_renew - empty @file, a capture of an earlier run, unless somebody writes to it now
 *
 * 0 or -errno; -EEXIST: it is something else, which is left alone.
 */
int pcap_renew(const char *file);

/*
 * pcap_open - begin to write to @file, at its end if it is a capture of this kind
 *
 * 0 or -errno; -EEXIST: it is something else, which is left alone.
 */
int pcap_open(const char *file, struct pcap **out);
void pcap_close(struct pcap *pc);
/* pcap_abandon - in a forked child: forget what the parent will write */
void pcap_abandon(struct pcap *pc);

/*
 * pcap_packet - @data, @len: BTH to ICRC; @ip_id: the identification that the ICRC was
 * made with
 */
void pcap_packet(struct pcap *pc, const struct net_path *path, uint16_t ip_id,
		 const uint8_t *data, uint32_t len);

/*
 * pcap_sort - put the packets of @file into the order of time, if it is a capture to which nobody
 * writes now. 0 or -errno: it could not be done, and the file is as it was
 */
int pcap_sort(const char *file);

/* pcap_error - why the capture ended before its time, told once: -errno; 0: it did not */
int pcap_error(struct pcap *pc);
/* pcap_flush - write out what was kept. True if there was something. */
bool pcap_flush(struct pcap *pc);

#endif
