/*
 * verbs_exp.h - the experimental verbs of MLNX_OFED 4.x for on-demand paging, for
 * programs that were written for them.
 *
 * Names, values and layouts are those of MLNX_OFED 4.6 on LP64. The functions are in
 * liburxe.so (link with -lurxe); OFED has them as inline functions over a layout of
 * struct verbs_context that only its own libibverbs makes, so programs must be compiled
 * against this header. Programs that include <infiniband/verbs.h> alone, as OFED permits,
 * can be compiled with
 * `-include infiniband/verbs_exp.h`.
 *
 * Only what on-demand paging needs is here: an MR is deregistered with ibv_dereg_mr(3),
 * and capabilities of hardware that urxe does not emulate are never reported.
 *
 * On a device that is not emulated by urxe all functions fail with ENOSYS.
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where experimental values begin in enumerations and in sets of flags */
enum ibv_exp_start_values {
	IBV_EXP_START_ENUM = 0x40,
	IBV_EXP_START_FLAG_LOC = 0x20,
	IBV_EXP_START_FLAG = 1ULL << IBV_EXP_START_FLAG_LOC,
};

#define IBV_EXP_IMPLICIT_MR_SIZE (~((size_t)0))

/* --- queue pairs ------------------------------------------------------------------ */

/*
 * The attributes of ibv_modify_qp(3) under the names that experimental verbs have for them, for
 * either call
 */
enum ibv_exp_qp_attr_mask {
	IBV_EXP_QP_STATE = IBV_QP_STATE,
	IBV_EXP_QP_CUR_STATE = IBV_QP_CUR_STATE,
	IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	IBV_EXP_QP_ACCESS_FLAGS = IBV_QP_ACCESS_FLAGS,
	IBV_EXP_QP_PKEY_INDEX = IBV_QP_PKEY_INDEX,
	IBV_EXP_QP_PORT = IBV_QP_PORT,
	IBV_EXP_QP_QKEY = IBV_QP_QKEY,
	IBV_EXP_QP_AV = IBV_QP_AV,
	IBV_EXP_QP_PATH_MTU = IBV_QP_PATH_MTU,
	IBV_EXP_QP_TIMEOUT = IBV_QP_TIMEOUT,
	IBV_EXP_QP_RETRY_CNT = IBV_QP_RETRY_CNT,
	IBV_EXP_QP_RNR_RETRY = IBV_QP_RNR_RETRY,
	IBV_EXP_QP_RQ_PSN = IBV_QP_RQ_PSN,
	IBV_EXP_QP_MAX_QP_RD_ATOMIC = IBV_QP_MAX_QP_RD_ATOMIC,
	IBV_EXP_QP_ALT_PATH = IBV_QP_ALT_PATH,
	IBV_EXP_QP_MIN_RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	IBV_EXP_QP_SQ_PSN = IBV_QP_SQ_PSN,
	IBV_EXP_QP_MAX_DEST_RD_ATOMIC = IBV_QP_MAX_DEST_RD_ATOMIC,
	IBV_EXP_QP_PATH_MIG_STATE = IBV_QP_PATH_MIG_STATE,
	IBV_EXP_QP_CAP = IBV_QP_CAP,
	IBV_EXP_QP_DEST_QPN = IBV_QP_DEST_QPN,
};

/*
 * struct ibv_exp_qp_attr - up to @alt_timeout the members of struct ibv_qp_attr
 * @dct_key, @flow_entropy, @rate_limit: of hardware that is not emulated
 * @comp_mask:	0
 */
struct ibv_exp_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint64_t dct_key;
	uint32_t comp_mask;
	uint32_t flow_entropy;
	uint32_t rate_limit;
};

/*
 * ibv_exp_modify_qp - as ibv_modify_qp(3). 0, or: ENOSYS not a device of urxe; EINVAL attributes
 * that only OFED has, comp_mask not 0; and what ibv_modify_qp(3) has.
 */
int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
		      uint64_t exp_attr_mask);

/* ibv_exp_qp_init_attr.comp_mask: members that are set */
enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_INL_RECV = 1 << 3,
};

/*
 * struct ibv_exp_qp_init_attr - up to @sq_sig_all the members of struct ibv_qp_init_attr
 * @comp_mask:	enum ibv_exp_qp_init_attr_comp_mask; @pd must be among them
 * @xrcd:	not here: use ibv_create_qp_ex(3)
 * @exp_create_flags: 0
 * @max_inl_recv: on return 0, the device does not scatter to completions
 */
