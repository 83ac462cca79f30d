/* SPDX-License-Identifier: Apache-2.0 */
/* The whole pipeline as its stages in turn, for backends without a better way. */
#ifndef CKV_LIB_PIPELINE_H
#define CKV_LIB_PIPELINE_H

#include "backend.h"

/* Bytes for attention and norm [Hkv, n] and then `stage` bytes, what the greediest stage
 * needs; 0 when that overflows. */
size_t ckv_pipeline_workspace(const ckv_plan *plan, size_t stage);

/* Attention and norm at the start of such a workspace; what follows is for the stages. */
void *ckv_pipeline_scores(const ckv_plan *plan, void *workspace, ckv_tensor *attention, ckv_tensor *norm);

/* A backend's `evict`: score, norm and select of the plan's backend, every norm. */
uint32_t ckv_pipeline_evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                            const ckv_tensor *value, const ckv_projection *projection, const ckv_kept *kept,
                            void *workspace, int64_t *exact_norms);

#endif
