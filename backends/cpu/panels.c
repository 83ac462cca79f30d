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
    int64_t panels;
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

static int lay_out(const ckv_cpu_kernels *kernels, const ckv_projection *p, layout *l)
{
    size_t at = 0;
    int fits = 1;
    l->steps = (p->value_dim + kernels->norm_step - 1) / kernels->norm_step;
    l->panels = 0;
    for (int64_t head = 0; head < p->query_heads; head++)
        l->panels += panels_of(p, head, kernels->norm_columns);
    fits &= ckv_add_block(&at, (size_t)p->query_heads + 1, sizeof(int64_t));
    l->shifts = at;
    fits &= ckv_add_block(&at, (size_t)l->panels, 1);
    l->weights = at;
    fits &= ckv_add_block(&at, (size_t)l->panels, panel_size(kernels, l));
    l->total = at;
    return fits;
}

size_t ckv_cpu_panels_size(const ckv_context *context, const ckv_projection *projection)
{
    layout l;
    return lay_out(ckv_cpu_norm_kernels(context->backend_state, projection), projection, &l) ? l.total : 0;
}

ckv_cpu_panels ckv_cpu_panels_open(const ckv_cpu_kernels *kernels, const ckv_projection *projection)
{
    const char *memory = projection->packed;
    layout l;
    ckv_cpu_panels panels;
    lay_out(kernels, projection, &l);
    panels.steps = l.steps;
    panels.first = (const int64_t *)(const void *)memory;
    panels.shifts = (const uint8_t *)memory + l.shifts;
    panels.weights = memory + l.weights;
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

void ckv_cpu_panels_make(const ckv_context *context, const ckv_projection *p, void *memory)
{
    const ckv_cpu_kernels *kernels = ckv_cpu_norm_kernels(context->backend_state, p);
    layout l;
    lay_out(kernels, p, &l);
    int64_t *first = memory;
    uint8_t *shifts = (uint8_t *)memory + l.shifts;
    char *weights = (char *)memory + l.weights;
    int64_t size = (int64_t)panel_size(kernels, &l), panel = 0;
    memset(memory, 0, l.total);
    for (int64_t head = 0; head < p->query_heads; head++) {
        first[head] = panel;
        for (int s = 0; s < SHIFTS; s++) {
            int32_t column = 0;
            for (int32_t j = 0; j < p->hidden; j++) {
                if (p->shifts[head * p->hidden + j] != s)
                    continue;
                shifts[panel] = (uint8_t)s;
                place_column(kernels, p, head, j, weights + panel * size, column);
                panel += ++column == kernels->norm_columns;
                column %= kernels->norm_columns;
            }
            panel += column != 0;
        }
    }
    first[p->query_heads] = panel;
}
