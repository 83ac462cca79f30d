/* SPDX-License-Identifier: Apache-2.0 */
/* Attention that each key receives from the window (spec 4). */
#include <math.h>

#include "lib/numeric.h"
#include "lib/sizes.h"
#include "ref.h"

/* Three rows of n floats: one query's weights, one head's mean, the group's sum. */
size_t ckv_ref_score_workspace(const ckv_plan *plan)
{
    size_t total = 0;
    return ckv_add_block(&total, 3 * sizeof(float), (size_t)plan->tokens) ? total : 0;
}

/* Spec 4.3 */
float ckv_ref_exp(float x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    float t = fmaf(x, 0x1.715476p0f, round);
    float n = t - round;
    float rh = fmaf(n, -0x1.62e4p-1f, x);
    float rl = n * -0x1.7f7d1cp-20f;
    float r = rh + rl;
    float p = 0x1.6a243ap-10f;
    p = fmaf(p, r, 0x1.1239ep-7f);
    p = fmaf(p, r, 0x1.5558f2p-5f);
    p = fmaf(p, r, 0x1.555492p-3f);
    p = fmaf(p, r, 0x1.fffffcp-2f);
    p = fmaf(p, r * r, rl);
    float s = 1.0f + rh;
    float c = rh - (s - 1.0f);
    float y = s + (c + p);
    return ckv_float(ckv_bits(y) + (ckv_bits(t) << 23));
}

/* Spec 4.1 and 4.2: the logit of one query and one key. */
static float logit(const ckv_plan *plan, const ckv_tensor *query, int64_t head, int64_t row, const ckv_tensor *key,
                   int64_t kv_head, int64_t token)
{
    float sum = 0.0f;
    for (int64_t c = 0; c < plan->head_dim; c++) {
        float q = ckv_load_f32(ckv_at(query, head, row, c), query->dtype);
        float k = ckv_load_f32(ckv_at(key, kv_head, token, c), key->dtype);
        float qs = ckv_is_nan_bits(ckv_bits(q)) ? 0.0f : ckv_sanitize(q * plan->scale);
        sum = fmaf(qs, ckv_sanitize(k), sum);
    }
    return sum;
}

/* Spec 4.3 and 4.4 for one query: its weights e in place of its logits, 0 from
 * `visible` on; returns r_q. */
static float softmax_row(const ckv_plan *plan, float *row, int64_t visible)
{
    float greatest = row[0];
    int64_t denominator = 0;
    for (int64_t i = 1; i < visible; i++)
        if (row[i] > greatest)
            greatest = row[i];
    for (int64_t i = 0; i < visible; i++) {
        float x = row[i] - greatest;
        if (x < -60.0f)
            row[i] = 0.0f;
        else if (x > -0x1p-26f)
            row[i] = 1.0f;
        else
            row[i] = ckv_ref_exp(x);
        denominator += ckv_rne(row[i], 40);
    }
    for (int64_t i = visible; i < plan->tokens; i++)
        row[i] = 0.0f;
    return ckv_inverse(denominator) * plan->window_inverse;
}

/* Spec 4.5: pools the prefix of one head's means and adds it to the group's sum. */
static void add_pooled(const ckv_plan *plan, const float *mean, float *sum)
{
    int64_t prefix = plan->tokens - plan->window;
    int64_t left = plan->pool_width / 2, right = plan->pool_width - 1 - left;
    for (int64_t i = 0; i < prefix; i++) {
        int64_t first = i < left ? 0 : i - left;
        int64_t last = prefix - 1 - i < right ? prefix - 1 : i + right;
        float pooled = mean[i];
        if (plan->pool == CKV_POOL_MAX) {
            for (int64_t j = first; j <= last; j++)
                if (mean[j] > pooled)
                    pooled = mean[j];
        } else if (plan->pool == CKV_POOL_AVERAGE) {
            pooled = 0.0f;
            for (int64_t j = first; j <= last; j++)
                pooled = pooled + mean[j];
            pooled = pooled * plan->pool_inverse;
        }
        sum[i] = sum[i] + pooled;
    }
}

static uint32_t any_nonfinite(const ckv_tensor *view, int64_t heads, int64_t first, int64_t end, int64_t width)
{
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = first; i < end; i++)
            for (int64_t c = 0; c < width; c++)
                if (ckv_is_nonfinite_bits(ckv_load_bits(ckv_at(view, h, i, c), view->dtype)))
                    return 1;
    return 0;
}

uint32_t ckv_ref_score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                       const ckv_tensor *attention, void *workspace)
{
    int64_t n = plan->tokens, w = plan->window, first_query = plan->queries - w;
    float *row = workspace, *mean = row + n, *sum = mean + n;
    for (int64_t g = 0; g < plan->kv_heads; g++) {
        for (int64_t i = 0; i < n; i++)
            sum[i] = 0.0f;
        for (int64_t h = g * plan->group; h < (g + 1) * plan->group; h++) {
            for (int64_t i = 0; i < n; i++)
                mean[i] = 0.0f;
            for (int64_t q = 0; q < w; q++) {
                int64_t visible = n - w + q + 1;
                for (int64_t i = 0; i < visible; i++)
                    row[i] = logit(plan, query, h, first_query + q, key, g, i);
                float r = softmax_row(plan, row, visible);
                for (int64_t i = 0; i < n; i++)
                    mean[i] = fmaf(row[i], r, mean[i]);
            }
            add_pooled(plan, mean, sum);
        }
        for (int64_t i = 0; i < n; i++)
            ckv_ref_set(attention, g, i, sum[i] * plan->group_inverse);
    }
    return (any_nonfinite(query, plan->query_heads, first_query, plan->queries, plan->head_dim) ? CKV_NONFINITE_QUERY
                                                                                                : 0u) |
           (any_nonfinite(key, plan->kv_heads, 0, n, plan->head_dim) ? CKV_NONFINITE_KEY : 0u);
}
