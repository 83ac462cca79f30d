/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Score, norm and selection; norms that cannot change what is kept are left out.
 *
 * A selection by upper bounds of the norms names as many rows as stage 2 has slots.
 * Their exact norms give a rank that the cut cannot be below, and only rows whose bound
 * reaches it get exact norms too; the rest rank as if their norm were 0.
 */
#include "tunables.h"

/* [Hkv, n] F32 in the workspace. */
static ckv_tensor scores(const ckv_gpu_call *call, int64_t offset)
{
    ckv_tensor view;
    ckv_tensor_init_2d(&view, CKV_F32, (void *)(intptr_t)offset, call->plan->kv_heads, call->plan->tokens);
    view.buffer = call->workspace;
    return view;
}

/* The bound costs as much as dv outputs would; what it leaves is at least the slots. */
int ckv_gpu_skips(const ckv_plan *plan)
{
    int64_t candidates = plan->tokens - plan->forced;
    return plan->skip && (int64_t)plan->hidden * plan->group >= 16 * (int64_t)plan->value_dim &&
           ckv_plan_stage2_slots(plan) > 0 && ckv_plan_stage2_slots(plan) * 2 <= candidates;
}

static void find_bounds(ckv_gpu_call *call, const ckv_tensor *value, const ckv_projection *projection)
{
    const ckv_gpu_projection *packed = projection->packed;
    ckv_params *p = &call->params;
    const int32_t rows = call->plan->parameters.value[CKV_GPU_BOUND_ROWS];
    int64_t cells = (int64_t)p->value_dim * p->value_dim;
    void *matrix[] = {packed->memory.base, call->workspace};
    void *bound[] = {ckv_gpu_base(value), packed->memory.base, call->workspace};
    p->at_squares = packed->memory.offset + packed->squares;
    p->at_sizes = packed->memory.offset + packed->sizes;
    p->at_exponents = packed->memory.offset + packed->exponents;
    p->at_bases = packed->memory.offset + packed->bases;
    p->value = ckv_gpu_view(value);
    ckv_gpu_run(call, CKV_GPU_ckv_bound_matrix, (cells + BOUND_GROUP - 1) / BOUND_GROUP, p->kv_heads, matrix);
    ckv_gpu_run(call, ckv_gpu_variant(CKV_GPU_ckv_bound_4, CKV_GPU_BOUND_ROWS, rows), (p->tokens + rows - 1) / rows,
                p->kv_heads, bound);
}

void ckv_gpu_evict_score(ckv_gpu_call *call, const ckv_tensor *query, const ckv_tensor *key)
{
    ckv_tensor attention = scores(call, call->params.at_attention);
    ckv_gpu_score(call, query, key, &attention);
}

void ckv_gpu_evict_rest(ckv_gpu_call *call, const ckv_tensor *value, const ckv_projection *projection,
                        const ckv_kept *kept)
{
    ckv_tensor attention = scores(call, call->params.at_attention), norm = scores(call, call->params.at_norm);
    ckv_tensor bound = scores(call, call->params.at_bound);
    if (!ckv_gpu_skips(call->plan)) {
        ckv_gpu_norm(call, value, projection, &norm, 0);
        ckv_gpu_select(call, &attention, &norm, kept);
        return;
    }
    find_bounds(call, value, projection);
    ckv_gpu_select(call, &attention, &bound, kept);
    ckv_gpu_run(call, CKV_GPU_ckv_list_best, call->plan->kv_heads, 1, &call->workspace);
    ckv_gpu_norm(call, value, projection, &norm, 1);
    ckv_gpu_run(call, CKV_GPU_ckv_list_rest, call->plan->kv_heads, 1, &call->workspace);
    ckv_gpu_norm(call, value, projection, &norm, 1);
    ckv_gpu_select(call, &attention, &norm, kept);
}
