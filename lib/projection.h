/* SPDX-License-Identifier: Apache-2.0 */
/* The quantised output projection (spec 5.1), as every backend reads it. */
#ifndef CKV_LIB_PROJECTION_H
#define CKV_LIB_PROJECTION_H

#include "context.h"

/* Exponent of a channel that is zero in every output: it is left out. */
#define CKV_CHANNEL_DROPPED INT16_MIN

/* Layers of fewer outputs get more weight bits, since fewer rounding errors average
 * out and their cost is small (spec 5.1). */
#define CKV_WIDE_BELOW 1024

struct ckv_projection {
    const ckv_context *context;
    int32_t query_heads, value_dim, hidden;
    uint32_t flags;
    int weight_bits;           /* B of spec 5.1: |w_kj| < 2^B */
    int value_bits;            /* 22 - B: |q_k| <= 2^(22 - B) */
    int16_t *exponents;        /* [Hq, dv]      E_k */
    int16_t *weights;          /* [Hq, dv, D]   w_kj */
    uint8_t *shifts;           /* [Hq, D]       sh_j = F_j - Fmin */
    int16_t *bases;            /* [Hq]          Fmin */
    ckv_parameters parameters; /* those of CKV_TUNE_PROJECTION */
    void *packed;              /* the backend's own layout, or NULL */
};

#endif
