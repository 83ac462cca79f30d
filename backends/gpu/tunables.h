/* SPDX-License-Identifier: Apache-2.0 */
/* The tunables of the GPU backends, by number. */
#ifndef CKV_BACKENDS_GPU_TUNABLES_H
#define CKV_BACKENDS_GPU_TUNABLES_H

#include "gpu.h"

enum {
    CKV_GPU_SCORE_KEYS,
    CKV_GPU_ATTEND_KEYS,
    CKV_GPU_SCORE_CHUNK,
    CKV_GPU_SCORE_WAVE,
    CKV_GPU_NORM_ROUTE,
    CKV_GPU_INT_ROWS,
    CKV_GPU_NORM_TILES,
    CKV_GPU_BOUND_ROWS,
    CKV_GPU_TUNABLES
};

/* Values of CKV_GPU_NORM_ROUTE. */
enum { CKV_GPU_BY_INT, CKV_GPU_BY_DOT4, CKV_GPU_BY_MATRIX };

extern const ckv_tunable ckv_gpu_tunables[CKV_GPU_TUNABLES];

int ckv_gpu_tunable_allowed(const ckv_context *context, int32_t index, int32_t value);
int32_t ckv_gpu_tunable_model(const ckv_context *context, const ckv_problem *problem, int32_t index);

/* Seconds of a stage with the plan's parameters, by counted work (model.c). */
double ckv_gpu_estimate(const ckv_plan *plan, ckv_stage stage);

/* The kernel of a variant, such as ckv_row_max_64 of (CKV_GPU_ckv_row_max_64, CKV_GPU_SCORE_KEYS, 64):
 * variants follow each other in kernels.def as their values do in the list of the tunable. */
int ckv_gpu_variant(int first, int32_t index, int32_t value);

/* The route of the norm that a value of CKV_GPU_NORM_ROUTE stands for on this device. */
ckv_gpu_route ckv_gpu_route_for(const ckv_gpu *gpu, int32_t value);
int32_t ckv_gpu_value_for(ckv_gpu_route route);

/* 1: the kernel fits the device's work-groups and local memory. */
int ckv_gpu_kernel_fits(const ckv_gpu_device_info *info, int kernel);

#endif
