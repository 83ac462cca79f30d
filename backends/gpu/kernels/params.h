/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel is given beside its buffers: one struct by value, the same text for
 * the host's compiler and for every device's.  Only fixed-size scalars, ordered so
 * that no compiler pads.  Offsets are bytes from a buffer's base, since OpenCL's
 * buffers have no addresses.
 */
#ifndef CKV_GPU_PARAMS_H
#define CKV_GPU_PARAMS_H

/* A tensor [head][token][element] inside a buffer. */
typedef struct ckv_view {
    i64 offset, head, token, element; /* bytes */
    i32 dtype;                        /* CKV_F32, CKV_F16, CKV_BF16 */
    i32 aligned;                      /* 1: every element is aligned to its size */
} ckv_view;

typedef struct ckv_params {
    ckv_view query, key, value, attention, norm, from, to;

    i64 tokens, budget, stage1, low, high; /* candidates are positions [low, high) */
    i64 first_query;                       /* row of the query tensor that the window starts at */
    i64 positions, offsets, stages;        /* bytes from the base of each output's buffer */
    i64 flags;                             /* of the flags word */

    /* In the workspace. */
    i64 at_query;     /* f32 [Hq][w][d]          scaled, sanitised */
    i64 at_partial;   /* 8 bytes [chunks][Hq*w]  maxima (f32), then sums (i64) */
    i64 at_greatest;  /* f32 [Hq*w] */
    i64 at_factor;    /* f32 [Hq*w]              r_q of spec 4.4 */
    i64 at_heads;     /* f32 [wave][Hkv][n]      unpooled attention of some heads of each group */
    i64 at_attention; /* f32 [Hkv][n]            of the whole pipeline */
    i64 at_norm;      /* f32 [Hkv][n] */
    i64 at_bound;     /* f32 [Hkv][n]            upper bounds of the norm */
    i64 at_taken;     /* u8  [Hkv][n]            CKV_KEPT_* of a row, TAKEN_* of select.h */
    i64 at_list;      /* i32 [Hkv][n]            rows whose exact norm is wanted */
    i64 at_count;     /* i32 [Hkv]               how many */
    i64 at_matrix;    /* f32 [Hkv][dv][dv]       S' of bound.h */
    i64 at_totals;    /* f32 [Hkv][2] */

    /* In the projection's buffer; layouts in backends/gpu/pack.h. */
    i64 at_exponents, at_bases, at_shifts, at_weights, at_squares, at_sizes, at_panels;

    i32 query_heads, kv_heads, group, window, head_dim, value_dim;
    i32 chunk;            /* keys per work-group of the row statistics, a multiple of the key tile */
    i32 chunks;           /* ceil(tokens / chunk) */
    i32 wave, wave_first; /* heads of each group in at_heads, and the first of them */
    i32 pool, pool_width; /* CKV_POOL_* */
    i32 value_bits;       /* 22 - B */
    i32 columns;          /* outputs of a head, padded */
    i32 listed;           /* 1: rows come from at_list, 0: all rows */
    i32 reserved;         /* an even number of these */
    i32 row_elements, element_bytes, unit, want_stages;
    f32 scale, epsilon, window_inverse, group_inverse, pool_inverse, bound_slack, form_slack;
    i32 first_group; /* added to the second index of a group: grids are split */
} ckv_params;

#endif
