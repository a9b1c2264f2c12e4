/*
 * uverbs_convert.h - the attributes of <infiniband/verbs.h> in the layouts of
 * <rdma/ib_user_verbs.h>, and back. Pure functions.
 */
#ifndef URXE_VERBS_UVERBS_UVERBS_CONVERT_H
#define URXE_VERBS_UVERBS_UVERBS_CONVERT_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

void uverbs_from_device_attr(const struct ibv_device_attr_ex *attr,
			     struct ib_uverbs_query_device_resp *resp);
/* response_length is left to the caller */
void uverbs_from_device_attr_ex(const struct ibv_device_attr_ex *attr,
				struct ib_uverbs_ex_query_device_resp *resp);
void uverbs_from_port_attr(const struct ibv_port_attr *attr,
			   struct ib_uverbs_query_port_resp *resp);
void uverbs_from_qp_attr(const struct ibv_qp_attr *attr,
			 const struct ibv_qp_init_attr *init,
			 struct ib_uverbs_query_qp_resp *resp);
void uverbs_to_qp_attr(const struct ib_uverbs_modify_qp *cmd, struct ibv_qp_attr *attr);
void uverbs_to_ah_attr(const struct ib_uverbs_ah_attr *from, struct ibv_ah_attr *attr);

#endif
