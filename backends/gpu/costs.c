/* SPDX-License-Identifier: Apache-2.0 */
/* The expressions of costs.def in C. */
#include "costs.h"

ckv_gpu_cost ckv_gpu_cost_of(int family, const ckv_gpu_cost_shape *s)
{
    const double n = s->n, hq = s->hq, hkv = s->hkv, d = s->d, dv = s->dv, hidden = s->hidden, w = s->w;
    const double budget = s->budget, size = s->size, keys = s->keys, rows = s->rows;
    switch (family) {
#define CKV_COST(kernel, int8, fp32, bytes, traffic)                                                                   \
    case CKV_GPU_COST_##kernel:                                                                                        \
        return (ckv_gpu_cost){int8, fp32, bytes, traffic};
#include "costs.def"
#undef CKV_COST
    default:
        return (ckv_gpu_cost){0, 0, 0, 0};
    }
}
