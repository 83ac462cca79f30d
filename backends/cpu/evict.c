/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Score, norm and select with norms only where they can matter.  What is kept is what the
 * dense pipeline keeps, bit for bit:
 *
 * Stage 2's score RN(RN(A + epsilon) * N) does not fall as N grows, so a row's rank by an
 * upper bound of its norm is at least its rank by the norm.  Select by norms where they are
 * known and by bounds elsewhere.  A row that it does not keep is none of the c best, even
 * where its bound flatters it: rows kept in its place by known norms are better than it
 * truly.  So when every row kept by stage 2 has its norm, these are the c best.  Until then
 * those that have not get theirs, and the next selection follows.  No row is worked out
 * whose bound does not reach the cut in the end, and a few rounds do.
 */
#include "evict.h"

#include <string.h>

#include "bounds.h"
#include "lib/pipeline.h"
#include "lib/sizes.h"
#include "tunables.h"

typedef struct job {
    const ckv_plan *plan;
    const ckv_tensor *attention, *norm;
    ckv_kept kept;   /* by norms and bounds; its stages [Hkv][n] */
    uint8_t *known;  /* [Hkv][n] 1: the norm, not its bound */
    int32_t *rows;   /* [Hkv][n] to work out */
    int64_t *counts; /* [Hkv] of rows */
} job;

static int lay_out(const ckv_plan *plan, char *at, job *j, size_t *total)
{
    size_t heads = (size_t)plan->kv_heads, n = (size_t)plan->tokens, cells = 0, offsets[4];
    const size_t sizes[4] = {sizeof(int64_t), sizeof(int32_t), sizeof(uint8_t), sizeof(uint8_t)};
    *total = 0;
    if (!ckv_add_product(&cells, heads, n))
        return 0;
    for (int i = 0; i < 4; i++) {
        offsets[i] = *total;
        if (!ckv_add_block(total, i == 0 ? heads : cells, sizes[i]))
            return 0;
    }
    if (at != NULL) {
        j->counts = (int64_t *)(void *)(at + offsets[0]);
        j->rows = (int32_t *)(void *)(at + offsets[1]);
        j->kept.stages = (uint8_t *)at + offsets[2];
        j->known = (uint8_t *)at + offsets[3];
    }
    return 1;
}

int ckv_cpu_skip_sizes(const ckv_plan *plan, size_t *total)
{
    size_t own;
    job j;
    return lay_out(plan, NULL, &j, &own) && ckv_add_block(total, own, 1);
}

/*
 * In multiply-adds of the norm, measured: what a row's bound takes, and its share of the
 * factor.  Bounds leave out half of the rows that they can; so they must cost less by a factor
 * that is a tunable.
 */
int ckv_cpu_skip_pays(const ckv_plan *plan)
{
    double dim = plan->value_dim, n = (double)plan->tokens;
    double norm = (double)plan->group * dim * plan->hidden;
    double bound = dim * dim + 24 * dim + 400;
    double factor = 4 * dim * dim * dim + 16 * (double)plan->group * dim * dim;
    if (plan->skip == 0 || plan->hidden == 0 || plan->value_dim == 0)
        return 0;
    return plan->parameters.value[CKV_CPU_SKIP_FACTOR] * (bound * n + factor) <
           (n - (double)ckv_plan_stage2_slots(plan)) * norm;
}

/* The rows that stage 2 keeps by their bounds. */
static void list_unknown(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    int64_t count = 0, budget = j->plan->budget;
    const int32_t *positions = j->kept.positions + g * budget;
    const uint8_t *stages = j->kept.stages + g * budget;
    uint8_t *known = j->known + g * j->plan->tokens;
    int32_t *rows = j->rows + g * j->plan->tokens;
    (void)worker;
    for (int64_t i = 0; i < budget; i++) {
        int wanted = stages[i] == CKV_KEPT_STAGE2 && known[positions[i]] == 0;
        rows[count] = positions[i];
        count += wanted;
        known[positions[i]] |= (uint8_t)wanted;
    }
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
    int ranks = ckv_plan_stage2_slots(plan) > 0;
    uint32_t flags;
    size_t own;
    lay_out(plan, workspace, &j, &own);
    j.kept.positions = kept->positions; /* the last selection's stay there */
    j.kept.offsets = kept->offsets;
    workspace = (char *)workspace + own;
    *exact_norms = 0;
    flags = ckv_cpu_bound_norms(plan, value, projection, ranks ? norm : NULL, scale, workspace);
    if (ranks) {
        int64_t unknown;
        memset(j.known, 0, (size_t)plan->kv_heads * (size_t)plan->tokens);
        do {
            ckv_cpu_select(plan, attention, norm, &j.kept, workspace);
            ckv_cpu_for_each(plan->context, plan->kv_heads, list_unknown, &j);
            unknown = total(&j);
            *exact_norms += unknown;
            if (unknown > 0)
                ckv_cpu_norm_of(plan, value, projection, norm, j.rows, j.counts, workspace);
        } while (unknown > 0);
    } else { /* no norm is looked at */
        memset(norm->data, 0, (size_t)plan->kv_heads * (size_t)plan->tokens * sizeof(float));
        ckv_cpu_select(plan, attention, norm, &j.kept, workspace);
    }
    if (kept->stages != NULL)
        memcpy(kept->stages, j.kept.stages, (size_t)plan->kv_heads * (size_t)plan->budget);
    return flags;
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
