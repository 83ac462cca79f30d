/* SPDX-License-Identifier: Apache-2.0 */
/* Moving kept rows together, byte for byte (spec 7).  A work item is one KV head. */
#include <string.h>

#include "cpu.h"

typedef struct job {
    const ckv_plan *plan;
    const ckv_tensor *from, *to;
    const ckv_kept *kept;
} job;

static void compact_head(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    size_t size = ckv_dtype_size(j->from->dtype);
    int dense = j->from->shape[2] == 1 || (j->from->stride[2] == (int64_t)size && j->to->stride[2] == (int64_t)size);
    const int32_t *rows = j->kept->positions + j->kept->offsets[g];
    (void)worker;
    for (int64_t i = 0; i < j->plan->budget; i++) {
        if (dense) {
            memmove(ckv_at(j->to, g, i, 0), ckv_at(j->from, g, rows[i], 0), (size_t)j->from->shape[2] * size);
            continue;
        }
        for (int64_t c = 0; c < j->from->shape[2]; c++)
            memmove(ckv_at(j->to, g, i, c), ckv_at(j->from, g, rows[i], c), size);
    }
}

void ckv_cpu_compact(const ckv_plan *plan, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to)
{
    job j = {plan, from, to, kept};
    ckv_cpu_for_each(plan->context, plan->kv_heads, compact_head, &j);
}
