/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a checked shape and policy with every derived number, frozen. */
#ifndef CKV_LIB_PLAN_H
#define CKV_LIB_PLAN_H

#include "context.h"

struct ckv_plan {
    const ckv_context *context;
    const struct ckv_backend *backend;
    int32_t device;
    size_t workspace; /* of the backend, before slack for the caller's alignment */

    int64_t tokens;  /* n */
    int64_t queries; /* rows of the query tensor */
    int64_t window;  /* w */
    int32_t query_heads, kv_heads, group;
    int32_t head_dim, value_dim, hidden;

    int64_t budget;     /* b, at most n */
    int64_t stage1;     /* spec 2.6 */
    int64_t forced;     /* entries kept by force: min(recent + sinks, n, b) */
    int64_t recent;     /* at most n */
    int64_t sinks;      /* at most n - recent */
    ckv_pool pool;      /* none where the width is 1 */
    int32_t pool_width; /* 1 where the pool is none */
    int32_t skip;       /* norms that cannot matter may be left out */
    float epsilon, scale;
    float window_inverse; /* RN(1/w), 0 where nothing is scored */
    float group_inverse;  /* RN(1/G) */
    float pool_inverse;   /* RN(1/width) */

    ckv_parameters parameters; /* of every scope; a projection's own may be other ones */
};

/* Entries of a head that stage 2 keeps. */
static inline int64_t ckv_plan_stage2_slots(const ckv_plan *plan)
{
    return plan->budget - (plan->stage1 > plan->forced ? plan->stage1 : plan->forced);
}

/* What force leaves to both stages: positions [*low, *high), and 0 or more of them (spec 6.2). */
static inline void ckv_plan_candidates(const ckv_plan *plan, int64_t *low, int64_t *high)
{
    int64_t recent = plan->recent < plan->budget ? plan->recent : plan->budget;
    *low = plan->forced - recent;
    *high = plan->tokens - recent;
}

/* Budgets of all tokens or of none need no ranking (spec 2.4). */
static inline int ckv_plan_is_trivial(const ckv_plan *plan)
{
    return plan->budget == 0 || plan->budget == plan->tokens;
}

#endif
