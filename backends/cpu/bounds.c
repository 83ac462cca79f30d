/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upper bounds of the norms of all rows of V (factor.c says why they hold), and whether
 * some element of V is NaN or infinite.
 *
 * First each KV head's factors, one work item a head, kept in the workspace; then the
 * rows, one work item a block of them.  Later, for rows some of whose query heads' norms are
 * known, their sum and a bound of the rest; the margin for the roundings of spec 5.4 is the same.
 */
#include "bounds.h"

#include <math.h>
#include <string.h>

#include "factor.h"
#include "lib/sizes.h"
#include "tunables.h"

typedef struct job {
    const ckv_plan *plan;
    const ckv_cpu_kernels *kernels;
    const ckv_tensor *value, *upper;
    const ckv_projection *projection;
    const ckv_cpu_lists *lists; /* NULL: all rows, and nothing of them known */
    double scale;
    int32_t parts;
    _Atomic uint32_t *flags;
    ckv_cpu_bounds *heads; /* [Hkv][parts] */
    char *memory;          /* [Hkv][parts] that they point into */
    size_t memory_size;
    char *scratch; /* [workers] */
    size_t scratch_size;
} job;

double ckv_cpu_bound_cost(const ckv_plan *plan)
{
    double dim = plan->value_dim;
    return dim * dim + 24 * dim + 400;
}

int32_t ckv_cpu_bound_parts(const ckv_plan *plan)
{
    int32_t parts = plan->group < CKV_CPU_PARTS_MAX ? (int32_t)plan->group : CKV_CPU_PARTS_MAX;
    double norm = (double)plan->group * plan->value_dim * plan->hidden;
    while (parts > 1 && 4 * parts * ckv_cpu_bound_cost(plan) > norm)
        parts--;
    return parts;
}

/* Rows in a work item. */
static int block_of(const ckv_plan *plan)
{
    return plan->parameters.value[CKV_CPU_BOUND_BLOCK];
}

/* One worker needs either at a time. */
static size_t scratch_size(const ckv_plan *plan)
{
    size_t factor = ckv_cpu_bounds_scratch(plan);
    size_t rows =
        CKV_CPU_ROWS_MAX * CKV_CPU_BOUND_STRIDE * sizeof(float) + (size_t)block_of(plan) * sizeof(ckv_cpu_bound);
    return factor > rows ? factor : rows;
}

static int lay_out(const ckv_plan *plan, job *j, char *at, size_t *total)
{
    size_t heads = (size_t)plan->kv_heads * (size_t)ckv_cpu_bound_parts(plan), flags = 0, bounds;
    *total = 0;
    j->plan = plan;
    j->kernels = ckv_cpu_kernels_of(plan);
    j->parts = ckv_cpu_bound_parts(plan);
    j->memory_size = ckv_cpu_bounds_size(plan);
    j->scratch_size = scratch_size(plan);
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

static int64_t blocks_of(const ckv_plan *plan)
{
    return (plan->tokens + block_of(plan) - 1) / block_of(plan);
}

int ckv_cpu_bound_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes)
{
    job j;
    sizes->worker = scratch_size(plan);
    sizes->items = (size_t)(plan->kv_heads * ckv_cpu_bound_parts(plan) * blocks_of(plan));
    return lay_out(plan, &j, NULL, &sizes->shared);
}

static void one_head(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    ckv_cpu_bounds_make(j->plan, j->projection, g, j->parts, j->memory + (size_t)(g * j->parts) * j->memory_size,
                        j->scratch + (size_t)worker * j->scratch_size, j->heads + g * j->parts);
}

/* 0 for a row that no head sees. */
static double upper_of(const ckv_cpu_bounds *head, const ckv_cpu_bound *row)
{
    double length;
    if (row->top <= CKV_CPU_NO_TOP)
        return 0.0;
    length = sqrt((double)row->square) * (1.0 + head->rounding) + head->rounding * (double)row->spread;
    return ldexp(head->scale * length + head->slack, row->top);
}