struct ibv_exp_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags;
	uint32_t max_inl_recv;
};

/*
 * ibv_exp_create_qp - as ibv_create_qp(3), on the PD that @attr names. The QP, or NULL with errno:
 * ENOSYS not a device of urxe; EINVAL no PD; EOPNOTSUPP what only OFED has.
 */
struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
				 struct ibv_exp_qp_init_attr *attr);

/* --- registration ----------------------------------------------------------------- */

/* ibv_exp_reg_mr_in.exp_access; the flags of ibv_reg_mr(3) may be used as well */
enum ibv_exp_access_flags {
	IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,

	IBV_EXP_ACCESS_ALLOCATE_MR = IBV_EXP_START_FLAG << 5,
	IBV_EXP_ACCESS_SHARED_MR_USER_READ = IBV_EXP_START_FLAG << 6,
	IBV_EXP_ACCESS_SHARED_MR_USER_WRITE = IBV_EXP_START_FLAG << 7,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_READ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE = IBV_EXP_START_FLAG << 9,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_READ = IBV_EXP_START_FLAG << 10,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE = IBV_EXP_START_FLAG << 11,
	IBV_EXP_ACCESS_NO_RDMA = IBV_EXP_START_FLAG << 12,
	IBV_EXP_ACCESS_MW_ZERO_BASED = IBV_EXP_START_FLAG << 13,
	IBV_EXP_ACCESS_ON_DEMAND = IBV_EXP_START_FLAG << 14,
	IBV_EXP_ACCESS_RELAXED = IBV_EXP_START_FLAG << 15,
	IBV_EXP_ACCESS_PHYSICAL_ADDR = IBV_EXP_START_FLAG << 16,
	IBV_EXP_ACCESS_TUNNELED_ATOMIC = IBV_EXP_START_FLAG << 17,
	IBV_EXP_ACCESS_RESERVED = IBV_EXP_START_FLAG << 18,
};

/* ibv_exp_reg_mr_in.comp_mask */
enum ibv_exp_reg_mr_in_comp_mask {
	IBV_EXP_REG_MR_CREATE_FLAGS = 1 << 0,
	IBV_EXP_REG_MR_DM = 1 << 1,
	IBV_EXP_REG_MR_RESERVED = 1 << 2,
};

/* ibv_exp_reg_mr_in.create_flags */
enum ibv_exp_reg_mr_create_flags {
	IBV_EXP_REG_MR_CREATE_CONTIG = 1 << 0,
};

struct ibv_exp_dm;

/*
 * struct ibv_exp_reg_mr_in
 * @pd:		protection domain
 * @addr, @length: memory; NULL and IBV_EXP_IMPLICIT_MR_SIZE with
 *		IBV_EXP_ACCESS_ON_DEMAND: the whole address space
 * @exp_access:	enum ibv_exp_access_flags, enum ibv_access_flags
 * @comp_mask:	which of the following members are set
 * @create_flags: enum ibv_exp_reg_mr_create_flags
 * @dm:		device memory
 */
struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t exp_access;
	uint32_t comp_mask;
	uint32_t create_flags;
	struct ibv_exp_dm *dm;
};

/*
 * ibv_exp_reg_mr - register memory; see ibv_exp_reg_mr(3)
 *
 * The MR, or NULL with errno: ENOSYS not a device of urxe; EINVAL unknown bits in
 * comp_mask or exp_access; EOPNOTSUPP allocation by the device, shared MRs, physical
 * addresses, device memory; and what ibv_reg_mr(3) has.
 */
struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in);

/* --- prefetch --------------------------------------------------------------------- */

enum ibv_exp_prefetch_flags {
	IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0,
};

enum ibv_exp_prefetch_attr_comp_mask {
	IBV_EXP_PREFETCH_MR_RESERVED = 1 << 0,
};

/*
 * struct ibv_exp_prefetch_attr
 * @flags:	enum ibv_exp_prefetch_flags
 * @addr, @length: the range, in the process' address space
 * @comp_mask:	0
 */
struct ibv_exp_prefetch_attr {
	uint32_t flags;
	void *addr;
	size_t length;
	uint32_t comp_mask;
};

/*
 * ibv_exp_prefetch_mr - have pages of an on-demand MR in the device's page table; see
 * ibv_exp_prefetch_mr(3)
 *
 * 0, or: ENOSYS not a device of urxe; EFAULT the range is out of the MR's bounds, or
 * parts of it are not in the address space; EINVAL the MR is invalid or not on-demand,
 * write access asked for where the MR has none, unknown flags, comp_mask not 0.
 */
