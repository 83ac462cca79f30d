/* SPDX-License-Identifier: Apache-2.0 */
/*
 * L1 norm of each value row after the output projection (spec 5).
 *
 * A work item is a block of rows of one KV head.  Its rows are loaded once,
 * quantised for each query head of the group, and meet that head's panels of W one
 * after another, so that a panel is read once a block and a row of V never repeated.
 */
#include "cpu.h"
#include "lib/numeric.h"
#include "lib/sizes.h"
#include "panels.h"
#include "tunables.h"

typedef struct job {
    const ckv_plan *plan;
    const ckv_cpu_kernels *kernels;
    const ckv_tensor *value, *norm;
    const ckv_projection *projection;
    ckv_cpu_panels panels;
    char *scratch;
    size_t scratch_size;
    _Atomic uint32_t *flags;
    const ckv_cpu_lists *lists; /* NULL: all rows, in one part */
} job;

/* One worker's scratch. */
typedef struct scratch {
    float *rows;     /* [block][dv] sanitised */
    int16_t *values; /* [dv] */
    int16_t *q;      /* [block / norm_rows][steps][norm_rows][norm_step] */
    int64_t *sums;   /* [block][lanes] */
    int32_t *tops;   /* [block] R, or CKV_CPU_NO_EXPONENT */
    float *total;    /* [block] over the heads of the group */
} scratch;

/* Rows in a work item. */
static int32_t block_of(const ckv_plan *plan)
{
    return plan->parameters.value[CKV_CPU_NORM_BLOCK];
}

static int64_t blocks_of(const ckv_plan *plan)
{
    return (plan->tokens + block_of(plan) - 1) / block_of(plan);
}

static int lay_out(const ckv_plan *plan, char *at, scratch *s, size_t *total)
{
    size_t dv = (size_t)plan->value_dim + CKV_CPU_STEP_MAX; /* the last step may be padded */
    const size_t block = (size_t)block_of(plan);
    const size_t sizes[6] = {block * dv * sizeof(float),   dv * sizeof(int16_t),
                             block * dv * sizeof(int16_t), block * CKV_CPU_SUM_LANES * sizeof(int64_t),
                             block * sizeof(int32_t),      block * sizeof(float)};
    void *part[6];
    *total = 0;
    for (int i = 0; i < 6; i++) {
        part[i] = at == NULL ? NULL : at + *total;
        if (!ckv_add_block(total, 1, sizes[i]))
            return 0;
    }
    *s = (scratch){part[0], part[1], part[2], part[3], part[4], part[5]};
    return 1;
}

int ckv_cpu_norm_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes)
{
    scratch s;
    sizes->shared = CKV_WORKSPACE_ALIGNMENT;
    sizes->items = (size_t)plan->kv_heads * (size_t)blocks_of(plan) * CKV_CPU_PARTS_MAX;
    return lay_out(plan, NULL, &s, &sizes->worker);
}

/* Rows up to the next whole tile are filled with zeros. */
static void quantize(const job *j, int64_t head, int64_t rows, const scratch *s)
{
    const ckv_cpu_kernels *kernels = j->kernels;
    const int16_t *exponents = j->projection->exponents + head * j->projection->value_dim;
    int32_t dim = j->plan->value_dim, bits = j->projection->value_bits, step = kernels->norm_step,
            tile = kernels->norm_rows;
    int64_t tile_size = (int64_t)j->panels.steps * tile * step;
    for (int64_t i = 0; i < (rows + tile - 1) / tile * tile; i++)
        s->tops[i] = kernels->quantize(i < rows ? s->rows + i * dim : NULL, exponents, dim, bits, s->values,
                                       s->q + i / tile * tile_size + i % tile * step);
}

static void multiply(const job *j, int64_t head, int64_t rows, const scratch *s)
{
    int32_t step = j->kernels->norm_step, tile = j->kernels->norm_rows, steps = j->panels.steps;
    int64_t panel_size = (int64_t)steps * j->kernels->norm_columns * step * j->kernels->norm_weight_size;
    memset(s->sums, 0, (size_t)block_of(j->plan) * CKV_CPU_SUM_LANES * sizeof *s->sums);
    for (int64_t p = j->panels.first[head]; p < j->panels.first[head + 1]; p++)
        for (int64_t i = 0; i < rows; i += tile)
            j->kernels->norm_panel(j->panels.weights + p * panel_size, s->q + i * steps * step, steps,
                                   j->panels.shifts[p], s->sums + i * CKV_CPU_SUM_LANES);
}

