/* SPDX-License-Identifier: Apache-2.0 */
/* Upper bounds of the norms of all rows of V. */
#ifndef CKV_BACKENDS_CPU_BOUNDS_H
#define CKV_BACKENDS_CPU_BOUNDS_H

#include "cpu.h"

int ckv_cpu_bound_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes);

/* What a row's bound takes, in multiply-adds of the norm: measured. */
double ckv_cpu_bound_cost(const ckv_plan *plan);

/* In how many parts norms are made, with a bound of the rest in between: as many as pay. */
int32_t ckv_cpu_bound_parts(const ckv_plan *plan);

/* upper [Hkv, n]: each at least the norm of spec 5, times `scale`, which is 1 but where a
 * test wants wrong bounds.  Returns the flags that ckv_cpu_norm would; with NULL nothing
 * else is done. */
uint32_t ckv_cpu_bound_norms(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                             const ckv_tensor *upper, double scale, void *workspace);

/* After that, in the same workspace: bounds of the listed rows' norms, from the sums of the
 * parts that they have by now and bounds of the rest.  Of the last part nothing is to be listed. */
void ckv_cpu_bound_rest(const ckv_plan *plan, const ckv_tensor *value, const ckv_tensor *upper, double scale,
                        const ckv_cpu_lists *lists, void *workspace);

#endif
