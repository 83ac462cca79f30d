/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forced entries, stage 1, stage 2 (spec 6): one work-group a head, exact, with ties
 * by position.  The cut of a stage is found by radix on the ranks' bits, 11, 11 and 10
 * at a time; ranks are computed from the scores each time, so that nothing is stored
 * but a byte a row.
 */
#ifndef CKV_GPU_SELECT_H
#define CKV_GPU_SELECT_H

#include "number.h"

#ifndef SELECT_GROUP
#define SELECT_GROUP 256
#endif
#define SELECT_BINS 2048
#define SELECT_PER 8 /* consecutive rows of an item, in passes that need their order */

/* CKV_KEPT_* of ckv.h, and what is none of them. */
#define KEPT_ALL 0
#define KEPT_FORCED 1
#define KEPT_STAGE1 2
#define KEPT_STAGE2 3
#define NOT_KEPT 255

/* The scores of one head. */
FUNCTION u32 score_bits(GLOBAL const u8 *scores, const ckv_view v, i32 g, i64 i)
{
    return load_bits(scores + place(v, g, i, 0), DTYPE_F32, v.aligned);
}

/* Spec 6.1 */
FUNCTION u32 rank_bits(u32 u)
{
    if (is_nan(u))
        return 0u;
    if (u == SIGN)
        u = 0u;
    return (u & SIGN) != 0u ? ~u : u | SIGN;
}

/* Spec 6.4, of the words of A and N. */
FUNCTION u32 stage2_rank(u32 attention, u32 norm, f32 epsilon)
{
    f32 a = from_bits(attention), n = from_bits(norm), sum;
    if (is_nan(attention) || is_nan(norm))
        return 0u;
    a = a < 0x1p-126f ? 0.0f : a;
    a = a > 0x1p20f ? 0x1p20f : a;
    n = n < 0x1p-100f ? 0.0f : n;
    n = n > 0x1p106f ? 0x1p106f : n;
    sum = a + epsilon;
    return bits(sum * n) | SIGN;
}

/* The rank of candidate i in a stage; stage 2 has those that stage 1 left. */
FUNCTION u32 candidate_rank(GLOBAL const u8 *attention, GLOBAL const u8 *norm, i32 stage, i32 g, i64 i,
                            const ckv_params p)
{
    u32 a = score_bits(attention, p.attention, g, i);
    if (stage == KEPT_STAGE1)
        return rank_bits(a);
    return stage2_rank(a, score_bits(norm, p.norm, g, i), p.epsilon);
}

/* cut[0]: the rank of the count-th best candidate; cut[1]: how many of that rank are in. */
FUNCTION void find_cut(GLOBAL const u8 *attention, GLOBAL const u8 *norm, GLOBAL const u8 *taken, i32 stage, i32 g,
                       i64 count, LOCAL u32 *bins, LOCAL u32 *scan, LOCAL u32 *cut, const ckv_params p)
{
    const i32 id = local_id();
    u32 prefix = 0u, known = 0u, left = (u32)count;
    for (i32 level = 0; level < 3; level++) {
        const i32 shift = level == 0 ? 21 : level == 1 ? 10 : 0;
        const u32 mask = level == 2 ? 1023u : 2047u;
        for (i32 b = id; b < SELECT_BINS; b += SELECT_GROUP)
            bins[b] = 0u;
        BARRIER();
        for (i64 i = p.low + id; i < p.high; i += SELECT_GROUP)
            if (stage == KEPT_STAGE1 || taken[i] == NOT_KEPT) {
                u32 rank = candidate_rank(attention, norm, stage, g, i, p);
                if ((rank & known) == prefix)
                    local_add(&bins[(rank >> shift) & mask], 1u);
            }
        BARRIER();
        scan[id] = 0u;
        for (i32 b = 0; b < SELECT_BINS / SELECT_GROUP; b++)
            scan[id] += bins[id * (SELECT_BINS / SELECT_GROUP) + b];
        BARRIER();
        if (id == 0) {
            i32 part = SELECT_GROUP - 1, bin;
            u32 rest = left;
            while (part > 0 && rest > scan[part])
                rest -= scan[part--];
            bin = part * (SELECT_BINS / SELECT_GROUP) + SELECT_BINS / SELECT_GROUP - 1;
            while (bin > 0 && rest > bins[bin])
                rest -= bins[bin--];
            cut[0] = (u32)bin;
            cut[1] = rest;
        }
        BARRIER();
        prefix |= cut[0] << shift;
        known |= mask << shift;
        left = cut[1];
        BARRIER();
    }
    if (id == 0) {
        cut[0] = prefix;
        cut[1] = left;
    }
    BARRIER();
}

/* scan[id] = sum of scan[0..id]. */
FUNCTION void scan_items(LOCAL u32 *scan)
{
    const i32 id = local_id();
    for (i32 step = 1; step < SELECT_GROUP; step *= 2) {
        u32 add = id >= step ? scan[id - step] : 0u;
        BARRIER();
        scan[id] += add;
        BARRIER();
    }
}

/*
 * Walks all rows in order, SELECT_PER a work-item at a time.  Rows above the cut are
 * in, and the first `ties` of those at it.  Stage 1 marks in `taken`; stage 2 also
 * counts what was kept before it and writes everything kept to the outputs.
 */
