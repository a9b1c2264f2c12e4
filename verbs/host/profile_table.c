/*
 * profile_table.c - the devices that are known by a name: data, see docs/profiles.md for where each
 * figure comes from.
 */
#include "verbs/host/profile.h"

/* What mlx5 says on Ethernet, whichever card it is */
#define MLX5                                                                             \
	"vendor_id = 0x2c9\n"                                                            \
	"pci_vendor = 0x15b3\n"                                                          \
	"max_mr_size = 0xffffffffffffffff\n"                                             \
	"page_size_cap = 0xfffffffffffff000\n"                                           \
	"max_qp_wr = 32768\n"                                                            \
	"max_inline_data = 512\n"                                                        \
	"max_sge = 30\n"                                                                 \
	"max_sge_rd = 30\n"                                                              \
	"max_cq = 16777216\n"                                                            \
	"max_cqe = 4194303\n"                                                            \
	"max_mr = 16777216\n"                                                            \
	"max_qp_rd_atom = 16\n"                                                          \
	"max_qp_init_rd_atom = 16\n"                                                     \
	"atomic_cap = 1\n"                                                               \
	"max_mw = 16777216\n"                                                            \
	"max_mcast_grp = 2097152\n"                                                      \
	"max_mcast_qp_attach = 240\n"                                                    \
	"max_total_mcast_qp_attach = 503316480\n"                                        \
	"max_ah = 2147483647\n"                                                          \
	"max_srq = 8388608\n"                                                            \
	"max_srq_wr = 32767\n"                                                           \
	"max_srq_sge = 31\n"                                                             \
	"max_pkeys = 128\n"                                                              \
	"local_ca_ack_delay = 16\n"                                                      \
	"device_cap_flags = 0x1321c36\n"                                                 \
	"max_msg_sz = 0x40000000\n"                                                      \
	"general_odp_caps = ODP IMPLICIT\n"                                              \
	"uc_odp_caps = none\n"                                                           \
	"ud_odp_caps = SEND\n"                                                           \
	"qp_types = RC UC UD XRC\n"                                                      \
	"gid_types = V1 V2\n"                                                            \
	"fault_model = rnr\n"                                                            \
	"fault_latency_us = 220\n"

#define NO_ODP                                                                           \
	"general_odp_caps = none\n"                                                      \
	"rc_odp_caps = none\n"                                                           \
	"uc_odp_caps = none\n"                                                           \
	"ud_odp_caps = none\n"                                                           \
	"xrc_odp_caps = none\n"

