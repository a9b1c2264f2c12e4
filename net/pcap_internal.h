/*
 * pcap_internal.h - the layout of a capture, and who uses it (pcap.c, pcap_sort.c only).
 */
#ifndef URXE_NET_PCAP_INTERNAL_H
#define URXE_NET_PCAP_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* draft-ietf-opsawg-pcap, with nanoseconds */
struct pcap_file {
	uint32_t magic;
	uint16_t major, minor;
	int32_t zone;
	uint32_t sigfigs, snaplen, linktype;
};

struct pcap_record {
	uint32_t sec, nsec, caplen, len;
};

/*
 * Bytes that are locked: of who writes the header of the file, and, to read, of all that write
 * packets. Where the file system has no locks, or for a pipe, there is none to wait for.
 */
enum { PCAP_BYTE_HEADER, PCAP_BYTE_IN_USE };

/* Is the file, of @size bytes, a capture that pcap_packet() wrote? */
bool pcap_is_ours(int fd, off_t size);

#endif
