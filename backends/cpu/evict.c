/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Score, norm and select with norms only where they can matter.  What is kept is what the
 * dense pipeline keeps, bit for bit:
 *
 * Stage 2 has c slots.  Its score RN(RN(A + epsilon) * N) does not fall as N grows, so a
 * row's rank by an upper bound of its norm is at least its rank by the norm.
 *   1. The c candidates that are best by their bounds get their norms.  Let tau be the least
 *      of their ranks: c candidates rank tau or better.
 *   2. Of the others, those whose rank by the bound is tau or better get their norms too;
 *      ties are among them.
 *   3. The rest rank below tau even by their bounds, and so below c candidates: none of them
 *      is kept, by the norm or by the bound in its place.
 * Then select does what it always does.
 */
#include "evict.h"

#include <string.h>

#include "bounds.h"
#include "lib/pipeline.h"
#include "lib/sizes.h"

typedef struct job {
    const ckv_plan *plan;
    const ckv_tensor *attention, *norm;
    uint8_t *stages; /* [Hkv][n] by the bounds */
    int32_t *rows;   /* [Hkv][n] to work out */
    int64_t *counts; /* [Hkv] of rows */
} job;

static int lay_out(const ckv_plan *plan, char *at, job *j, size_t *total)
{
    size_t heads = (size_t)plan->kv_heads, n = (size_t)plan->tokens, cells = 0, offsets[3];
    const size_t sizes[3] = {sizeof(int64_t), sizeof(int32_t), sizeof(uint8_t)};
    *total = 0;
    if (!ckv_add_product(&cells, heads, n))
        return 0;
    for (int i = 0; i < 3; i++) {
        offsets[i] = *total;
        if (!ckv_add_block(total, i == 0 ? heads : cells, sizes[i]))
            return 0;
    }
    if (at != NULL) {
        j->counts = (int64_t *)(void *)(at + offsets[0]);
        j->rows = (int32_t *)(void *)(at + offsets[1]);
        j->stages = (uint8_t *)at + offsets[2];
    }
    return 1;
}

int ckv_cpu_skip_sizes(const ckv_plan *plan, size_t *total)
{
    size_t own;
    job j;
    return lay_out(plan, NULL, &j, &own) && ckv_add_block(total, own, 1);
}

static int64_t stage2_slots(const ckv_plan *plan)
{
    return plan->budget - (plan->stage1 > plan->forced ? plan->stage1 : plan->forced);
}

/*
 * In multiply-adds of the norm, measured: what a row's bound takes, and its share of the
 * factor.  Bounds leave out half of the rows that they can; so they must cost far less.
 */
int ckv_cpu_skip_pays(const ckv_plan *plan)
{
    double dim = plan->value_dim, n = (double)plan->tokens;
    double norm = (double)plan->group * dim * plan->hidden;
    double bound = dim * dim + 24 * dim + 400;
    double factor = 4 * dim * dim * dim + 16 * (double)plan->group * dim * dim;
    if (plan->skip == 0 || plan->hidden == 0 || plan->value_dim == 0)
        return 0;
    return 4 * (bound * n + factor) < (n - (double)stage2_slots(plan)) * norm;
}

static float get(const ckv_tensor *view, int64_t g, int64_t i)
{
    float x;
    memcpy(&x, ckv_at(view, g, i, 0), sizeof x);
    return x;
}

static uint32_t rank_of(const job *j, int64_t g, int64_t i)
{
    return ckv_cpu_stage2_rank(get(j->attention, g, i), get(j->norm, g, i), j->plan->epsilon);
}

/* Step 1's rows. */
static void list_best(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    const uint8_t *stages = j->stages + g * j->plan->tokens;
    int32_t *rows = j->rows + g * j->plan->tokens;
    int64_t count = 0;
    (void)worker;
    for (int64_t i = 0; i < j->plan->tokens; i++) {
        rows[count] = (int32_t)i;
        count += stages[i] == CKV_KEPT_STAGE2;
    }
    j->counts[g] = count;
}

/* Step 2's rows. */
static void list_close(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    const uint8_t *stages = j->stages + g * j->plan->tokens;
    int32_t *rows = j->rows + g * j->plan->tokens;
    uint32_t tau = UINT32_MAX;
    int64_t count = 0;
    (void)worker;
    for (int64_t i = 0; i < j->counts[g]; i++) {
        uint32_t rank = rank_of(j, g, rows[i]);
        tau = rank < tau ? rank : tau;
    }
    for (int64_t i = 0; i < j->plan->tokens; i++)
        if (stages[i] == CKV_CPU_NOT_KEPT && rank_of(j, g, i) >= tau)
            rows[count++] = (int32_t)i;
    j->counts[g] = count;
}

static int64_t total(const job *j)
{
    int64_t sum = 0;
    for (int64_t g = 0; g < j->plan->kv_heads; g++)
        sum += j->counts[g];
    return sum;
}

uint32_t ckv_cpu_select_skipping(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *value,
                                 const ckv_projection *projection, const ckv_tensor *norm, double scale,
                                 const ckv_kept *kept, void *workspace, int64_t *exact_norms)
{
    job j = {.plan = plan, .attention = attention, .norm = norm};
    int ranks = stage2_slots(plan) > 0;
    uint32_t flags;
    size_t own;
    lay_out(plan, workspace, &j, &own);
    workspace = (char *)workspace + own;
    *exact_norms = 0;
    flags = ckv_cpu_bound_norms(plan, value, projection, ranks ? norm : NULL, scale, workspace);
    if (ranks) {
        ckv_cpu_select_stages(plan, attention, norm, j.stages, workspace);
        ckv_cpu_for_each(plan->context, plan->kv_heads, list_best, &j);
        *exact_norms += total(&j);
        ckv_cpu_norm_of(plan, value, projection, norm, j.rows, j.counts, workspace);
        ckv_cpu_for_each(plan->context, plan->kv_heads, list_close, &j);
        *exact_norms += total(&j);
        ckv_cpu_norm_of(plan, value, projection, norm, j.rows, j.counts, workspace);
    } else { /* no norm is looked at */
        memset(norm->data, 0, (size_t)plan->kv_heads * (size_t)plan->tokens * sizeof(float));
    }
    return flags | ckv_cpu_select(plan, attention, norm, kept, workspace);
}

uint32_t ckv_cpu_evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                       const ckv_projection *projection, const ckv_kept *kept, void *workspace, int64_t *exact_norms)
{
    ckv_tensor attention, norm;
    uint32_t flags;
    if (!ckv_cpu_skip_pays(plan))
        return ckv_pipeline_evict(plan, query, key, value, projection, kept, workspace, exact_norms);
    workspace = ckv_pipeline_scores(plan, workspace, &attention, &norm);
    flags = ckv_cpu_score(plan, query, key, &attention, workspace);
    return flags |
           ckv_cpu_select_skipping(plan, &attention, value, projection, &norm, 1.0, kept, workspace, exact_norms);
}