static const struct profile_known table[] = {
    {"rxe", "Linux's software RoCE, and what urxe has beyond it (default)", ""},
    {"connectx-5", "NVIDIA/Mellanox ConnectX-5, 100 Gb/s",
     MLX5 "fw_ver = 16.27.1016\n"
	  "vendor_part_id = 4119\n"
	  "hca_type = MT4119\n"
	  "board_id = MT_0000000080\n"
	  "max_qp = 262144\n"
	  "max_pd = 16777216\n"
	  "max_res_rd_atom = 4194304\n"
	  "rc_odp_caps = SEND RECV WRITE READ\n"
	  "xrc_odp_caps = none\n"
	  "active_width = 2\n"
	  "active_speed = 32\n"},
    {"connectx-6dx", "NVIDIA/Mellanox ConnectX-6 Dx, 100 Gb/s",
     MLX5 "fw_ver = 22.31.1014\n"
	  "vendor_part_id = 4125\n"
	  "hca_type = MT4125\n"
	  "max_qp = 131072\n"
	  "max_pd = 8388608\n"
	  "max_res_rd_atom = 2097152\n"
	  "rc_odp_caps = SEND RECV WRITE READ SRQ\n"
	  "xrc_odp_caps = SEND WRITE READ SRQ\n"
	  "active_width = 2\n"
	  "active_speed = 32\n"},
    {"connectx-7", "NVIDIA ConnectX-7, 400 Gb/s",
     MLX5 "fw_ver = 28.43.2026\n"
	  "vendor_part_id = 4129\n"
	  "hca_type = MT4129\n"
	  "max_qp = 131072\n"
	  "max_pd = 8388608\n"
	  "max_res_rd_atom = 2097152\n"
	  "rc_odp_caps = SEND RECV WRITE READ ATOMIC SRQ\n"
	  "xrc_odp_caps = SEND WRITE READ ATOMIC SRQ\n"
	  "active_width = 2\n"
	  "active_speed = 128\n"},
    {"irdma", "Intel E810, 100 Gb/s",
     NO_ODP "fw_ver = 1.74\n"
	    "vendor_id = 0x8086\n"
	    "vendor_part_id = 5522\n"
	    "hw_ver = 0x2\n"
	    "pci_vendor = 0x8086\n"
	    "max_mr_size = 0x200000000000\n"
	    "page_size_cap = 0x40201000\n"
	    "max_qp = 4092\n"
	    "max_qp_wr = 8127\n"
	    "max_inline_data = 101\n"
	    "device_cap_flags = 0x1221000\n"
	    "max_sge = 6\n"
	    "max_sge_rd = 6\n"
	    "max_cq = 8189\n"
	    "max_cqe = 1048574\n"
	    "max_mr = 4194301\n"
	    "max_pd = 262141\n"
	    "max_qp_rd_atom = 8\n"
	    "max_res_rd_atom = 0\n"
	    "max_qp_init_rd_atom = 8\n"
	    "atomic_cap = 0\n"
	    "max_mw = 4194301\n"
	    "max_mcast_grp = 4096\n"
	    "max_mcast_qp_attach = 8\n"
	    "max_total_mcast_qp_attach = 32768\n"
	    "max_ah = 131072\n"
	    "max_srq = 0\n"
	    "max_srq_wr = 0\n"
	    "max_srq_sge = 0\n"
	    "max_pkeys = 1\n"
	    "local_ca_ack_delay = 0\n"
	    "qp_types = RC UD\n"
	    "max_msg_sz = 0x7fffffff\n"
	    "active_width = 2\n"
	    "active_speed = 32\n"},
    {"bnxt_re", "Broadcom BCM57508, 100 Gb/s",
     NO_ODP "fw_ver = 231.0.154.0\n"
	    "vendor_id = 0x14e4\n"
	    "vendor_part_id = 5968\n"
	    "pci_vendor = 0x14e4\n"
	    "max_mr_size = 0x8000000000\n"
	    "page_size_cap = 0x7ffff000\n"
	    "max_qp = 65537\n"
	    "max_qp_wr = 65534\n"
	    "max_inline_data = 96\n"
	    "device_cap_flags = 0x1221c80\n"
	    "max_sge = 6\n"
	    "max_sge_rd = 6\n"
	    "max_cq = 65536\n"
	    "max_cqe = 1048575\n"
	    "max_mr = 262144\n"
	    "max_pd = 65536\n"
	    "max_qp_rd_atom = 126\n"
	    "max_res_rd_atom = 0\n"
	    "max_qp_init_rd_atom = 126\n"
	    "atomic_cap = 0\n"
	    "max_mw = 262144\n"
	    "max_mcast_grp = 0\n"
	    "max_mcast_qp_attach = 0\n"
	    "max_total_mcast_qp_attach = 0\n"
	    "max_ah = 131072\n"
	    "max_srq = 8192\n"
	    "max_srq_wr = 65535\n"
	    "max_srq_sge = 6\n"
	    "max_pkeys = 1\n"
	    "local_ca_ack_delay = 16\n"
	    "qp_types = RC UD\n"
	    "gid_types = V1 V2\n"
	    "max_msg_sz = 0x40000000\n"
	    "active_width = 2\n"
	    "active_speed = 32\n"},
    {"siw", "Linux's software iWARP: its limits, over RoCE",
     NO_ODP "vendor_id = 0x626d74\n"
	    "page_size_cap = 0x1000\n"
	    "max_qp = 102400\n"
	    "max_qp_wr = 32768\n"
	    "max_inline_data = 80\n"
	    "device_cap_flags = 0x200000\n"
	    "max_sge = 6\n"
	    "max_sge_rd = 1\n"
	    "max_cq = 102400\n"
	    "max_cqe = 3276800\n"
	    "max_mr = 1024000\n"
	    "max_pd = 102400\n"
	    "max_qp_rd_atom = 128\n"
	    "max_res_rd_atom = 13107200\n"
	    "max_qp_init_rd_atom = 128\n"
	    "local_ca_ack_delay = 0\n"
	    "atomic_cap = 0\n"
	    "max_mw = 0\n"
	    "max_mcast_grp = 0\n"
	    "max_mcast_qp_attach = 0\n"
	    "max_total_mcast_qp_attach = 0\n"
	    "max_srq = 102400\n"
	    "max_srq_wr = 327680\n"
	    "max_srq_sge = 6\n"
	    "qp_types = RC\n"},
};

const struct profile_known *profile_known(size_t i)
{
	return i < sizeof(table) / sizeof(table[0]) ? &table[i] : NULL;
}
