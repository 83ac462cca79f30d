/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace of a plan on the device, and the params that do not change. */
#include <string.h>

#include "gpu.h"
#include "lib/sizes.h"
#include "tunables.h"

/* Keys of one work-group of the row statistics: whole tiles. */
static int32_t chunk_of(const ckv_plan *plan)
{
    const int32_t keys = plan->parameters.value[CKV_GPU_SCORE_KEYS];
    const int32_t chunk = plan->parameters.value[CKV_GPU_SCORE_CHUNK];
    return chunk < keys ? keys : chunk / keys * keys;
}

/* The params hold offsets as i64, so that 2^62 is the end. */
static int add(int64_t *at, size_t *total, size_t a, size_t b, size_t size)
{
    size_t bytes = 0;
    *at = (int64_t)*total;
    return ckv_add_product(&bytes, a, b) && ckv_add_block(total, bytes, size) && *total < (size_t)1 << 62;
}

size_t ckv_gpu_lay_out(const ckv_plan *plan, ckv_params *p)
{
    size_t kv_heads = (size_t)plan->kv_heads, n = (size_t)plan->tokens, rows = (size_t)plan->window, total = 0;
    int fits = ckv_add_product(&total, 1, CKV_WORKSPACE_ALIGNMENT); /* the flags word */
    rows *= (size_t)plan->query_heads;                              /* below 2^17 * 2^31 */
    memset(p, 0, sizeof *p);
    p->tokens = plan->tokens;
    p->budget = plan->budget;
    p->stage1 = plan->stage1;
    ckv_plan_candidates(plan, &p->low, &p->high);
    p->first_query = plan->queries - plan->window;
    p->query_heads = plan->query_heads;
    p->kv_heads = plan->kv_heads;
    p->group = plan->group;
    p->window = (i32)plan->window;
    p->head_dim = plan->head_dim;
    p->value_dim = plan->value_dim;
    p->chunk = chunk_of(plan);
    p->chunks = (i32)((plan->tokens + p->chunk - 1) / p->chunk);
    p->wave = plan->parameters.value[CKV_GPU_SCORE_WAVE];
    p->wave = plan->group < p->wave ? plan->group : p->wave;
    p->pool = (i32)plan->pool;
    p->pool_width = plan->pool_width;
    p->scale = plan->scale;
    p->epsilon = plan->epsilon;
    p->window_inverse = plan->window_inverse;
    p->group_inverse = plan->group_inverse;
    p->pool_inverse = plan->pool_inverse;
    p->form_slack = (float)(2 * (2 * plan->value_dim + plan->group + 8)) * 0x1p-24f; /* kernels/bound.h */
    p->bound_slack = 1.0f + (float)(plan->group + 64) * 0x1p-22f;
    fits &= add(&p->at_query, &total, rows, (size_t)plan->head_dim, sizeof(float));
    fits &= add(&p->at_partial, &total, rows, (size_t)p->chunks, sizeof(int64_t));
    fits &= add(&p->at_greatest, &total, rows, 1, sizeof(float));
    fits &= add(&p->at_factor, &total, rows, 1, sizeof(float));
    fits &= add(&p->at_heads, &total, kv_heads * (size_t)p->wave, n, sizeof(float));
    fits &= add(&p->at_attention, &total, kv_heads, n, sizeof(float));
    fits &= add(&p->at_norm, &total, kv_heads, n, sizeof(float));
    fits &= add(&p->at_bound, &total, kv_heads, n, sizeof(float));
    fits &= add(&p->at_taken, &total, kv_heads, n, 1);
    fits &= add(&p->at_list, &total, kv_heads, n, sizeof(int32_t));
    fits &= add(&p->at_count, &total, kv_heads, 1, sizeof(int32_t));
    fits &= add(&p->at_matrix, &total, kv_heads * (size_t)plan->value_dim, (size_t)plan->value_dim, sizeof(float));
    fits &= add(&p->at_totals, &total, kv_heads, 2, sizeof(float));
    return fits ? total : 0;
}
