/* SPDX-License-Identifier: Apache-2.0 */
/* Moving kept rows together, byte for byte (spec 7).  A work item is one KV head. */
#include <string.h>

#include "cpu.h"

#define AHEAD 12 /* rows asked for before they are moved */

typedef struct job {
    const ckv_plan *plan;
    const ckv_tensor *from, *to;
    const ckv_kept *kept;
} job;

/* Asks for a row: which rows are kept is known long before they are read, but not to the
 * processor. */
static void prefetch_row(const job *j, int64_t g, int64_t row, size_t size)
{
#ifdef __GNUC__
    const char *at = ckv_at(j->from, g, row, 0);
    for (size_t byte = 0; byte < size && byte < 1024; byte += 64)
        __builtin_prefetch(at + byte);
#else
    (void)j;
    (void)g;
    (void)row;
    (void)size;
#endif
}

static void compact_head(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    size_t size = ckv_dtype_size(j->from->dtype);
    int dense = j->from->shape[2] == 1 || (j->from->stride[2] == (int64_t)size && j->to->stride[2] == (int64_t)size);
    size_t width = (size_t)j->from->shape[2] * size;
    const int32_t *rows = j->kept->positions + j->kept->offsets[g];
    (void)worker;
    for (int64_t i = 0; i < j->plan->budget; i++) {
        if (dense) {
            if (i + AHEAD < j->plan->budget)
                prefetch_row(j, g, rows[i + AHEAD], width);
            memmove(ckv_at(j->to, g, i, 0), ckv_at(j->from, g, rows[i], 0), width);
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
