/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves kept rows, byte for byte (spec 7), in units of 1, 2, 4 or 8 bytes: the
 * greatest that every address and stride allows.  A row is `row_elements` elements of
 * `element_bytes`; where elements follow each other, backend.c makes it one.
 */
#ifndef CKV_GPU_COMPACT_H
#define CKV_GPU_COMPACT_H

#include "number.h"

#define COMPACT_DEPTH 8 /* rows that an item holds at a time there */

FUNCTION u64 load_unit(GLOBAL const u8 *p, i32 unit)
{
    if (unit == 8)
        return *(GLOBAL const u64 *)p;
    if (unit == 4)
        return *(GLOBAL const u32 *)p;
    if (unit == 2)
        return *(GLOBAL const u16 *)p;
    return *p;
}

FUNCTION void store_unit(GLOBAL u8 *p, i32 unit, u64 v)
{
    if (unit == 8)
        *(GLOBAL u64 *)p = v;
    else if (unit == 4)
        *(GLOBAL u32 *)p = (u32)v;
    else if (unit == 2)
        *(GLOBAL u16 *)p = (u16)v;
    else
        *p = (u8)v;
}

/* Byte offset of a unit of a row. */
FUNCTION i64 unit_place(const ckv_view v, i32 g, i64 row, i32 unit, const ckv_params p)
{
    i32 per = p.element_bytes / p.unit, element = unit / per;
    return place(v, g, row, element) + (i64)(unit - element * per) * p.unit;
}

/* The row that goes to row i, or -1 for none: a position outside the cache, which a
 * selection of this plan does not have, is reported and left alone. */
FUNCTION i32 source_row(GLOBAL const u8 *positions, GLOBAL u8 *work, i32 g, i64 i, const ckv_params p)
{
    i32 row = ((GLOBAL const i32 *)(positions + p.positions))[g * p.budget + i];
    if (row >= 0 && row < p.tokens)
        return row;
    report(work, p, BAD_SELECTION);
    return -1;
}

/* Grid: (ceil(b * units / COMPACT_GROUP), Hkv) */
KERNEL(ckv_compact, COMPACT_GROUP)
(GLOBAL const u8 *from, GLOBAL u8 *to, GLOBAL const u8 *positions, GLOBAL u8 *work, const ckv_params p)
{
    const i32 g = group_y(p), units = p.row_elements * (p.element_bytes / p.unit);
    const i64 at = (i64)group_id(0) * COMPACT_GROUP + local_id(), i = at / units;
    if (i < p.budget) {
        i32 unit = (i32)(at - i * units), row = source_row(positions, work, g, i, p);
        if (row >= 0)
            store_unit(to + unit_place(p.to, g, i, unit, p), p.unit,
                       load_unit(from + unit_place(p.from, g, row, unit, p), p.unit));
    }
}

/* Grid: (ceil(units / COMPACT_SLICE), Hkv).  One work-group moves its slice of all
 * rows, in order: what a step overwrites lies below everything that later steps read. */
KERNEL(ckv_compact_in_place, COMPACT_GROUP)
(GLOBAL u8 *cache, GLOBAL const u8 *positions, GLOBAL u8 *work, const ckv_params p)
{
    const i32 g = group_y(p), id = local_id(), units = p.row_elements * (p.element_bytes / p.unit);
    const i32 unit = group_id(0) * COMPACT_SLICE + id % COMPACT_SLICE, lane = id / COMPACT_SLICE;
    const i32 lanes = COMPACT_GROUP / COMPACT_SLICE;
    for (i64 start = 0; start < p.budget; start += lanes * COMPACT_DEPTH) {
        u64 held[COMPACT_DEPTH];
        for (i32 d = 0; d < COMPACT_DEPTH; d++) {
            i64 i = start + d * lanes + lane;
            i32 row = i < p.budget && unit < units ? source_row(positions, work, g, i, p) : -1;
            held[d] = 0;
            if (row >= 0)
                held[d] = load_unit(cache + unit_place(p.from, g, row, unit, p), p.unit);
        }
        BARRIER();
        for (i32 d = 0; d < COMPACT_DEPTH; d++) {
            i64 i = start + d * lanes + lane;
            i32 row = i < p.budget && unit < units ? source_row(positions, work, g, i, p) : -1;
            if (row >= 0)
                store_unit(cache + unit_place(p.from, g, i, unit, p), p.unit, held[d]);
        }
        BARRIER();
    }
}

#endif
