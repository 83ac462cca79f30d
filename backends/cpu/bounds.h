/* SPDX-License-Identifier: Apache-2.0 */
/* Upper bounds of the norms of all rows of V. */
#ifndef CKV_BACKENDS_CPU_BOUNDS_H
#define CKV_BACKENDS_CPU_BOUNDS_H

#include "cpu.h"

int ckv_cpu_bound_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes);

/* upper [Hkv, n]: each at least the norm of spec 5, times `scale`, which is 1 but where a
 * test wants wrong bounds.  Returns the flags that ckv_cpu_norm would; with NULL nothing
 * else is done. */
uint32_t ckv_cpu_bound_norms(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                             const ckv_tensor *upper, double scale, void *workspace);

#endif
