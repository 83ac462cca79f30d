/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows need their exact norm: an upper bound for every row, then the rows that
 * the bound cannot rule out.
 *
 * The bound is that of backends/cpu/factor.c,
 *
 *     G * N <= sqrt(C) sqrt(v^T S v) + what the rounding of q_k adds,
 *
 * with the quadratic form evaluated as it stands.  In the scale there (v' = v_k 2^(E_k -
 * top), below 1 in magnitude; S' with the heads' bases taken relative to the greatest),
 * every entry of S' is wrong by at most (G + 4) 2^-24 sqrt(S'_kk S'_ll), from the
 * rounding of the heads' squares and G additions, and the form's two chains of dv terms add
 * (2 dv + 4) 2^-24: in all at most (2 dv + G + 8) 2^-24 (sum_k |v'_k| sqrt(S'_kk))^2, by
 * which the form is raised (`form_slack`, doubled for the roundings of the slack itself).
 *
 * Exponents more than 60 below the greatest are taken as 60 below it.  Of a head's base that
 * raises its whole part, which is at least 0.  Of an E_hk or a v'_k it changes sqrt(form) by
 * at most 2^-60 2^B sqrt(C') a channel, and products that underflow take less than 2^-54 off
 * it; either, times sqrt(C'), is far below what q_k's rounding was given, which is at least
 * 2^-15 C': every output that C' counts has a weight of at least 1.
 *
 * In the end, a factor covers sqrt, the sums of spec 5.3 and 5.4 and the bound's own roundings.
 */
#ifndef CKV_GPU_BOUND_H
#define CKV_GPU_BOUND_H

#include "quantize.h"
#include "select.h"

#define BOUND_PITCH 512 /* the greatest value_dim */
#define BOUND_ROWS_MAX 16
#define FAR_BELOW (-60) /* of an exponent, relative to the greatest */

/* E_k of a group: the greatest of its heads', or CHANNEL_DROPPED. */
FUNCTION i32 group_exponent(GLOBAL const u8 *packed, i32 g, i32 k, const ckv_params p)
{
    GLOBAL const i16 *exponents = (GLOBAL const i16 *)(packed + p.at_exponents);
    i32 greatest = CHANNEL_DROPPED;
    for (i32 m = 0; m < p.group; m++) {
        i32 e = exponents[((i64)g * p.group + m) * p.value_dim + k];
        greatest = e > greatest ? e : greatest;
    }
    return greatest;
}

FUNCTION i32 group_base(GLOBAL const u8 *packed, i32 g, const ckv_params p)
{
    GLOBAL const i16 *bases = (GLOBAL const i16 *)(packed + p.at_bases) + (i64)g * p.group;
    i32 greatest = bases[0];
    for (i32 m = 1; m < p.group; m++)
        greatest = bases[m] > greatest ? bases[m] : greatest;
    return greatest;
}

FUNCTION i32 not_below(i32 e)
{
    return e < FAR_BELOW ? FAR_BELOW : e;
}

/* Grid: (ceil(dv * dv / BOUND_GROUP), Hkv).  S', and sqrt(C') and the quantisation's share. */
KERNEL(ckv_bound_matrix, BOUND_GROUP)(GLOBAL const u8 *packed, GLOBAL u8 *work, const ckv_params p)
{
    const i32 g = group_y(p), cell = group_id(0) * BOUND_GROUP + local_id(), k = cell / p.value_dim;
    const i32 l = cell - k * p.value_dim, base = group_base(packed, g, p);
    GLOBAL const i16 *exponents = (GLOBAL const i16 *)(packed + p.at_exponents);
    GLOBAL const i16 *bases = (GLOBAL const i16 *)(packed + p.at_bases);
    GLOBAL const f32 *squares = (GLOBAL const f32 *)(packed + p.at_squares);
    GLOBAL const f32 *sizes = (GLOBAL const f32 *)(packed + p.at_sizes);
    if (k < p.value_dim) {
        i32 e_k = group_exponent(packed, g, k, p), e_l = group_exponent(packed, g, l, p);
        f32 sum = 0.0f;
        for (i32 m = 0; m < p.group; m++) {
            i64 head = (i64)g * p.group + m;
            i32 own_k = exponents[head * p.value_dim + k], own_l = exponents[head * p.value_dim + l];
            if (own_k != CHANNEL_DROPPED && own_l != CHANNEL_DROPPED)
                sum = sum + squares[(head * p.value_dim + k) * p.value_dim + l] * power(not_below(own_k - e_k)) *
                                power(not_below(own_l - e_l)) * power(not_below(bases[head] - base));
        }
        ((GLOBAL f32 *)(work + p.at_matrix))[(i64)g * p.value_dim * p.value_dim + cell] = sum;
    }
    if (cell == 0) {
        GLOBAL f32 *totals = (GLOBAL f32 *)(work + p.at_totals) + (i64)g * 2;
        f32 outputs = 0.0f, rounding = 0.0f;
        for (i32 m = 0; m < p.group; m++) {
            i64 head = (i64)g * p.group + m;
            f32 unit = power(not_below(bases[head] - base));
            outputs = outputs + sizes[head * 2] * unit;
            rounding = rounding + sizes[head * 2 + 1] * unit;
        }
        totals[0] = outputs;
        totals[1] = rounding;
    }
}

/* Grid: (ceil(n / count), Hkv).  U >= N for every row. */
FUNCTION void bound(GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *work, i32 count, LOCAL f32 *rows,
                    LOCAL i32 *exponents, LOCAL i32 *tops, const ckv_params p)
{
    const i32 items = BOUND_ITEMS(count);
    LOCAL f32 *part = rows; /* once the rows are no longer needed */
    const i32 id = local_id(), g = group_y(p), r = id / 16, lane = id % 16, padded = (p.value_dim + 3) / 4 * 4;
    const i64 first = (i64)group_id(0) * count, token = first + r;
    GLOBAL const f32 *matrix = (GLOBAL const f32 *)(work + p.at_matrix) + (i64)g * p.value_dim * p.value_dim;
    f32 form[BOUND_ROWS_MAX], length = 0.0f;
    u32 bad = 0u;
    i32 top = NO_EXPONENT;
    for (i32 k = id; k < p.value_dim; k += items)
        exponents[k] = group_exponent(packed, g, k, p);
    BARRIER();
    for (i32 k = lane; token < p.tokens && k < p.value_dim; k += 16) {
        u32 u = load_bits(value + place(p.value, g, token, k), p.value.dtype, p.value.aligned);
        u32 magnitude = bits(sanitize(u)) & ~SIGN;
        i32 e = (i32)(magnitude >> 23) - 126 + exponents[k];
        bad |= is_nonfinite(u) ? BAD_VALUE : 0u;
        if (magnitude != 0u && exponents[k] != CHANNEL_DROPPED && e > top)
            top = e;
    }
    tops[id] = top;
    BARRIER();
    for (i32 i = 0; i < 16; i++)
        top = tops[r * 16 + i] > top ? tops[r * 16 + i] : top;
    for (i32 k = lane; k < padded; k += 16) {
        f32 x = 0.0f;
        if (token < p.tokens && k < p.value_dim && exponents[k] != CHANNEL_DROPPED && top != NO_EXPONENT) {
            u32 u = load_bits(value + place(p.value, g, token, k), p.value.dtype, p.value.aligned);
            f32 v = sanitize(u);
            i32 e = (i32)((bits(v) >> 23) & 255u) - 126 + exponents[k] - top; /* of v', at most 0 */
            if (v != 0.0f)
                x = from_bits((bits(v) & ~INFINITE) | (u32)(not_below(e) + 126) << 23);
        }
        rows[r * BOUND_PITCH + k] = x;
        if (k < p.value_dim) {
            f32 size = x < 0.0f ? -x : x;
            length = length + size * root(matrix[(i64)k * p.value_dim + k]);
        }
    }
    BARRIER();
    UNROLL for (i32 i = 0; i < count; i++) form[i] = 0.0f;
    for (i32 column = id; column < p.value_dim; column += items) {
        f32 sum[BOUND_ROWS_MAX];
        UNROLL for (i32 i = 0; i < count; i++) sum[i] = 0.0f;
        for (i32 k = 0; k < p.value_dim; k += 4) {
            const f32 m0 = matrix[(i64)k * p.value_dim + column];
            const f32 m1 = k + 1 < p.value_dim ? matrix[(i64)(k + 1) * p.value_dim + column] : 0.0f;
            const f32 m2 = k + 2 < p.value_dim ? matrix[(i64)(k + 2) * p.value_dim + column] : 0.0f;
            const f32 m3 = k + 3 < p.value_dim ? matrix[(i64)(k + 3) * p.value_dim + column] : 0.0f;
            UNROLL for (i32 i = 0; i < count; i++)
            {
                f32x4 v = load4(rows + i * BOUND_PITCH + k);
                sum[i] = fma_rn(m0, v.x, sum[i]);
                sum[i] = fma_rn(m1, v.y, sum[i]);
                sum[i] = fma_rn(m2, v.z, sum[i]);
                sum[i] = fma_rn(m3, v.w, sum[i]);
            }
        }
        UNROLL for (i32 i = 0; i < count; i++) form[i] = fma_rn(sum[i], rows[i * BOUND_PITCH + column], form[i]);
    }
    BARRIER();
    UNROLL for (i32 i = 0; i < count; i++) part[i * items + id] = form[i];
    BARRIER();
    /* 16 items a row: its form and its length, then the bound by the first of them. */
    form[0] = 0.0f;
    for (i32 i = lane; i < items; i += 16)
        form[0] = form[0] + part[r * items + i];
    BARRIER();
    part[id] = form[0];
    part[items + id] = length;
    BARRIER();
    if (lane == 0 && token < p.tokens) {
        GLOBAL const f32 *totals = (GLOBAL const f32 *)(work + p.at_totals) + (i64)g * 2;
        f32 all = 0.0f, bound = 0.0f;
        length = 0.0f;
        for (i32 i = 0; i < 16; i++) {
            all = all + part[id + i];
            length = length + part[items + id + i];
        }
        if (top != NO_EXPONENT) {
            const i32 e = top + group_base(packed, g, p);
            all = (all < 0.0f ? 0.0f : all) + length * length * p.form_slack;
            bound = (root(totals[0]) * root(all) + totals[1]) * p.bound_slack * p.group_inverse;
            /* N is at most 2^106, and 0 or at least 2^-100. */
            if (bound == 0.0f || e + (i32)(bits(bound) >> 23) < 27)
                bound = 0x1p-100f;
            else if (e + (i32)(bits(bound) >> 23) > 234)
                bound = 0x1p107f;
            else
                bound = scale_by(bound, e);
        }
        ((GLOBAL f32 *)(work + p.at_bound))[(i64)g * p.tokens + token] = bound;
    }
    report(work, p, bad);
}

#define BOUND(name, count)                                                                                             \
    KERNEL(name, BOUND_ITEMS(count))                                                                                   \
    (GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *work, const ckv_params p)                             \
    {                                                                                                                  \
        LOCAL_ARRAY(f32, rows, (count)*BOUND_PITCH);                                                                   \
        LOCAL_ARRAY(i32, exponents, BOUND_PITCH);                                                                      \
        LOCAL_ARRAY(i32, tops, BOUND_ITEMS(count));                                                                    \
        bound(value, packed, work, count, rows, exponents, tops, p);                                                   \
    }
BOUND(ckv_bound_4, 4)
BOUND(ckv_bound_8, 8)
BOUND(ckv_bound_16, 16)

/* Grid: (Hkv).  The rows that a selection by the bounds gave stage 2: the first list. */
KERNEL(ckv_list_best, SELECT_GROUP)(GLOBAL u8 *work, const ckv_params p)
{
    LOCAL_ARRAY(u32, count, 1);
    const i32 g = group_id(0), id = local_id();
    GLOBAL const u8 *taken = work + p.at_taken + (i64)g * p.tokens;
    GLOBAL i32 *list = (GLOBAL i32 *)(work + p.at_list) + (i64)g * p.tokens;
    if (id == 0)
        count[0] = 0u;
    BARRIER();
    for (i64 i = id; i < p.tokens; i += SELECT_GROUP)
        if (taken[i] == KEPT_STAGE2)
            list[local_add(&count[0], 1u)] = (i32)i;
    BARRIER();
    if (id == 0)
        ((GLOBAL i32 *)(work + p.at_count))[g] = (i32)count[0];
}

/*
 * Grid: (Hkv).  The least exact rank of the first list cannot be above the cut.  So of
 * the other candidates those whose bound ranks below it are out: their norm becomes 0,
 * which ranks no higher.  The rest is the second list.
 */
KERNEL(ckv_list_rest, SELECT_GROUP)(GLOBAL u8 *work, const ckv_params p)
{
    LOCAL_ARRAY(u32, count, 1);
    LOCAL_ARRAY(u32, least_of, SELECT_GROUP);
    const i32 g = group_id(0), id = local_id();
    const i64 row = (i64)g * p.tokens;
    GLOBAL const u8 *taken = work + p.at_taken + row;
    GLOBAL const u32 *attention = (GLOBAL const u32 *)(work + p.at_attention) + row;
    GLOBAL const u32 *bound = (GLOBAL const u32 *)(work + p.at_bound) + row;
    GLOBAL u32 *norm = (GLOBAL u32 *)(work + p.at_norm) + row;
    GLOBAL i32 *list = (GLOBAL i32 *)(work + p.at_list) + row;
    u32 cut = 0xffffffffu;
    if (id == 0)
        count[0] = 0u;
    for (i64 i = id; i < p.tokens; i += SELECT_GROUP)
        if (taken[i] == KEPT_STAGE2) {
            u32 rank = stage2_rank(attention[i], norm[i], p.epsilon);
            cut = rank < cut ? rank : cut;
        }
    least_of[id] = cut;
    BARRIER();
    for (i32 i = 0; i < SELECT_GROUP; i++)
        cut = least_of[i] < cut ? least_of[i] : cut;
    for (i64 i = id; i < p.tokens; i += SELECT_GROUP)
        if (taken[i] != KEPT_STAGE2) {
            norm[i] = 0u;
            if (taken[i] == NOT_KEPT && stage2_rank(attention[i], bound[i], p.epsilon) >= cut)
                list[local_add(&count[0], 1u)] = (i32)i;
        }
    BARRIER();
    if (id == 0)
        ((GLOBAL i32 *)(work + p.at_count))[g] = (i32)count[0];
}

#endif