int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr);

/* --- capabilities ----------------------------------------------------------------- */

enum ibv_exp_atomic_cap {
	IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
	IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
	IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
	IBV_EXP_ATOMIC_HCA_REPLY_BE = IBV_EXP_START_ENUM,
};

/* ibv_exp_device_attr.exp_device_cap_flags, beside those of enum ibv_device_cap_flags */
enum ibv_exp_device_cap_flags {
	IBV_EXP_DEVICE_DC_TRANSPORT = IBV_EXP_START_FLAG << 0,
	IBV_EXP_DEVICE_EXT_ATOMICS = IBV_EXP_START_FLAG << 4,
	IBV_EXP_DEVICE_UMR = IBV_EXP_START_FLAG << 6,
	IBV_EXP_DEVICE_ODP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_DEVICE_MEM_WINDOW = IBV_EXP_START_FLAG << 17,
	IBV_EXP_DEVICE_MW_TYPE_2A = IBV_EXP_START_FLAG << 23,
	IBV_EXP_DEVICE_MW_TYPE_2B = IBV_EXP_START_FLAG << 24,
	IBV_EXP_DEVICE_MR_ALLOCATE = IBV_EXP_START_FLAG << 30,
	IBV_EXP_DEVICE_SHARED_MR = IBV_EXP_START_FLAG << 31,
};

/* ibv_exp_device_attr.comp_mask: members that are asked for, and those that were set */
enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 3,
	IBV_EXP_DEVICE_ATTR_ODP = 1 << 10,
	IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE = 1 << 26,
	IBV_EXP_DEVICE_ATTR_COMP_MASK_2 = (int)(1u << 31),
};
/*
 * Programs ask for all that there is by comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1, and
 * comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1, of which nothing is ever set here.
 */
#define IBV_EXP_DEVICE_ATTR_RESERVED   (1u << 31)
#define IBV_EXP_DEVICE_ATTR_RESERVED_2 (1u << 0)

enum ibv_odp_general_cap_bits {
	IBV_EXP_ODP_SUPPORT = 1 << 0,
	IBV_EXP_ODP_SUPPORT_IMPLICIT = 1 << 1,
};

enum ibv_exp_odp_transport_cap_bits {
	IBV_EXP_ODP_SUPPORT_SEND = 1 << 0,
	IBV_EXP_ODP_SUPPORT_RECV = 1 << 1,
	IBV_EXP_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_EXP_ODP_SUPPORT_READ = 1 << 3,
	IBV_EXP_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_EXP_ODP_SUPPORT_SRQ_RECV = 1 << 5,
};

struct ibv_exp_odp_caps {
	uint64_t general_odp_caps;
	struct {
		uint32_t rc_odp_caps;
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
		uint32_t dc_odp_caps;
		uint32_t xrc_odp_caps;
		uint32_t raw_eth_odp_caps;
	} per_transport_caps;
};

/*
 * struct ibv_exp_device_attr - up to @comp_mask the members of struct ibv_device_attr
 * @comp_mask:		enum ibv_exp_device_attr_comp_mask
 * @exp_device_cap_flags: enum ibv_exp_device_cap_flags, enum ibv_device_cap_flags
 * @odp_caps:		on-demand paging
 * @odp_mr_max_size:	bytes of the largest on-demand MR
 * @comp_mask_2:	further members, all reserved here
 *
 * The reserved parts hold capabilities of hardware that is not emulated; they are set to
 * zero.
 */
struct ibv_exp_device_attr {
	char fw_ver[64];
	uint64_t node_guid;
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	int reserved;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
	uint32_t comp_mask;
	uint64_t reserved_calc[5];
	uint64_t reserved_clock[2];
	uint64_t exp_device_cap_flags;
	uint64_t reserved_transport[6];
	struct ibv_exp_odp_caps odp_caps;
	uint64_t reserved_offloads[19];
	uint64_t odp_mr_max_size;
	uint64_t reserved_matching[5];
	uint32_t comp_mask_2;
	uint32_t reserved_end[5];
};

/*
 * ibv_exp_query_device - capabilities; see ibv_exp_query_device(3)
 * @attr: comp_mask says what is asked for. Bits that are unknown are tolerated, so that
 *		all ones may be given; on return it says what there is.
 *
 * 0, or: ENOSYS not a device of urxe; EFAULT @attr is not writable memory.
 */
int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
