/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: defaults and the range of each field (spec 2). */
#include "policy.h"

#include <stddef.h>
#include <string.h>

#include "numeric.h"
#include "status.h"

#define SCALE_MAX 0x1p40f
#define SCALE_MIN 0x1p-40f
#define EPSILON_MIN 0x1p-24f

void ckv_policy_init(ckv_policy *policy)
{
    if (policy == NULL)
        return;
    memset(policy, 0, sizeof *policy);
    policy->struct_size = sizeof *policy;
    policy->budget = -1;
    policy->keep = (ckv_ratio){2, 5};
    policy->alpha = (ckv_ratio){1, 2};
    policy->epsilon = 1e-4f;
    policy->window = 32;
    policy->recent = -1;
    policy->pool = CKV_POOL_MAX;
    policy->pool_width = 7;
    policy->skip = 1;
}

static ckv_status at_least(const char *name, int64_t value, int64_t least)
{
    if (value >= least)
        return CKV_OK;
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "policy: %s %lld, wanted at least %lld", name, (long long)value,
                    (long long)least);
}

static ckv_status check_numbers(const ckv_policy *policy)
{
    /* Written so that NaN fails. */
    if (!(policy->epsilon >= EPSILON_MIN && policy->epsilon <= 1.0f))
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "policy: epsilon %g, wanted a number in [2^-24, 1]",
                        (double)policy->epsilon);
    /* By its bits: with denormals-are-zero a subnormal equals 0. */
    if ((ckv_bits(policy->scale) & ~CKV_SIGN_BIT) != 0 && !(policy->scale >= SCALE_MIN && policy->scale <= SCALE_MAX))
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT,
                        "policy: scale %g, wanted 0 (for 1/sqrt(head_dim)) or a number in "
                        "[2^-40, 2^40]",
                        (double)policy->scale);
    if (policy->pool != CKV_POOL_NONE && policy->pool != CKV_POOL_MAX && policy->pool != CKV_POOL_AVERAGE)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "policy: pool %d, wanted a CKV_POOL_ value", (int)policy->pool);
    if (policy->skip != 0 && policy->skip != 1)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "policy: skip %d, wanted 0 or 1", (int)policy->skip);
    return CKV_OK;
}

ckv_status ckv_policy_read(ckv_policy *policy, const ckv_policy *given)
{
    ckv_status status;
    ckv_policy_init(policy);
    if (given == NULL)
        return CKV_OK;
    status = ckv_struct_read(policy, sizeof *policy, offsetof(ckv_policy, pool_width) + sizeof policy->pool_width,
                             given, "policy");
    if (status == CKV_OK)
        status = at_least("budget", policy->budget, -1);
    if (status == CKV_OK && policy->budget < 0)
        status = ckv_ratio_check("policy: keep", &policy->keep);
    if (status == CKV_OK)
        status = ckv_ratio_check("policy: alpha", &policy->alpha);
    if (status == CKV_OK)
        status = check_numbers(policy);
    if (status == CKV_OK)
        status = at_least("window", policy->window, 0);
    if (status == CKV_OK)
        status = at_least("recent", policy->recent, -1);
    if (status == CKV_OK)
        status = at_least("sinks", policy->sinks, 0);
    if (status == CKV_OK)
        status = at_least("pool_width", policy->pool_width, 1);
    return status;
}
