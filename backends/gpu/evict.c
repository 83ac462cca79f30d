/* SPDX-License-Identifier: Apache-2.0 */
/* The whole pipeline as its stages in turn. */
#include "gpu.h"

/* [Hkv, n] F32 in the workspace. */
static ckv_tensor scores(const ckv_gpu_call *call, int64_t offset)
{
    ckv_tensor view;
    ckv_tensor_init_2d(&view, CKV_F32, (void *)(intptr_t)offset, call->plan->kv_heads, call->plan->tokens);
    view.buffer = call->workspace;
    return view;
}

void ckv_gpu_evict(ckv_gpu_call *call, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                   const ckv_projection *projection, const ckv_kept *kept)
{
    ckv_tensor attention = scores(call, call->params.at_attention), norm = scores(call, call->params.at_norm);
    ckv_gpu_score(call, query, key, &attention);
    ckv_gpu_norm(call, value, projection, &norm);
    ckv_gpu_select(call, &attention, &norm, kept);
}
