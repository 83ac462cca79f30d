/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels cost (costs.def), for the ranking of variants that nobody has timed. */
#ifndef CKV_BACKENDS_GPU_COSTS_H
#define CKV_BACKENDS_GPU_COSTS_H

/* Families of kernels. */
enum {
#define CKV_COST(kernel, int8, fp32, bytes, traffic) CKV_GPU_COST_##kernel,
#include "costs.def"
#undef CKV_COST
    CKV_GPU_COSTS
};

typedef struct ckv_gpu_cost_shape {
    double n, hq, hkv, d, dv, hidden, w, budget, size, keys, rows;
} ckv_gpu_cost_shape;

typedef struct ckv_gpu_cost {
    double int8, fp32, bytes, traffic;
} ckv_gpu_cost;

ckv_gpu_cost ckv_gpu_cost_of(int family, const ckv_gpu_cost_shape *shape);

#endif
