/* SPDX-License-Identifier: Apache-2.0 */
/* Policies and exact ratios, inside the library. */
#ifndef CKV_LIB_POLICY_H
#define CKV_LIB_POLICY_H

#include <ckv/ckv.h>

/* In [0, 1] and within the limits of ckv_ratio. */
ckv_status ckv_ratio_check(const char *name, const ckv_ratio *ratio);

/* floor(count * ratio), at least 1 unless count or ratio is 0 (spec 2.4, 2.6);
 * count in [0, 2^22], ratio in [0, 1]. */
int64_t ckv_ratio_share(int64_t count, const ckv_ratio *ratio);

/* Copies the caller's policy, or the defaults where it is NULL, and checks each
 * field for itself; what depends on the shape is the plan's to check. */
ckv_status ckv_policy_read(ckv_policy *policy, const ckv_policy *given);

#endif
