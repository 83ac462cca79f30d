/* SPDX-License-Identifier: Apache-2.0 */
/* Packing for products of integers: the numbers of spec 5.1 as they are. */
#include <string.h>

#include "lib/sizes.h"
#include "pack.h"

#define COLUMNS 32

int ckv_gpu_lay_out_columns(const ckv_projection *p, ckv_gpu_projection *to, size_t *total)
{
    size_t heads = (size_t)p->query_heads, dv = (size_t)p->value_dim;
    int fits = 1;
    to->columns = (p->hidden + COLUMNS - 1) / COLUMNS * COLUMNS;
    to->shifts = (int64_t)*total;
    fits &= ckv_add_block(total, heads * (size_t)to->columns, 1);
    to->weights = (int64_t)*total;
    fits &= ckv_add_block(total, heads * dv, (size_t)to->columns * sizeof(int16_t));
    return fits;
}

void ckv_gpu_fill_columns(const ckv_projection *p, const ckv_gpu_projection *to, char *image)
{
    size_t heads = (size_t)p->query_heads, dv = (size_t)p->value_dim, hidden = (size_t)p->hidden;
    size_t columns = (size_t)to->columns;
    for (size_t h = 0; h < heads; h++)
        memcpy(image + to->shifts + h * columns, p->shifts + h * hidden, hidden);
    for (size_t row = 0; row < heads * dv; row++)
        memcpy(image + to->weights + row * columns * sizeof(int16_t), p->weights + row * hidden,
               hidden * sizeof(int16_t));
}
