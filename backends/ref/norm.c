/* SPDX-License-Identifier: Apache-2.0 */
/* L1 norm of each value row after the output projection (spec 5). */
#include <stdlib.h>

#include "lib/numeric.h"
#include "lib/sizes.h"
#include "ref.h"

#define Q_MAX 32639 /* 127 * 256 + 127: what two signed limbs of 8 bits can hold (spec 5.2) */

/* One row's q_k, and its T_j. */
size_t ckv_ref_norm_workspace(const ckv_plan *plan)
{
    size_t total = 0;
    if (!ckv_add_block(&total, sizeof(int32_t), (size_t)plan->value_dim) ||
        !ckv_add_block(&total, sizeof(int32_t), (size_t)plan->hidden))
        return 0;
    return total + CKV_WORKSPACE_ALIGNMENT; /* never 0, also for a plan that does not use the stage */
}

static float value_at(const ckv_tensor *value, int64_t head, int64_t token, int64_t channel)
{
    return ckv_sanitize(ckv_load_f32(ckv_at(value, head, token, channel), value->dtype));
}

/* Spec 5.2 with the row exponent given; 0 if some |q_k| is beyond Q_MAX. */
static int quantize_row(const ckv_tensor *value, int64_t kv_head, int64_t token, const ckv_projection *p, int64_t head,
                        int row_exponent, int32_t *q)
{
    const int16_t *exponents = p->exponents + head * p->value_dim;
    for (int32_t k = 0; k < p->value_dim; k++) {
        if (exponents[k] == CKV_CHANNEL_DROPPED)
            q[k] = 0;
        else
            q[k] = (int32_t)ckv_rne(value_at(value, kv_head, token, k), p->value_bits - row_exponent + exponents[k]);
        if (abs(q[k]) > Q_MAX)
            return 0;
    }
    return 1;
}

/* Spec 5.2 and 5.3: ||V_i W_h||_1 for one row and one query head. */
static float head_norm(const ckv_tensor *value, int64_t kv_head, int64_t token, const ckv_projection *p, int64_t head,
                       int32_t *q, int32_t *t)
{
    const int16_t *exponents = p->exponents + head * p->value_dim;
    const int16_t *weights = p->weights + head * p->value_dim * p->hidden;
    const uint8_t *shifts = p->shifts + head * p->hidden;
    int row_exponent = INT16_MIN;
    int64_t sum = 0;
    for (int32_t k = 0; k < p->value_dim; k++) {
        float v = value_at(value, kv_head, token, k);
        if (v != 0.0f && exponents[k] != CKV_CHANNEL_DROPPED && ckv_exponent(v) + exponents[k] > row_exponent)
            row_exponent = ckv_exponent(v) + exponents[k];
    }
    if (row_exponent == INT16_MIN)
        return 0.0f;
    if (!quantize_row(value, kv_head, token, p, head, row_exponent, q)) {
        row_exponent++;
        quantize_row(value, kv_head, token, p, head, row_exponent, q);
    }
    for (int32_t j = 0; j < p->hidden; j++)
        t[j] = 0;
    for (int32_t k = 0; k < p->value_dim; k++)
        for (int32_t j = 0; j < p->hidden; j++)
            t[j] += q[k] * weights[(int64_t)k * p->hidden + j];
    for (int32_t j = 0; j < p->hidden; j++)
        sum += (int64_t)abs(t[j]) << shifts[j];
    return ckv_scale((float)sum, row_exponent - p->value_bits + p->bases[head]);
}

uint32_t ckv_ref_norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                      const ckv_tensor *norm, void *workspace)
{
    int32_t *q = workspace, *t = q + plan->value_dim;
    uint32_t flags = 0;
    for (int64_t g = 0; g < plan->kv_heads; g++)
        for (int64_t i = 0; i < plan->tokens; i++) {
            float sum = 0.0f;
            for (int64_t h = g * plan->group; h < (g + 1) * plan->group; h++)
                sum = sum + head_norm(value, g, i, projection, h, q, t);
            float mean = sum * plan->group_inverse;
            ckv_ref_set(norm, g, i, mean < 0x1p-100f ? 0.0f : mean); /* spec 5.4 */
            for (int64_t k = 0; k < plan->value_dim; k++)
                if (ckv_is_nonfinite_bits(ckv_load_bits(ckv_at(value, g, i, k), value->dtype)))
                    flags = CKV_NONFINITE_VALUE;
        }
    return flags;
}
