/* SPDX-License-Identifier: Apache-2.0 */
/* Packing for the matrix routes: columns of one shift go together (any order of columns
 * gives the same integers, spec 5.3), and within a panel bytes lie so that a wave's load
 * of an operand is of one piece. */
#include <string.h>

#include "lib/sizes.h"
#include "pack.h"
#include "route.h"

#define COLUMNS 32 /* PANEL_COLUMNS of kernels/norm_matrix.h */
#define CHANNELS 32
#define SHIFTS 17

static int64_t count_panels(const ckv_projection *p, int64_t head)
{
    int32_t counts[SHIFTS] = {0};
    int64_t panels = 0;
    for (int32_t j = 0; j < p->hidden; j++)
        counts[p->shifts[head * p->hidden + j]]++;
    for (int s = 0; s < SHIFTS; s++)
        panels += (counts[s] + COLUMNS - 1) / COLUMNS;
    return panels;
}

int ckv_gpu_lay_out_panels(const ckv_projection *p, ckv_gpu_projection *to, size_t *total)
{
    int64_t panels = 0;
    int fits = 1;
    for (int64_t head = 0; head < p->query_heads; head++)
        panels += count_panels(p, head);
    to->steps = ckv_gpu_steps(p->value_dim);
    to->panels = (int64_t)*total;
    fits &= ckv_add_block(total, (size_t)p->query_heads + 1, sizeof(int64_t));
    to->shifts = (int64_t)*total;
    fits &= ckv_add_block(total, (size_t)panels, 1);
    to->weights = (int64_t)*total;
    fits &= ckv_add_block(total, (size_t)panels, (size_t)to->steps * COLUMNS * CHANNELS);
    return fits;
}

/* Where channel k of a column stands in its panel. */
static int32_t place(ckv_gpu_route route, int32_t column, int32_t k)
{
    const int32_t step = k / CHANNELS, channel = k % CHANNELS;
    if (route == CKV_GPU_MMA)
        return (step * COLUMNS + column) * CHANNELS + channel;
    return ((step * 2 + column / 16) * 4 + channel / 8) * 128 + column % 16 * 8 + channel % 8;
}

/* Column j of the head, as column `column` of its panel. */
static void place_column(const ckv_projection *p, ckv_gpu_route route, int64_t head, int32_t j, char *panel,
                         int32_t column)
{
    const int16_t *w = p->weights + head * p->value_dim * p->hidden + j;
    for (int32_t k = 0; k < p->value_dim; k++)
        panel[place(route, column, k)] = (char)w[(int64_t)k * p->hidden];
}

void ckv_gpu_fill_panels(const ckv_projection *p, const ckv_gpu_projection *to, char *image)
{
    int64_t *first = (int64_t *)(void *)(image + to->panels);
    uint8_t *shifts = (uint8_t *)image + to->shifts;
    int64_t size = (int64_t)to->steps * COLUMNS * CHANNELS, panel = 0;
    for (int64_t head = 0; head < p->query_heads; head++) {
        first[head] = panel;
        for (int s = 0; s < SHIFTS; s++) {
            int32_t column = 0;
            for (int32_t j = 0; j < p->hidden; j++) {
                if (p->shifts[head * p->hidden + j] != s)
                    continue;
                shifts[panel] = (uint8_t)s;
                place_column(p, to->route, head, j, image + to->weights + panel * size, column);
                panel += ++column == COLUMNS;
                column %= COLUMNS;
            }
            panel += column != 0;
        }
    }
    first[p->query_heads] = panel;
}
