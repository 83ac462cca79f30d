/* SPDX-License-Identifier: Apache-2.0 */
/* The whole pipeline with no more norms than what is kept depends on. */
#ifndef CKV_BACKENDS_CPU_EVICT_H
#define CKV_BACKENDS_CPU_EVICT_H

#include "cpu.h"

/* 1 where the plan allows to leave norms out and that is likely to save time. */
int ckv_cpu_skip_pays(const ckv_plan *plan);

/* Adds what it needs beside attention, norm and the stages. */
int ckv_cpu_skip_sizes(const ckv_plan *plan, size_t *total);

/* The backend's `evict`. */
uint32_t ckv_cpu_evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                       const ckv_projection *projection, const ckv_kept *kept, void *workspace, int64_t *exact_norms);

/* Stages 1 and 2 from attention [Hkv, n], with the bounds times `scale` (bounds.h); norm is
 * for its own use. */
uint32_t ckv_cpu_select_skipping(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *value,
                                 const ckv_projection *projection, const ckv_tensor *norm, double scale,
                                 const ckv_kept *kept, void *workspace, int64_t *exact_norms);

#endif
