/* SPDX-License-Identifier: Apache-2.0 */
/* Laying out W_O for the norm: any order of columns gives the same integers
 * (spec 5.3), so those of one shift go together and are shifted as one. */
#include "panels.h"

#include <string.h>

#include "cpu.h"
#include "lib/sizes.h"

#define COLUMNS CKV_CPU_PANEL_COLUMNS
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

static int64_t panels_of(const ckv_projection *p, int64_t head)
{
    int32_t counts[SHIFTS];
    int64_t panels = 0;
    count_shifts(p, head, counts);
    for (int s = 0; s < SHIFTS; s++)
        panels += (counts[s] + COLUMNS - 1) / COLUMNS;
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
    fits &= ckv_add_block(&at, (size_t)panels, (size_t)(l->steps * COLUMNS * kernels->norm_step) * sizeof(int16_t));
    l->total = at;
    return fits;
}

static int64_t count_panels(const ckv_projection *p)
{
    int64_t panels = 0;
    for (int64_t head = 0; head < p->query_heads; head++)
        panels += panels_of(p, head);
    return panels;
}

size_t ckv_cpu_panels_size(const ckv_context *context, const ckv_projection *projection)
{
    layout l;
    return lay_out(context->backend_state, projection, count_panels(projection), &l) ? l.total : 0;
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
    panels.weights = (const int16_t *)(const void *)(memory + l.weights);
    panels.end = memory + l.total;
    return panels;
}

/* Column j of the head, as column `column` of its panel. */
static void place_column(const ckv_projection *p, int64_t head, int32_t j, int16_t *panel, int32_t column, int32_t step)
{
    const int16_t *w = p->weights + head * p->value_dim * p->hidden + j;
    for (int32_t k = 0; k < p->value_dim; k++)
        panel[(k / step * COLUMNS + column) * step + k % step] = w[(int64_t)k * p->hidden];
}

typedef struct job {
    const ckv_projection *projection;
    int64_t *first;
    uint8_t *shifts;
    int16_t *weights;
    int64_t panel_size;
    int32_t step;
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
            place_column(p, head, j, work->weights + panel * work->panel_size, column, work->step);
            panel += ++column == COLUMNS;
            column %= COLUMNS;
        }
        panel += column != 0;
    }
}

void ckv_cpu_panels_make(const ckv_context *context, const ckv_projection *p, void *memory)
{
    const ckv_cpu_kernels *kernels = context->backend_state;
    layout l;
    job work = {.projection = p, .first = memory, .step = kernels->norm_step};
    lay_out(kernels, p, count_panels(p), &l);
    work.shifts = (uint8_t *)memory + l.shifts;
    work.weights = (int16_t *)(void *)((char *)memory + l.weights);
    work.panel_size = (int64_t)l.steps * COLUMNS * kernels->norm_step;
    memset(memory, 0, l.total);
    for (int64_t head = 0; head < p->query_heads; head++)
        work.first[head + 1] = work.first[head] + panels_of(p, head);
    ckv_cpu_for_each(context, p->query_heads, pack_head, &work);
}
