/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of one KV head's norms, ready for use. */
#ifndef CKV_BACKENDS_CPU_FACTOR_H
#define CKV_BACKENDS_CPU_FACTOR_H

#include "cpu.h"
#include "lib/plan.h"
#include "lib/projection.h"

/* norm <= (scale * (sqrt(square) * (1 + rounding) + rounding * spread) + slack) * 2^top */
typedef struct ckv_cpu_bounds {
    ckv_cpu_factor factor;
    double scale, slack, rounding;
} ckv_cpu_bounds;

/* Bytes that the bounds of one part point into, and bytes of scratch to make them; 0 on overflow. */
size_t ckv_cpu_bounds_size(const ckv_plan *plan);
size_t ckv_cpu_bounds_scratch(const ckv_plan *plan);

/* bounds[p], for each of `parts`: of what the query heads from part p on contribute to the
 * norm; memory for one after the other. */
void ckv_cpu_bounds_make(const ckv_plan *plan, const ckv_projection *projection, int64_t kv_head, int32_t parts,
                         void *memory, void *scratch, ckv_cpu_bounds *bounds);

#endif
