/* SPDX-License-Identifier: Apache-2.0 */
/* What bounds are made of: per query head, the Gram matrix of its quantised weights. */
#ifndef CKV_BACKENDS_CPU_GRAM_H
#define CKV_BACKENDS_CPU_GRAM_H

#include "lib/projection.h"

/* All of it integers, exact in binary64. */
typedef struct ckv_cpu_gram {
    size_t triangle;       /* dv (dv + 1) / 2 */
    const double *outputs; /* [Hq] sum of 2^sh_j over outputs j that are not 0 in every channel */
    const double *weights; /* [Hq] sum of 2^sh_j |w_kj| */
    const double *squares; /* [Hq][triangle] M_kl = sum of 2^sh_j w_kj w_lj, l <= k, row after row */
} ckv_cpu_gram;

/* 0 when the size overflows. */
size_t ckv_cpu_gram_size(const ckv_projection *projection);
ckv_status ckv_cpu_gram_make(const ckv_context *context, const ckv_projection *projection, void *memory);
ckv_cpu_gram ckv_cpu_gram_open(const ckv_projection *projection, const void *memory);

#endif
