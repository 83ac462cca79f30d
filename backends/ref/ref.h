/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference backend: docs/specification.md as scalar C, in its order and with
 * its section numbers.  It is meant to be read beside that text and to be right;
 * the other backends are meant to be fast and are compared with it bit by bit.
 */
#ifndef CKV_BACKENDS_REF_H
#define CKV_BACKENDS_REF_H

#include "lib/backend.h"

size_t ckv_ref_score_workspace(const ckv_plan *plan);
size_t ckv_ref_norm_workspace(const ckv_plan *plan);
size_t ckv_ref_select_workspace(const ckv_plan *plan);

uint32_t ckv_ref_score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                       const ckv_tensor *attention, void *workspace);
uint32_t ckv_ref_norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                      const ckv_tensor *norm, void *workspace);
uint32_t ckv_ref_select(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept,
                        void *workspace);
void ckv_ref_compact(const ckv_plan *plan, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to);

/* Spec 4.3, for x in [-60, 0]. */
float ckv_ref_exp(float x);

static inline float ckv_ref_get(const ckv_tensor *view, int64_t head, int64_t token)
{
    float x;
    __builtin_memcpy(&x, ckv_at(view, head, token, 0), sizeof x);
    return x;
}

static inline void ckv_ref_set(const ckv_tensor *view, int64_t head, int64_t token, float x)
{
    __builtin_memcpy(ckv_at(view, head, token, 0), &x, sizeof x);
}

#endif
