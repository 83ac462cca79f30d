/* SPDX-License-Identifier: Apache-2.0 */
/* Packing for products of four bytes: a word has four channels of a column, the least in
 * its low byte; weights of 10 bits are two such words, w = 256 * high + low. */
#include <string.h>

#include "lib/sizes.h"
#include "pack.h"

#define COLUMNS 32

int ckv_gpu_lay_out_words(const ckv_projection *p, ckv_gpu_projection *to, size_t *total)
{
    size_t heads = (size_t)p->query_heads, words = ((size_t)p->value_dim + 3) / 4;
    int fits = 1;
    to->steps = p->value_bits == 15 ? 1 : 2;
    to->columns = (p->hidden + COLUMNS - 1) / COLUMNS * COLUMNS;
    to->shifts = (int64_t)*total;
    fits &= ckv_add_block(total, heads * (size_t)to->columns, 1);
    to->weights = (int64_t)*total;
    fits &= ckv_add_block(total, heads * words * (size_t)to->steps, (size_t)to->columns * sizeof(uint32_t));
    return fits;
}

void ckv_gpu_fill_words(const ckv_projection *p, const ckv_gpu_projection *to, char *image)
{
    size_t heads = (size_t)p->query_heads, dv = (size_t)p->value_dim, hidden = (size_t)p->hidden;
    size_t columns = (size_t)to->columns, words = (dv + 3) / 4, limbs = (size_t)to->steps;
    for (size_t h = 0; h < heads; h++) {
        char *head = image + to->weights + h * limbs * words * columns * sizeof(uint32_t);
        memcpy(image + to->shifts + h * columns, p->shifts + h * hidden, hidden);
        for (size_t k = 0; k < dv; k++)
            for (size_t j = 0; j < hidden; j++) {
                const int w = p->weights[(h * dv + k) * hidden + j], high = (w + 128 + 0x10000) / 256 - 256;
                char *low = head + (k / 4 * columns + j) * 4 + k % 4;
                *low = (char)(w - 256 * high);
                if (limbs == 2)
                    low[words * columns * 4] = (char)high;
            }
    }
}
