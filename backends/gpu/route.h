/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of the norm: kernels that give the same integers by different instructions. */
#ifndef CKV_BACKENDS_GPU_ROUTE_H
#define CKV_BACKENDS_GPU_ROUTE_H

#include "driver.h"

typedef enum ckv_gpu_route {
    CKV_GPU_ANY,    /* of kernels: not of one route */
    CKV_GPU_INT,    /* products of 32 bits */
    CKV_GPU_DOT4,   /* of four bytes at once */
    CKV_GPU_MMA,    /* NVIDIA */
    CKV_GPU_MFMA,   /* AMD CDNA */
    CKV_GPU_WMMA,   /* AMD RDNA 3 */
    CKV_GPU_WMMA12, /* AMD RDNA 4 */
    CKV_GPU_ROUTES
} ckv_gpu_route;

/* As CKV_GPU_NORM has it. */
const char *ckv_gpu_route_name(ckv_gpu_route route);

/* 1: a device of this description has the route's kernels. */
int ckv_gpu_has_route(const ckv_gpu_driver *driver, const ckv_gpu_device_info *info, ckv_gpu_route route);

/* The route that CKV_GPU_NORM asks for, or else the best of the device: DOT4 and not INT where
 * the dialect has an instruction for it, which OpenCL 1.2 has not.  0 with `log`
 * filled where it asks for one that the device has not. */
int ckv_gpu_choose_route(const ckv_gpu_driver *driver, const ckv_gpu_device_info *info, ckv_gpu_route *route, char *log,
                         size_t size);

/* What a projection of this shape is packed for on a device of that route: a matrix route
 * takes weights of 7 bits and as many channels as it has a kernel for, DOT4 takes the rest. */
ckv_gpu_route ckv_gpu_route_of(ckv_gpu_route route, int32_t value_dim, int32_t value_bits);

/* Steps of 32 channels that the matrix kernels are made for: the least that hold value_dim. */
int32_t ckv_gpu_steps(int32_t value_dim);

/* What is tuned of a route's kernels. */
typedef struct ckv_gpu_sizes {
    int32_t int_rows; /* rows of a work-group, of INT */
    int32_t tiles;    /* of a wave, of MMA and MFMA; cut to what there is for so many steps */
} ckv_gpu_sizes;

/* The kernel's number, -1 if the route has none for so many steps (of DOT4: limbs of a weight). */
int ckv_gpu_norm_kernel(ckv_gpu_route route, int32_t steps, ckv_gpu_sizes sizes);

/* Rows of V that its work-groups have. */
int64_t ckv_gpu_norm_rows(ckv_gpu_route route, int32_t steps, ckv_gpu_sizes sizes);

#endif