/* Spec 5.3 and the sum of 5.4. */
static void add_norms(const job *j, int64_t head, int64_t rows, const scratch *s)
{
    for (int64_t i = 0; i < rows; i++) {
        int64_t sum = 0;
        float norm = 0.0f;
        for (int lane = 0; lane < CKV_CPU_SUM_LANES; lane++)
            sum += s->sums[i * CKV_CPU_SUM_LANES + lane];
        if (s->tops[i] != CKV_CPU_NO_EXPONENT)
            norm = ckv_scale((float)sum, s->tops[i] - j->projection->value_bits + j->projection->bases[head]);
        s->total[i] = s->total[i] + norm;
    }
}

/* What a work item is about: rows [first, first + count) of KV head g, or of its list, and the
 * query heads of one part. */
typedef struct piece {
    int64_t g, first, count, head, last_head;
    int ends; /* the group */
} piece;

static piece piece_of(const job *j, int64_t item)
{
    const ckv_plan *plan = j->plan;
    int32_t parts = j->lists == NULL ? 1 : j->lists->parts, part;
    piece b = {.g = item / (blocks_of(plan) * parts), .first = item % blocks_of(plan) * block_of(plan)};
    int64_t end = plan->tokens;
    part = (int32_t)(item / blocks_of(plan) % parts);
    if (j->lists != NULL) {
        const int64_t *starts = j->lists->starts + b.g * (parts + 1) + part;
        b.first += starts[0];
        end = starts[1];
    }
    b.count = end - b.first < block_of(plan) ? end - b.first : block_of(plan);
    b.head = b.g * plan->group + ckv_cpu_part_start(plan, parts, part);
    b.last_head = b.g * plan->group + ckv_cpu_part_start(plan, parts, part + 1);
    b.ends = part + 1 == parts;
    return b;
}

/* The position of its i-th row. */
static int64_t row_of(const job *j, const piece *b, int64_t i)
{
    return j->lists == NULL ? b->first + i : j->lists->rows[b->g * j->plan->tokens + b->first + i];
}

/* Spec 5.4 from the sum over the group. */
static void store_norm(const job *j, int64_t g, int64_t row, float total)
{
    float mean = total * j->plan->group_inverse;
    mean = mean < 0x1p-100f ? 0.0f : mean;
    memcpy(ckv_at(j->norm, g, row, 0), &mean, sizeof mean);
}

static void one_block(const void *argument, int64_t item, int32_t worker)
{
    const job *j = argument;
    const ckv_plan *plan = j->plan;
    const piece b = piece_of(j, item);
    float *sums = j->lists == NULL ? NULL : j->lists->sums + b.g * plan->tokens;
    int starts = b.head == b.g * plan->group;
    uint32_t bad = 0;
    size_t size;
    scratch s;
    if (b.count <= 0)
        return;
    lay_out(plan, j->scratch + (size_t)worker * j->scratch_size, &s, &size);
    for (int64_t i = 0; i < b.count; i++) {
        int64_t row = row_of(j, &b, i);
        s.total[i] = starts ? 0.0f : sums[row];
        bad |= j->kernels->load_row(s.rows + i * plan->value_dim, ckv_at(j->value, b.g, row, 0), j->value->dtype,
                                    j->value->stride[2], plan->value_dim);
    }
    for (int64_t head = b.head; head < b.last_head; head++) {
        quantize(j, head, b.count, &s);
        multiply(j, head, b.count, &s);
        add_norms(j, head, b.count, &s);
    }
    for (int64_t i = 0; i < b.count; i++) {
        int64_t row = row_of(j, &b, i);
        if (b.ends)
            store_norm(j, b.g, row, s.total[i]);
        else
            sums[row] = s.total[i];
    }
    if (bad != 0)
        atomic_fetch_or_explicit(j->flags, CKV_NONFINITE_VALUE, memory_order_relaxed);
}

static uint32_t norms(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                      const ckv_tensor *norm, const ckv_cpu_lists *lists, void *workspace)
{
    const ckv_cpu_kernels *kernels = ckv_cpu_norm_kernels(ckv_cpu_kernels_of(plan), projection);
    job j = {plan, kernels, value,     norm, projection, ckv_cpu_panels_open(kernels, projection),
             NULL, 0,       workspace, lists};
    scratch s;
    j.scratch = (char *)workspace + CKV_WORKSPACE_ALIGNMENT;
    lay_out(plan, NULL, &s, &j.scratch_size);
    atomic_store_explicit(j.flags, 0, memory_order_relaxed);
    ckv_cpu_for_each(plan->context, plan->kv_heads * blocks_of(plan) * (lists == NULL ? 1 : lists->parts), one_block,
                     &j);
    return atomic_load_explicit(j.flags, memory_order_relaxed);
}

uint32_t ckv_cpu_norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                      const ckv_tensor *norm, void *workspace)
{
    return norms(plan, value, projection, norm, NULL, workspace);
}

void ckv_cpu_norm_of(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                     const ckv_tensor *norm, const ckv_cpu_lists *lists, void *workspace)
{
    norms(plan, value, projection, norm, lists, workspace); /* what V holds was told before */
}
