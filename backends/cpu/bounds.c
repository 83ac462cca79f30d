/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upper bounds of the norms of all rows of V (factor.c says why they hold), and whether
 * some element of V is NaN or infinite.
 *
 * First each KV head's factor, one work item a head, kept in the workspace; then the
 * rows, one work item a block of them.
 */
#include "bounds.h"

#include <math.h>
#include <string.h>

#include "factor.h"
#include "lib/sizes.h"

#define BLOCK 96 /* rows in a work item: a multiple of every kernel's rows at a time */

typedef struct job {
    const ckv_plan *plan;
    const ckv_cpu_kernels *kernels;
    const ckv_tensor *value, *upper;
    const ckv_projection *projection;
    double scale;
    _Atomic uint32_t *flags;
    ckv_cpu_bounds *heads; /* [Hkv] */
    char *memory;          /* [Hkv] that they point into */
    size_t memory_size;
    char *scratch; /* [workers] */
    size_t scratch_size;
} job;

static int lay_out(const ckv_plan *plan, job *j, char *at, size_t *total)
{
    size_t heads = (size_t)plan->kv_heads, flags = 0, bounds;
    *total = 0;
    j->memory_size = ckv_cpu_bounds_size(plan);
    if (!ckv_add_block(total, 1, sizeof(_Atomic uint32_t)))
        return 0;
    bounds = *total;
    if (!ckv_add_block(total, heads, sizeof(ckv_cpu_bounds)))
        return 0;
    if (at != NULL) {
        j->flags = (_Atomic uint32_t *)(void *)(at + flags);
        j->heads = (ckv_cpu_bounds *)(void *)(at + bounds);
        j->memory = at + *total;
    }
    if (!ckv_add_block(total, heads, j->memory_size))
        return 0;
    if (at != NULL)
        j->scratch = at + *total;
    return j->memory_size != 0;
}

/* One worker needs either at a time. */
static size_t scratch_size(const ckv_plan *plan)
{
    size_t factor = ckv_cpu_bounds_scratch(plan);
    size_t rows = CKV_CPU_ROWS_MAX * CKV_CPU_BOUND_STRIDE * sizeof(float) + BLOCK * sizeof(ckv_cpu_bound);
    return factor > rows ? factor : rows;
}

static int64_t blocks_of(const ckv_plan *plan)
{
    return (plan->tokens + BLOCK - 1) / BLOCK;
}

int ckv_cpu_bound_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes)
{
    job j;
    sizes->worker = scratch_size(plan);
    sizes->items = (size_t)plan->kv_heads * (size_t)blocks_of(plan);
    return lay_out(plan, &j, NULL, &sizes->shared);
}

static void one_head(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    ckv_cpu_bounds_make(j->plan, j->projection, g, j->memory + (size_t)g * j->memory_size,
                        j->scratch + (size_t)worker * j->scratch_size, &j->heads[g]);
}

/* 0 for a row that no head of the group sees.  No norm is above 2^106 (spec 8). */
static float upper_of(const ckv_cpu_bounds *head, const ckv_cpu_bound *row, double scale)
{
    double length, upper;
    if (row->top <= CKV_CPU_NO_TOP)
        return 0.0f;
    length = sqrt((double)row->square) * (1.0 + head->rounding) + head->rounding * (double)row->spread;
    upper = ldexp(head->scale * length + head->slack, row->top) * scale;
    return upper < 0x1p106 ? (float)upper : 0x1p106f;
}

static void one_block(const void *argument, int64_t item, int32_t worker)
{
    const job *j = argument;
    int64_t g = item / blocks_of(j->plan), first = item % blocks_of(j->plan) * BLOCK;
    int count = j->plan->tokens - first < BLOCK ? (int)(j->plan->tokens - first) : BLOCK;
    ckv_cpu_bound *rows = (ckv_cpu_bound *)(void *)(j->scratch + (size_t)worker * j->scratch_size);
    const ckv_cpu_bounds *head = &j->heads[g];
    if (j->kernels->bound_rows(j->upper == NULL ? NULL : &head->factor, j->value, g, first, count,
                               (float *)(void *)(rows + BLOCK), rows) != 0)
        atomic_fetch_or_explicit(j->flags, CKV_NONFINITE_VALUE, memory_order_relaxed);
    for (int i = 0; i < count && j->upper != NULL; i++) {
        float upper = upper_of(head, &rows[i], j->scale);
        memcpy(ckv_at(j->upper, g, first + i, 0), &upper, sizeof upper);
    }
}

uint32_t ckv_cpu_bound_norms(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                             const ckv_tensor *upper, double scale, void *workspace)
{
    job j = {.plan = plan,
             .kernels = ckv_cpu_kernels_of(plan),
             .value = value,
             .upper = upper,
             .projection = projection,
             .scale = scale};
    size_t size;
    lay_out(plan, &j, workspace, &size);
    j.scratch_size = scratch_size(plan);
    atomic_store_explicit(j.flags, 0, memory_order_relaxed);
    if (upper != NULL)
        ckv_cpu_for_each(plan->context, plan->kv_heads, one_head, &j);
    ckv_cpu_for_each(plan->context, plan->kv_heads * blocks_of(plan), one_block, &j);
    return atomic_load_explicit(j.flags, memory_order_relaxed);
}
