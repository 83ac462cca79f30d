/* SPDX-License-Identifier: Apache-2.0 */
/* The reference backend's table and its memory. */
#include "lib/pipeline.h"
#include "ref.h"

static int32_t device_count(void)
{
    return 1;
}

static int device_rank(int32_t device)
{
    (void)device;
    return CKV_RANK_REFERENCE;
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

static const char *context_variant(const ckv_context *context)
{
    (void)context;
    return "scalar";
}

static const char *device_reason(int32_t device)
{
    (void)device;
    return "";
}

static size_t workspace_size(const ckv_plan *plan)
{
    size_t stages[3] = {ckv_ref_score_workspace(plan), ckv_ref_norm_workspace(plan), ckv_ref_select_workspace(plan)};
    size_t greatest = 0;
    for (int i = 0; i < 3; i++) {
        if (stages[i] == 0)
            return 0;
        if (stages[i] > greatest)
            greatest = stages[i];
    }
    return ckv_pipeline_workspace(plan, greatest);
}

const ckv_backend ckv_backend_ref = {
    .name = "ref",
    .device_count = device_count,
    .device_name = device_name,
    .context_device_name = context_device_name,
    .context_variant = context_variant,
    .device_reason = device_reason,
    .device_rank = device_rank,
    .workspace_size = workspace_size,
    .score = ckv_ref_score,
    .norm = ckv_ref_norm,
    .select = ckv_ref_select,
    .compact = ckv_ref_compact,
    .evict = ckv_pipeline_evict,
};
