/* SPDX-License-Identifier: Apache-2.0 */
/* Laying out W_O for the norm: any order of columns gives the same integers
 * (spec 5.3), so those of one shift go together and are shifted as one. */
#include "panels.h"

#include <string.h>

#include "cpu.h"
#include "lib/sizes.h"

#define SHIFTS 17

typedef struct layout {
    int32_t steps;
    size_t shifts, weights, total; /* offsets after the table of heads at 0 */
} layout;

static void count_shifts(const ckv_projection *p, int64_t head, int32_t counts[SHIFTS])
{
    memset(counts, 0, SHIFTS * sizeof counts[0]);
    for (int32_t j = 0; j < p->hidden; j++)
        counts[p->shifts[head * p->hidden + j]]++;
}

const ckv_cpu_kernels *ckv_cpu_norm_kernels(const ckv_cpu_kernels *kernels, const ckv_projection *projection)
{
    /* Weights of B bits and a sign. */
    if (projection->weight_bits >= 8 * kernels->norm_weight_size && kernels->norm_wide != NULL)
        return kernels->norm_wide;
    return kernels;
}

static int64_t panels_of(const ckv_projection *p, int64_t head, int32_t columns)
{
    int32_t counts[SHIFTS];
    int64_t panels = 0;
    count_shifts(p, head, counts);
    for (int s = 0; s < SHIFTS; s++)
        panels += (counts[s] + columns - 1) / columns;
    return panels;
}

static size_t panel_size(const ckv_cpu_kernels *kernels, const layout *l)
{
    return (size_t)(l->steps * kernels->norm_columns * kernels->norm_step * kernels->norm_weight_size);
}

static int64_t count_panels(const ckv_cpu_kernels *kernels, const ckv_projection *p)
{
    int64_t panels = 0;
    for (int64_t head = 0; head < p->query_heads; head++)
        panels += panels_of(p, head, kernels->norm_columns);
    return panels;
}

static int lay_out(const ckv_cpu_kernels *kernels, const ckv_projection *p, int64_t panels, layout *l)
{
    size_t at = 0;
    int fits = 1;
    l->steps = (p->value_dim + kernels->norm_step - 1) / kernels->norm_step;
    fits &= ckv_add_block(&at, (size_t)p->query_heads + 1, sizeof(int64_t));
    l->shifts = at;
    fits &= ckv_add_block(&at, (size_t)panels, 1);
    l->weights = at;
    fits &= ckv_add_block(&at, (size_t)panels, panel_size(kernels, l));
    l->total = at;
    return fits;
}

size_t ckv_cpu_panels_size(const ckv_context *context, const ckv_projection *projection)
{
    const ckv_cpu_kernels *kernels = ckv_cpu_norm_kernels(context->backend_state, projection);
    layout l;
    return lay_out(kernels, projection, count_panels(kernels, projection), &l) ? l.total : 0;
}

ckv_cpu_panels ckv_cpu_panels_open(const ckv_cpu_kernels *kernels, const ckv_projection *projection)
{
    const char *memory = projection->packed;
    layout l;
    ckv_cpu_panels panels;
    panels.first = (const int64_t *)(const void *)memory;
    lay_out(kernels, projection, panels.first[projection->query_heads], &l);
    panels.steps = l.steps;
    panels.shifts = (const uint8_t *)memory + l.shifts;
    panels.weights = memory + l.weights;
    panels.end = memory + l.total;
    return panels;
}

/* Column j of the head, as column `column` of its panel. */
static void place_column(const ckv_cpu_kernels *kernels, const ckv_projection *p, int64_t head, int32_t j, void *panel,
                         int32_t column)
{
    const int16_t *w = p->weights + head * p->value_dim * p->hidden + j;
    int32_t columns = kernels->norm_columns, step = kernels->norm_step;
    for (int32_t k = 0; k < p->value_dim; k++) {
        int32_t at = (k / step * columns + column) * step + k % step;
        if (kernels->norm_weight_size == 1)
            ((int8_t *)panel)[at] = (int8_t)w[(int64_t)k * p->hidden];
        else
            ((int16_t *)panel)[at] = w[(int64_t)k * p->hidden];
    }
}

typedef struct job {
    const ckv_projection *projection;
    const ckv_cpu_kernels *kernels;
    int64_t *first;
    uint8_t *shifts;
    char *weights;
    int64_t panel_size;
} job;

static void pack_head(const void *argument, int64_t head, int32_t worker)
{
    const job *work = argument;
    const ckv_projection *p = work->projection;
    int64_t panel = work->first[head];
    (void)worker;
    for (int s = 0; s < SHIFTS; s++) {
        int32_t column = 0;
        for (int32_t j = 0; j < p->hidden; j++) {
            if (p->shifts[head * p->hidden + j] != s)
                continue;
            work->shifts[panel] = (uint8_t)s;
            place_column(work->kernels, p, head, j, work->weights + panel * work->panel_size, column);
            panel += ++column == work->kernels->norm_columns;
            column %= work->kernels->norm_columns;
        }
        panel += column != 0;
    }
}

void ckv_cpu_panels_make(const ckv_context *context, const ckv_projection *p, void *memory)
{
    const ckv_cpu_kernels *kernels = ckv_cpu_norm_kernels(context->backend_state, p);
    layout l;
    job work = {.projection = p, .kernels = kernels, .first = memory};
    lay_out(kernels, p, count_panels(kernels, p), &l);
    work.shifts = (uint8_t *)memory + l.shifts;
    work.weights = (char *)memory + l.weights;
    work.panel_size = (int64_t)panel_size(kernels, &l);
    memset(memory, 0, l.total);
    for (int64_t head = 0; head < p->query_heads; head++)
        work.first[head + 1] = work.first[head] + panels_of(p, head, kernels->norm_columns);
    ckv_cpu_for_each(context, p->query_heads, pack_head, &work);
}