FUNCTION void walk(GLOBAL const u8 *attention, GLOBAL const u8 *norm, GLOBAL u8 *taken, GLOBAL i32 *positions,
                   GLOBAL u8 *stages, i32 stage, i32 g, i64 count, LOCAL const u32 *bounds, LOCAL u32 *scan,
                   const ckv_params p)
{
    const i32 id = local_id();
    const u32 cut = count > 0 ? bounds[0] : 0u, ties = count > 0 ? bounds[1] : 0u;
    u32 kept_before = 0u, ties_before = 0u;
    for (i64 start = 0; start < p.tokens; start += SELECT_GROUP * SELECT_PER) {
        const i64 mine = start + (i64)id * SELECT_PER;
        u32 above = 0u, equal = 0u, in = 0u, tie = 0u, kept, seen, last;
        for (i32 i = 0; i < SELECT_PER && mine + i < p.tokens; i++) {
            i64 row = mine + i;
            u32 rank;
            if (row < p.low || row >= p.high) {
                in |= 1u << i;
                continue;
            }
            if (stage == KEPT_STAGE2 && taken[row] != NOT_KEPT) {
                in |= 1u << i;
                continue;
            }
            if (count == 0)
                continue;
            rank = candidate_rank(attention, norm, stage, g, row, p);
            if (rank > cut)
                in |= 1u << i;
            else if (rank == cut)
                tie |= 1u << i;
        }
        for (i32 i = 0; i < SELECT_PER; i++) {
            above += (in >> i) & 1u;
            equal += (tie >> i) & 1u;
        }
        scan[id] = above << 16 | equal;
        BARRIER();
        scan_items(scan);
        last = scan[SELECT_GROUP - 1];
        seen = ties_before + (scan[id] & 0xffffu) - equal;
        kept = kept_before + (scan[id] >> 16) - above + (seen < ties ? seen : ties) -
               (ties_before < ties ? ties_before : ties);
        for (i32 i = 0; i < SELECT_PER && mine + i < p.tokens; i++) {
            i64 row = mine + i;
            i32 is_tie = (i32)((tie >> i) & 1u), is_in = (i32)((in >> i) & 1u);
            if (is_tie) {
                is_in = seen < ties;
                seen++;
            }
            if (stage == KEPT_STAGE1) {
                taken[row] = (u8)(!is_in ? NOT_KEPT : row < p.low || row >= p.high ? KEPT_FORCED : KEPT_STAGE1);
            } else if (is_in) {
                if (taken[row] == NOT_KEPT)
                    taken[row] = KEPT_STAGE2;
                positions[kept] = (i32)row;
                if (p.want_stages)
                    stages[kept] = taken[row];
                kept++;
            }
        }
        seen = ties_before + (last & 0xffffu);
        kept_before += (last >> 16) + (seen < ties ? seen : ties) - (ties_before < ties ? ties_before : ties);
        ties_before = seen;
        BARRIER();
    }
}

/* Grid: (Hkv) */
KERNEL(ckv_select, SELECT_GROUP)
(GLOBAL const u8 *attention, GLOBAL const u8 *norm, GLOBAL u8 *positions, GLOBAL u8 *offsets, GLOBAL u8 *stages,
 GLOBAL u8 *work, const ckv_params p)
{
    LOCAL_ARRAY(u32, bins, SELECT_BINS);
    LOCAL_ARRAY(u32, scan, SELECT_GROUP);
    LOCAL_ARRAY(u32, cut, 2);
    const i32 g = group_id(0), id = local_id();
    const i64 forced = p.tokens - (p.high - p.low), first = p.stage1 > forced ? p.stage1 - forced : 0;
    const i64 second = p.budget - forced - first;
    GLOBAL u8 *taken = work + p.at_taken + (i64)g * p.tokens;
    GLOBAL i32 *kept = (GLOBAL i32 *)(positions + p.positions) + (i64)g * p.budget;
    GLOBAL i32 *ends = (GLOBAL i32 *)(offsets + p.offsets);
    u32 bad = 0u;
    for (i64 i = id; i < p.tokens; i += SELECT_GROUP) {
        bad |= is_nonfinite(score_bits(attention, p.attention, g, i)) ? BAD_ATTENTION : 0u;
        bad |= is_nonfinite(score_bits(norm, p.norm, g, i)) ? BAD_NORM : 0u;
    }
    report(work, p, bad);
    for (i32 stage = KEPT_STAGE1; stage <= KEPT_STAGE2; stage++) {
        const i64 count = stage == KEPT_STAGE1 ? first : second;
        if (count > 0)
            find_cut(attention, norm, taken, stage, g, count, bins, scan, cut, p);
        walk(attention, norm, taken, kept, stages + p.stages + (i64)g * p.budget, stage, g, count, cut, scan, p);
    }
    if (id == 0) {
        if (g == 0)
            ends[0] = 0;
        ends[g + 1] = (i32)((g + 1) * p.budget);
    }
}

/* Grid: (Hkv).  Budgets of all tokens, or of none. */
KERNEL(ckv_keep_all, SELECT_GROUP)(GLOBAL u8 *positions, GLOBAL u8 *offsets, GLOBAL u8 *stages, const ckv_params p)
{
    const i32 g = group_id(0), id = local_id();
    for (i64 i = id; i < p.budget; i += SELECT_GROUP) {
        ((GLOBAL i32 *)(positions + p.positions))[g * p.budget + i] = (i32)i;
        if (p.want_stages)
            (stages + p.stages)[g * p.budget + i] = KEPT_ALL;
    }
    if (id == 0) {
        if (g == 0)
            ((GLOBAL i32 *)(offsets + p.offsets))[0] = 0;
        ((GLOBAL i32 *)(offsets + p.offsets))[g + 1] = (i32)((g + 1) * p.budget);
    }
}

#endif
