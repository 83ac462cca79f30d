/* SPDX-License-Identifier: Apache-2.0 */
/* W_O as the norm reads it: columns sorted by shift, in panels that share one. */
#ifndef CKV_BACKENDS_CPU_PANELS_H
#define CKV_BACKENDS_CPU_PANELS_H

#include "kernels.h"
#include "lib/projection.h"

typedef struct ckv_cpu_panels {
    int32_t steps;         /* of norm_step channels: ceil(dv / norm_step) */
    const int64_t *first;  /* [Hq + 1]: panels of each head */
    const uint8_t *shifts; /* [panels] */
    const char *weights;   /* [panels][steps][columns][norm_step] of norm_weight_size bytes */
    const void *end;       /* aligned */
} ckv_cpu_panels;

/* Those that make the norms of this projection. */
const ckv_cpu_kernels *ckv_cpu_norm_kernels(const ckv_cpu_kernels *kernels, const ckv_projection *projection);

/* Looks into the memory that ckv_cpu_panels_make filled. */
ckv_cpu_panels ckv_cpu_panels_open(const ckv_cpu_kernels *kernels, const ckv_projection *projection);

#endif
