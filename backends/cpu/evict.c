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
 * those that have not get another part of theirs, the norms of some of the group's query
 * heads, which lowers the bound, and the next selection follows.  Nothing is worked out
 * of a row whose bound does not reach the cut in the end.
 */
#include "evict.h"

#include <string.h>

#include "bounds.h"
#include "lib/pipeline.h"
#include "lib/sizes.h"
#include "tunables.h"

typedef struct job {
    const ckv_plan *plan;
    ckv_kept kept;       /* by norms and bounds; its stages [Hkv][n] */
    ckv_cpu_lists lists; /* of this round */
    uint8_t *known;      /* [Hkv][n] parts of the norm */
    uint8_t *idle;       /* [Hkv] 1: its kept set is settled */
    int32_t *rows;       /* what the lists point to */
    int64_t *starts;
    void *bounds, *rest; /* workspaces: of the bounds, of the stages */
} job;

static size_t bounds_size(const ckv_plan *plan)
{
    ckv_cpu_sizes sizes;
    size_t workers = (size_t)plan->context->threads, total;
    if (!ckv_cpu_bound_sizes(plan, &sizes))
        return 0;
    total = sizes.shared;
    return ckv_add_product(&total, sizes.worker, workers < sizes.items ? workers : sizes.items) ? total : 0;
}

static int lay_out(const ckv_plan *plan, char *at, job *j, size_t *total)
{
    size_t heads = (size_t)plan->kv_heads, n = (size_t)plan->tokens, cells = 0, bounds = bounds_size(plan);
    int32_t parts = ckv_cpu_bound_parts(plan);
    void *part[7];
    *total = 0;
    if (bounds == 0 || !ckv_add_product(&cells, heads, n))
        return 0;
    const struct {
        size_t count, size;
    } sizes[7] = {{heads * (size_t)(parts + 1), sizeof(int64_t)},
                  {cells, sizeof(int32_t)},
                  {cells, sizeof(float)},
                  {cells, sizeof(uint8_t)},
                  {cells, sizeof(uint8_t)},
                  {heads, sizeof(uint8_t)},
                  {bounds, 1}};
    for (int i = 0; i < 7; i++) {
        part[i] = at == NULL ? NULL : at + *total;
        if (!ckv_add_block(total, sizes[i].count, sizes[i].size))
            return 0;
    }
    j->starts = part[0];
    j->rows = part[1];
    j->lists = (ckv_cpu_lists){parts, part[1], part[0], part[2]};
    j->kept.stages = part[3];
    j->known = part[4];
    j->idle = part[5];
    j->bounds = part[6];
    j->rest = at == NULL ? NULL : at + *total;
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
 * factors.  Bounds leave out half of the rows that they can; so they must cost less by a
 * factor that is a tunable.
 */
int ckv_cpu_skip_pays(const ckv_plan *plan)
{
    double dim = plan->value_dim, n = (double)plan->tokens;
    double norm = (double)plan->group * dim * plan->hidden;
    double factors = 4 * dim * dim * dim * ckv_cpu_bound_parts(plan) + 16 * (double)plan->group * dim * dim;
    if (plan->skip == 0 || plan->hidden == 0 || plan->value_dim == 0)
        return 0;
    return plan->parameters.value[CKV_CPU_SKIP_FACTOR] * (ckv_cpu_bound_cost(plan) * n + factors) <
           (n - (double)ckv_plan_stage2_slots(plan)) * norm;
}

/* The rows that stage 2 keeps by their bounds, by the part that they lack first. */
static void list_unknown(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    int64_t count = 0, budget = j->plan->budget;
    const int32_t *positions = j->kept.positions + g * budget;
    const uint8_t *stages = j->kept.stages + g * budget;
    uint8_t *known = j->known + g * j->plan->tokens;
    int32_t *rows = j->rows + g * j->plan->tokens, parts = j->lists.parts;
    int64_t *starts = j->starts + g * (parts + 1);
    (void)worker;
    for (int32_t part = 0; part < parts; part++) {
        starts[part] = count;
        for (int64_t i = 0; i < budget && j->idle[g] == 0; i++) {
            rows[count] = positions[i];
            count += stages[i] == CKV_KEPT_STAGE2 && known[positions[i]] == part;
        }
    }
    starts[parts] = count;
    for (int64_t i = 0; i < count; i++)
        known[rows[i]]++;
    j->idle[g] = count == 0;
}

/* Query heads of all rows listed. */
static int64_t heads_listed(const job *j)
{
    int64_t sum = 0;
    int32_t parts = j->lists.parts;
    for (int64_t g = 0; g < j->plan->kv_heads; g++)
        for (int32_t part = 0; part < parts; part++) {
            const int64_t *starts = j->starts + g * (parts + 1) + part;
            sum += (starts[1] - starts[0]) *
                   (ckv_cpu_part_start(j->plan, parts, part + 1) - ckv_cpu_part_start(j->plan, parts, part));
        }
    return sum;
}

uint32_t ckv_cpu_select_skipping(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *value,
                                 const ckv_projection *projection, const ckv_tensor *norm, double scale,
                                 const ckv_kept *kept, void *workspace, int64_t *exact_norms)
{
    job j = {.plan = plan};
    int ranks = ckv_plan_stage2_slots(plan) > 0;
    int64_t heads = 0, listed = 0;
    uint32_t flags;
    size_t own;
    lay_out(plan, workspace, &j, &own);
    j.kept.positions = kept->positions; /* the last selection's stay there */
    j.kept.offsets = kept->offsets;
    flags = ckv_cpu_bound_norms(plan, value, projection, ranks ? norm : NULL, scale, j.bounds);
    memset(j.idle, 0, (size_t)plan->kv_heads);
    if (ranks) {
        memset(j.known, 0, (size_t)plan->kv_heads * (size_t)plan->tokens);
        do {
            ckv_cpu_select_some(plan, attention, norm, &j.kept, j.idle, j.rest);
            ckv_cpu_for_each(plan->context, plan->kv_heads, list_unknown, &j);
            listed = heads_listed(&j);
            heads += listed;
            if (listed > 0) {
                ckv_cpu_norm_of(plan, value, projection, norm, &j.lists, j.rest);
                ckv_cpu_bound_rest(plan, value, norm, scale, &j.lists, j.bounds);
            }
        } while (listed > 0);
    } else { /* no norm is looked at */
        memset(norm->data, 0, (size_t)plan->kv_heads * (size_t)plan->tokens * sizeof(float));
        ckv_cpu_select(plan, attention, norm, &j.kept, j.rest);
    }
    *exact_norms = (heads + plan->group - 1) / plan->group;
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
