/*
 * limits.h - what a device says of itself and holds to: the figures that differ from card to card.
 *
 * One list. struct emu_limits, its values for rdma_rxe, what the emulation can do at most, and the
 * names in files of profiles (verbs/host/profile.c) are made from it. Knows no profile.
 */
#ifndef URXE_EMU_LIMITS_H
#define URXE_EMU_LIMITS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* rdma/ib_user_verbs.h, Linux 6.2 */
#define EMU_CAP_FLUSH_GLOBAL	     (1ULL << 38)
#define EMU_CAP_FLUSH_PERSISTENT     (1ULL << 39)
#define EMU_CAP_ATOMIC_WRITE	     (1ULL << 40)
#define EMU_ODP_SUPPORT_FLUSH	     (1u << 6)
#define EMU_ODP_SUPPORT_ATOMIC_WRITE (1u << 7)

/* What a work request may have: SGEs, or bytes of inline data */
#define EMU_MAX_SGE    32
#define EMU_MAX_INLINE 512

#define EMU_CAPS_RXE                                                                     \
	(IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |                           \
	 IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CHANGE_PHY_PORT |                         \
	 IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_PORT_ACTIVE_EVENT |                  \
	 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | \
	 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS |                         \
	 IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC | EMU_CAP_FLUSH_GLOBAL |         \
	 EMU_CAP_FLUSH_PERSISTENT | EMU_CAP_ATOMIC_WRITE)
#define EMU_CAPS_MOST (EMU_CAPS_RXE | IBV_DEVICE_CURR_QP_STATE_MOD)

#define EMU_ODP_WRITE (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE)
#define EMU_ODP_ASK   (EMU_ODP_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC)
#define EMU_ODP_RECV  (IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define EMU_ODP_RC                                                                       \
	(EMU_ODP_ASK | EMU_ODP_RECV | EMU_ODP_SUPPORT_FLUSH |                            \
	 EMU_ODP_SUPPORT_ATOMIC_WRITE)

/* The types of QPs that there are, as bits */
#define EMU_TYPE(type) (1u << (type))
#define EMU_TYPES_XRC  (EMU_TYPE(IBV_QPT_XRC_SEND) | EMU_TYPE(IBV_QPT_XRC_RECV))
#define EMU_TYPES                                                                        \
	(EMU_TYPE(IBV_QPT_RC) | EMU_TYPE(IBV_QPT_UC) | EMU_TYPE(IBV_QPT_UD) |            \
	 EMU_TYPES_XRC)

/* The types of GIDs: RoCE v2 always, and v1 beside it */
#define EMU_GID_V1 1u
#define EMU_GID_V2 2u

/*
 * X(name, kind, rxe, least, most): the name that ibv_devinfo(1) has for it if it shows it; what kind
 * of text it is in files; its value for rxe; bounds, of which those of BITS, ODP, GENERAL, TYPES and
 * GIDS are the bits that must be there, and all bits that there are. rdma_rxe's are those of Linux 7.2 (rxe_param.h). Beyond it: XRC,
 * and ODP for all transports. max_cqe is mlx5's, since libfabric asks for more than rxe's 32767.
 */
