/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the score (kernels/score.h). */
#include "tunables.h"

static int64_t pieces(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

void ckv_gpu_score(ckv_gpu_call *call, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *attention)
{
    ckv_params *p = &call->params;
    const int32_t *value = call->plan->parameters.value, keys = value[CKV_GPU_SCORE_KEYS];
    const int32_t attend_keys = value[CKV_GPU_ATTEND_KEYS];
    int64_t rows = (int64_t)p->query_heads * p->window, tiles = pieces((int64_t)p->group * p->window, SCORE_ROWS);
    void *q[] = {ckv_gpu_base(query), call->workspace}, *k[] = {ckv_gpu_base(key), call->workspace};
    void *a[] = {ckv_gpu_base(attention), call->workspace};
    p->query = ckv_gpu_view(query);
    p->key = ckv_gpu_view(key);
    p->attention = ckv_gpu_view(attention);
    ckv_gpu_run(call, CKV_GPU_ckv_scale_query, pieces(rows * p->head_dim, REDUCE_GROUP), 1, q);
    ckv_gpu_run(call, ckv_gpu_variant(CKV_GPU_ckv_row_max_64, CKV_GPU_SCORE_KEYS, keys), p->chunks, p->kv_heads * tiles,
                k);
    ckv_gpu_run(call, CKV_GPU_ckv_row_greatest, pieces(rows, REDUCE_GROUP), 1, &call->workspace);
    ckv_gpu_run(call, ckv_gpu_variant(CKV_GPU_ckv_row_sum_64, CKV_GPU_SCORE_KEYS, keys), p->chunks, p->kv_heads * tiles,
                k);
    ckv_gpu_run(call, CKV_GPU_ckv_row_factor, pieces(rows, REDUCE_GROUP), 1, &call->workspace);
    for (p->wave_first = 0; p->wave_first < p->group; p->wave_first += p->wave) {
        ckv_gpu_run(call, ckv_gpu_variant(CKV_GPU_ckv_attend_64, CKV_GPU_ATTEND_KEYS, attend_keys),
                    pieces(p->tokens, attend_keys), (int64_t)p->kv_heads * p->wave, k);
        ckv_gpu_run(call, CKV_GPU_ckv_pool, pieces(p->tokens, REDUCE_GROUP), p->kv_heads, a);
    }
}
