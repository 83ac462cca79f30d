/* SPDX-License-Identifier: Apache-2.0 */
/* The reference backend's table, its memory, and its pipeline. */
#include "lib/sizes.h"
#include "ref.h"

static int32_t device_count(void)
{
    return 1;
}

static const char *device_name(int32_t device)
{
    (void)device;
    return "scalar reference";
}

static const char *context_device_name(const ckv_context *context)
{
    return device_name(context->device);
}

static const char *device_reason(int32_t device)
{
    (void)device;
    return "";
}

static int add_scores(const ckv_plan *plan, size_t *total)
{
    size_t cells = 0;
    return ckv_add_product(&cells, (size_t)plan->kv_heads, (size_t)plan->tokens) &&
           ckv_add_block(total, cells, sizeof(float));
}

/* The pipeline's attention and norm [Hkv, n], then one stage at a time. */
static size_t workspace_size(const ckv_plan *plan)
{
    size_t stages[3] = {ckv_ref_score_workspace(plan), ckv_ref_norm_workspace(plan), ckv_ref_select_workspace(plan)};
    size_t greatest = 0, total = 0;
    for (int i = 0; i < 3; i++) {
        if (stages[i] == 0)
            return 0;
        if (stages[i] > greatest)
            greatest = stages[i];
    }
    if (!add_scores(plan, &total) || !add_scores(plan, &total) || !ckv_add_block(&total, greatest, 1))
        return 0;
    return total;
}

static uint32_t evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                      const ckv_projection *projection, const ckv_kept *kept, void *workspace)
{
    ckv_tensor attention, norm;
    size_t block = 0;
    uint32_t flags;
    add_scores(plan, &block);
    ckv_tensor_init_2d(&attention, CKV_F32, workspace, plan->kv_heads, plan->tokens);
    ckv_tensor_init_2d(&norm, CKV_F32, (char *)workspace + block, plan->kv_heads, plan->tokens);
    workspace = (char *)workspace + 2 * block;
    flags = ckv_ref_score(plan, query, key, &attention, workspace);
    flags |= ckv_ref_norm(plan, value, projection, &norm, workspace);
    return flags | ckv_ref_select(plan, &attention, &norm, kept, workspace);
}

const ckv_backend ckv_backend_ref = {
    .name = "ref",
    .device_count = device_count,
    .device_name = device_name,
    .context_device_name = context_device_name,
    .device_reason = device_reason,
    .workspace_size = workspace_size,
    .score = ckv_ref_score,
    .norm = ckv_ref_norm,
    .select = ckv_ref_select,
    .compact = ckv_ref_compact,
    .evict = evict,
};