#define EMU_LIMITS(X)                                                                    \
	X(vendor_id, HEX, 0xffffff, 0, 0xffffff) /* IBTA A3.3.1: none */                 \
	X(vendor_part_id, NUMBER, 0, 0, UINT32_MAX)                                      \
	X(hw_ver, HEX, 0, 0, UINT32_MAX)                                                 \
	X(pci_vendor, HEX, 0xffff, 0, 0xffff)                                            \
	X(max_mr_size, HEX, UINT64_MAX, 4096, UINT64_MAX)                                \
	X(page_size_cap, HEX, 0xfffff000, 4096, UINT64_MAX)                              \
	X(max_qp, NUMBER, 1048560, 1, 1048560)                                           \
	X(max_qp_wr, NUMBER, 1048576, 1, 1048576)                                        \
	X(max_inline_data, NUMBER, EMU_MAX_INLINE, 0, EMU_MAX_INLINE)                    \
	X(device_cap_flags, BITS, EMU_CAPS_RXE, 0, EMU_CAPS_MOST)                        \
	X(max_sge, NUMBER, EMU_MAX_SGE, 1, EMU_MAX_SGE)                                  \
	X(max_sge_rd, NUMBER, EMU_MAX_SGE, 1, EMU_MAX_SGE)                               \
	X(max_cq, NUMBER, 1048576, 1, 1 << 24)                                           \
	X(max_cqe, NUMBER, 4194303, 1, 4194303)                                          \
	X(max_mr, NUMBER, 524287, 1, 1 << 24)                                            \
	X(max_pd, NUMBER, 1048576, 1, 1 << 24)                                           \
	X(max_qp_rd_atom, NUMBER, 128, 0, 128)                                           \
	X(max_res_rd_atom, NUMBER, 0x3f000, 0, INT32_MAX)                                \
	X(max_qp_init_rd_atom, NUMBER, 128, 0, 128)                                      \
	X(atomic_cap, NUMBER, IBV_ATOMIC_HCA, IBV_ATOMIC_NONE, IBV_ATOMIC_GLOB)          \
	X(max_mw, NUMBER, 524287, 0, 1 << 24)                                            \
	X(max_mcast_grp, NUMBER, 8192, 0, 1 << 21)                                       \
	X(max_mcast_qp_attach, NUMBER, 56, 0, 4096)                                      \
	X(max_total_mcast_qp_attach, NUMBER, 0x70000, 0, INT32_MAX)                      \
	X(max_ah, NUMBER, 32767, 1, INT32_MAX)                                           \
	X(max_srq, NUMBER, 917503, 0, 1 << 24)                                           \
	X(max_srq_wr, NUMBER, 1048576, 0, 1048576)                                       \
	X(max_srq_sge, NUMBER, 27, 0, EMU_MAX_SGE)                                       \
	X(max_pkeys, NUMBER, 64, 1, UINT16_MAX)                                          \
	X(local_ca_ack_delay, NUMBER, 15, 0, 31)                                         \
	X(general_odp_caps, GENERAL, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT, 0,      \
	  IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT)                                    \
	X(rc_odp_caps, ODP, EMU_ODP_RC, 0, EMU_ODP_RC)                                   \
	X(uc_odp_caps, ODP, EMU_ODP_WRITE | EMU_ODP_RECV, 0,                             \
	  EMU_ODP_WRITE | EMU_ODP_RECV)                                                  \
	X(ud_odp_caps, ODP, IBV_ODP_SUPPORT_SEND | EMU_ODP_RECV, 0,                      \
	  IBV_ODP_SUPPORT_SEND | EMU_ODP_RECV)                                           \
	X(xrc_odp_caps, ODP, EMU_ODP_ASK | IBV_ODP_SUPPORT_SRQ_RECV, 0,                  \
	  EMU_ODP_ASK | IBV_ODP_SUPPORT_SRQ_RECV)                                        \
	X(qp_types, TYPES, EMU_TYPES, 0, EMU_TYPES)                                      \
	X(gid_types, GIDS, EMU_GID_V2, EMU_GID_V2, EMU_GID_V1 | EMU_GID_V2)              \
	X(max_msg_sz, HEX, 1u << 31, 1, 1u << 31)                                        \
	X(active_width, NUMBER, 1, 1, 16)  /* enum ib_port_width: 1X */                  \
	X(active_speed, NUMBER, 1, 1, 128) /* enum ib_port_speed: SDR */

#define EMU_FW_VER_RXE "0.0.0"

/*
 * struct emu_limits
 * @fw_ver:	of the firmware, as text
 * The others by the names of verbs and ibv_devinfo(1). @pci_vendor: 0xffff for a device that is not
 * on PCI; @max_msg_sz, @active_width, @active_speed: of the port; @qp_types: EMU_TYPE() of each; @gid_types: of each
 * address, see emu_limits_v1()
 */
#define EMU_LIMIT_MEMBER(name, kind, rxe, least, most) uint64_t name;
struct emu_limits {
	char fw_ver[64];
	EMU_LIMITS(EMU_LIMIT_MEMBER)
};
#undef EMU_LIMIT_MEMBER

#define EMU_LIMIT_RXE(name, kind, rxe, least, most) .name = (rxe),
#define EMU_LIMITS_RXE                                                                   \
	((struct emu_limits){.fw_ver = EMU_FW_VER_RXE, EMU_LIMITS(EMU_LIMIT_RXE)})

/* emu_limits_gid_step - how many entries of the GID table an address has */
static inline unsigned int emu_limits_gid_step(const struct emu_limits *l)
{
	return l->gid_types & EMU_GID_V1 ? 2 : 1;
}

/*
 * emu_limits_v1 - is entry @index of the GID table RoCE v1? Where there are both types each address
 * is there twice, v1 at an even index and v2 behind it. What is sent is RoCE v2 either way.
 */
static inline bool emu_limits_v1(const struct emu_limits *l, unsigned int index)
{
	return l->gid_types & EMU_GID_V1 && index % 2 == 0;
}

#endif