/* No norm is above 2^106 (spec 8). */
static void store(const job *j, int64_t g, int64_t row, double bound)
{
    double scaled = bound * j->scale;
    float upper = scaled < 0x1p106 ? (float)scaled : 0x1p106f;
    memcpy(ckv_at(j->upper, g, row, 0), &upper, sizeof upper);
}

static void one_block(const void *argument, int64_t item, int32_t worker)
{
    const job *j = argument;
    const int block = block_of(j->plan);
    int64_t g = item / blocks_of(j->plan), first = item % blocks_of(j->plan) * block;
    int count = j->plan->tokens - first < block ? (int)(j->plan->tokens - first) : block;
    ckv_cpu_bound *rows = (ckv_cpu_bound *)(void *)(j->scratch + (size_t)worker * j->scratch_size);
    const ckv_cpu_bounds *head = &j->heads[g * j->parts];
    if (j->kernels->bound_rows(j->upper == NULL ? NULL : &head->factor, j->value, g, NULL, first, count,
                               (float *)(void *)(rows + block), rows) != 0)
        atomic_fetch_or_explicit(j->flags, CKV_NONFINITE_VALUE, memory_order_relaxed);
    for (int i = 0; i < count && j->upper != NULL; i++)
        store(j, g, first + i, upper_of(head, &rows[i]));
}

/* Of a list, a block of rows that have parts 0 to `part`. */
static void one_list(const void *argument, int64_t item, int32_t worker)
{
    const job *j = argument;
    const int block = block_of(j->plan);
    int64_t n = j->plan->tokens, g = item / (blocks_of(j->plan) * j->parts);
    int32_t part = (int32_t)(item / blocks_of(j->plan) % j->parts);
    const int64_t *starts = j->lists->starts + g * (j->parts + 1) + part;
    int64_t first = starts[0] + item % blocks_of(j->plan) * block;
    int count = starts[1] - first < block ? (int)(starts[1] - first) : block;
    const int32_t *positions = j->lists->rows + g * n;
    ckv_cpu_bound *rows = (ckv_cpu_bound *)(void *)(j->scratch + (size_t)worker * j->scratch_size);
    double group = (double)j->plan->group, last = 1.0 + (group + 16) * 0x1p-23; /* factor.c */
    if (count <= 0 || part + 1 == j->parts)
        return;
    j->kernels->bound_rows(&j->heads[g * j->parts + part + 1].factor, j->value, g, positions, first, count,
                           (float *)(void *)(rows + block), rows);
    for (int i = 0; i < count; i++) {
        double known = (double)j->lists->sums[g * n + positions[first + i]] / group * last;
        store(j, g, positions[first + i], known + upper_of(&j->heads[g * j->parts + part + 1], &rows[i]));
    }
}

uint32_t ckv_cpu_bound_norms(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                             const ckv_tensor *upper, double scale, void *workspace)
{
    job j = {.value = value, .upper = upper, .projection = projection, .scale = scale};
    size_t size;
    lay_out(plan, &j, workspace, &size);
    atomic_store_explicit(j.flags, 0, memory_order_relaxed);
    if (upper != NULL)
        ckv_cpu_for_each(plan->context, plan->kv_heads, one_head, &j);
    ckv_cpu_for_each(plan->context, plan->kv_heads * blocks_of(plan), one_block, &j);
    return atomic_load_explicit(j.flags, memory_order_relaxed);
}

void ckv_cpu_bound_rest(const ckv_plan *plan, const ckv_tensor *value, const ckv_tensor *upper, double scale,
                        const ckv_cpu_lists *lists, void *workspace)
{
    job j = {.value = value, .upper = upper, .lists = lists, .scale = scale};
    size_t size;
    lay_out(plan, &j, workspace, &size);
    ckv_cpu_for_each(plan->context, plan->kv_heads * j.parts * blocks_of(plan), one_list, &j);
}
