/* SPDX-License-Identifier: Apache-2.0 */
/* The whole pipeline as its stages in turn. */
#include "pipeline.h"

#include "sizes.h"

static int add_scores(const ckv_plan *plan, size_t *total)
{
    size_t cells = 0;
    return ckv_add_product(&cells, (size_t)plan->kv_heads, (size_t)plan->tokens) &&
           ckv_add_block(total, cells, sizeof(float));
}

size_t ckv_pipeline_workspace(const ckv_plan *plan, size_t stage)
{
    size_t total = 0;
    if (!add_scores(plan, &total) || !add_scores(plan, &total) || !ckv_add_block(&total, stage, 1))
        return 0;
    return total;
}

void *ckv_pipeline_scores(const ckv_plan *plan, void *workspace, ckv_tensor *attention, ckv_tensor *norm)
{
    size_t block = 0;
    add_scores(plan, &block);
    ckv_tensor_init_2d(attention, CKV_F32, workspace, plan->kv_heads, plan->tokens);
    ckv_tensor_init_2d(norm, CKV_F32, (char *)workspace + block, plan->kv_heads, plan->tokens);
    return (char *)workspace + 2 * block;
}

uint32_t ckv_pipeline_evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                            const ckv_tensor *value, const ckv_projection *projection, const ckv_kept *kept,
                            void *workspace, int64_t *exact_norms)
{
    const ckv_backend *backend = plan->backend;
    ckv_tensor attention, norm;
    uint32_t flags;
    workspace = ckv_pipeline_scores(plan, workspace, &attention, &norm);
    flags = backend->score(plan, query, key, &attention, workspace);
    flags |= backend->norm(plan, value, projection, &norm, workspace);
    *exact_norms = plan->kv_heads * plan->tokens;
    return flags | backend->select(plan, &attention, &norm, kept, workspace);
}
