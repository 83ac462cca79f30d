/* SPDX-License-Identifier: Apache-2.0 */
/* The norm (spec 5) by AMD's matrix instructions, which all give tiles of 16 rows and 16
 * columns: what norm_mfma.h and norm_wmma.h share. */
#ifndef CKV_GPU_NORM_TILES_H
#define CKV_GPU_NORM_TILES_H

#include "norm_matrix.h"

#ifdef HAS_TILES

#define TILE_MFMA 0   /* CDNA, 64 lanes */
#define TILE_WMMA 1   /* RDNA 3, 32 lanes: each has a whole row of 16 channels */
#define TILE_WMMA12 2 /* RDNA 4, 32 lanes */
#define TILE_STAGES 2
#define TILES_MAX 2     /* tiles of rows that a wave has */
#define TILE_WORDS 8    /* the most words of an operand that a lane has of a step */
#define TILE_ELEMENTS 8 /* the most results that a lane has of a tile */
#define TILE_LANES(kind) ((kind) == TILE_MFMA ? 64 : 32)
#define TILE_GROUP(kind) (TILE_WAVES * TILE_LANES(kind))
/* LOCAL memory holds the limbs of a tile of rows, then stages of panels, then the sums of
 * every row, 16 columns of two words. */
#define TILE_SUMS (TILE_ROWS * 16 * 2)
#define TILE_GREATER(a, b) ((a) > (b) ? (a) : (b))
#define TILE_SHARED(steps)                                                                                             \
    TILE_GREATER(TILE_SUMS, TILE_GREATER(TILE_ROWS *LIMB_PITCH(steps), TILE_STAGES *PANEL_WORDS(steps)))

FUNCTION i32 tile_words(i32 kind)
{
    return kind == TILE_MFMA ? 2 : kind == TILE_WMMA12 ? 4 : 8;
}

/* The part of a step that a lane's words 2 * i and 2 * i + 1 are. */
FUNCTION i32 tile_part(i32 kind, i32 lane, i32 i)
{
    return kind == TILE_MFMA ? lane >> 4 : kind == TILE_WMMA12 ? 2 * i + (lane >> 4) : i;
}

FUNCTION i32 tile_elements(i32 kind)
{
    return kind == TILE_MFMA ? 4 : 8;
}

/* The row of a lane's result; its column is lane % 16. */
FUNCTION i32 tile_row(i32 kind, i32 lane, i32 e)
{
    return kind == TILE_MFMA ? (lane >> 4) * 4 + e : kind == TILE_WMMA12 ? (lane >> 4) * 8 + e : 2 * e + (lane >> 4);
}

/* d += a * b over a step of 32 channels. */
FUNCTION void tile_multiply(i32 kind, i32 *d, const u32 *a, const u32 *b)
{
#ifdef HAS_MFMA
    if (kind == TILE_MFMA) {
#ifdef HAS_MFMA_32
        mfma_16x16x32(d, a, b);
#else
        mfma_16x16x16(d, a[0], b[0]);
        mfma_16x16x16(d, a[1], b[1]);
#endif
    }
#endif
#ifdef HAS_WMMA
    if (kind == TILE_WMMA) {
        wmma_16x16x16(d, a, b);
        wmma_16x16x16(d, a + 4, b + 4);
    }
#endif
#ifdef HAS_WMMA12
    if (kind == TILE_WMMA12) {
        wmma12_16x16x16(d, a, b);
        wmma12_16x16x16(d, a + 2, b + 2);
    }
#endif
}

/* A lane's words of a panel's column tile: [step][tile][part][16 columns][2 words]. */
FUNCTION void load_columns(i32 kind, LOCAL const u32 *panel, i32 step, i32 tile, u32 *b)
{
    const i32 lane = local_id() % TILE_LANES(kind);
    UNROLL for (i32 i = 0; i < tile_words(kind) / 2; i++)
    {
        const i32 part = tile_part(kind, lane, i);
        const u32x2 two = load_u32x2(panel + ((step * 2 + tile) * 4 + part) * 32 + 2 * (lane & 15));
        b[2 * i] = two.x;
        b[2 * i + 1] = two.y;
    }
}

/* A lane's part of `count` column tiles of a panel from tile n on: T = 256 * high + low in one
 * accumulator, |T| added to the terms of its rows. */
FUNCTION void multiply_tiles(i32 kind, LOCAL const u32 *panel, u32 a[TILES_MAX][2][STEPS_MAX][TILE_WORDS], i32 n,
                             i32 count, i32 steps, i32 tiles, u32 terms[TILES_MAX][TILE_ELEMENTS])
{
    i32 d[2][TILES_MAX][TILE_ELEMENTS];
    u32 b[STEPS_MAX][2][TILE_WORDS];
    UNROLL for (i32 c = 0; c < count; c++) UNROLL for (i32 t = 0; t < tiles; t++)
        UNROLL for (i32 e = 0; e < tile_elements(kind); e++) d[c][t][e] = 0;
    UNROLL for (i32 s = 0; s < steps; s++) UNROLL for (i32 c = 0; c < count; c++)
    {
        load_columns(kind, panel, s, n + c, b[s][c]);
        UNROLL for (i32 t = 0; t < tiles; t++) tile_multiply(kind, d[c][t], a[t][0][s], b[s][c]);
    }
    UNROLL for (i32 c = 0; c < count; c++) UNROLL for (i32 t = 0; t < tiles; t++)
        UNROLL for (i32 e = 0; e < tile_elements(kind); e++) d[c][t][e] = (i32)((u32)d[c][t][e] << 8);
    UNROLL for (i32 s = 0; s < steps; s++) UNROLL for (i32 c = 0; c < count; c++) UNROLL for (i32 t = 0; t < tiles; t++)
        tile_multiply(kind, d[c][t], a[t][1][s], b[s][c]);
    UNROLL for (i32 c = 0; c < count; c++) UNROLL for (i32 t = 0; t < tiles; t++)
        UNROLL for (i32 e = 0; e < tile_elements(kind); e++) terms[t][e] += magnitude_of(d[c][t][e]);
}

/* A group's 16-byte pieces of a panel, from global memory into registers and from there to
 * LOCAL memory. */
FUNCTION void read_panel(GLOBAL const u8 *weights, i64 panel, i32 steps, i32 items, u32x4 *pieces)
{
    UNROLL for (i32 i = 0; 4 * items * i < PANEL_WORDS(steps); i++)
    {
        const i32 word = 4 * (items * i + local_id());
        if (word < PANEL_WORDS(steps))
            pieces[i] = load_u32x4((GLOBAL const u32 *)weights + panel * PANEL_WORDS(steps) + word);
    }
}

FUNCTION void write_panel(LOCAL u32 *stage, i32 steps, i32 items, const u32x4 *pieces)
{
    UNROLL for (i32 i = 0; 4 * items * i < PANEL_WORDS(steps); i++)
    {
        const i32 word = 4 * (items * i + local_id());
        if (word < PANEL_WORDS(steps))
            store_u32x4(stage + word, pieces[i]);
    }
}

/* A wave has 16 * tiles rows of V, their limbs in registers; the group streams the W of
 * each query head through LOCAL memory, which held the limbs before. */
FUNCTION void norm_tiles(i32 kind, GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work,
                         i32 steps, i32 tiles, LOCAL u32 *shared, LOCAL i32 *exponents, LOCAL i32 *scratch,
                         LOCAL i32 *tokens, LOCAL i32 *tops, const ckv_params p)
{
    const i32 items = TILE_GROUP(kind), rows = TILE_ROWS * tiles, g = group_y(p);
    const i32 id = local_id(), lane = id % TILE_LANES(kind), wave = id / TILE_LANES(kind);
    GLOBAL const i64 *panels = (GLOBAL const i64 *)(packed + p.at_panels);
    GLOBAL const u8 *shifts = packed + p.at_shifts, *weights = packed + p.at_weights;
    f32 total = 0.0f;
    u32 bad = 0u;
    i32 members;
    find_rows(work, g, (i64)group_id(0) * rows, rows, items, tokens, p);
    BARRIER();
    members = tokens[0] >= 0 ? p.group : 0; /* rows that are not listed are the last */
    NO_UNROLL for (i32 member = 0; member < members; member++)
    {
        const i32 head = g * p.group + member;
        const i64 begin = panels[head], end = panels[head + 1];
        u32 a[TILES_MAX][2][STEPS_MAX][TILE_WORDS];
        u64 sums[TILES_MAX][TILE_ELEMENTS];
        u32 terms[TILES_MAX][TILE_ELEMENTS];
        i32 held = 0; /* panels in terms */
        u32x4 pieces[4];
        UNROLL for (i32 t = 0; t < tiles; t++)
        {
            bad |= quantize_limbs(value, packed, head, g, tokens + TILE_ROWS * t, TILE_ROWS, items, steps, LIMB_SINGLE,
                                  exponents, scratch, tops + TILE_ROWS * t, shared, p);
            UNROLL for (i32 s = 0; s < steps; s++) UNROLL for (i32 limb = 0; limb < 2; limb++)
                UNROLL for (i32 i = 0; i < tile_words(kind) / 2; i++)
            {
                const u32x2 two = load_u32x2(shared + (16 * wave + (lane & 15)) * LIMB_PITCH(steps) + 16 * s +
                                             8 * limb + 2 * tile_part(kind, lane, i));
                a[t][limb][s][2 * i] = two.x;
                a[t][limb][s][2 * i + 1] = two.y;
            }
            UNROLL for (i32 e = 0; e < tile_elements(kind); e++)
            {
                sums[t][e] = 0u;
                terms[t][e] = 0u;
            }
        }
        if (begin < end)
            read_panel(weights, begin, steps, items, pieces);
        BARRIER();
        if (begin < end)
            write_panel(shared, steps, items, pieces);
        BARRIER();
        NO_UNROLL for (i64 panel = begin; panel < end; panel++)
        {
            const i32 stage = (i32)(panel - begin) & 1, shift = shifts[panel];
            if (panel + 1 < end)
                read_panel(weights, panel + 1, steps, items, pieces);
            /* RDNA 3 has no registers for two column tiles at once. */
            NO_UNROLL for (i32 n = 0; n < 2; n += kind == TILE_WMMA ? 1 : 2) multiply_tiles(
                kind, shared + stage * PANEL_WORDS(steps), a, n, kind == TILE_WMMA ? 1 : 2, steps, tiles, terms);
            /* 8 |T| of 128 channels are below 2^32, 4 of 256. */
            if (++held == (steps > 4 ? 2 : 4) || panel + 1 == end || shifts[panel + 1] != shift) {
                UNROLL for (i32 t = 0; t < tiles; t++) UNROLL for (i32 e = 0; e < tile_elements(kind); e++)
                {
                    sums[t][e] = add_shifted(sums[t][e], terms[t][e], shift);
                    terms[t][e] = 0u;
                }
                held = 0;
            }
            if (panel + 1 < end)
                write_panel(shared + (stage ^ 1) * PANEL_WORDS(steps), steps, items, pieces);
            BARRIER();
        }
        UNROLL for (i32 t = 0; t < tiles; t++)
        {
            UNROLL for (i32 e = 0; e < tile_elements(kind); e++)
            {
                LOCAL u32 *to = shared + ((16 * wave + tile_row(kind, lane, e)) * 16 + (lane & 15)) * 2;
                to[0] = (u32)sums[t][e];
                to[1] = (u32)(sums[t][e] >> 32);
            }
            BARRIER();
            if (id >= TILE_ROWS * t && id < TILE_ROWS * (t + 1)) {
                u64 sum = 0u;
                for (i32 i = 0; i < 16; i++) {
                    LOCAL const u32 *from = shared + ((id - TILE_ROWS * t) * 16 + i) * 2;
                    sum += (u64)from[0] | (u64)from[1] << 32;
                }
                total = total + head_norm(packed, head, tops[id], (i64)sum, p);
            }
            BARRIER();
        }
    }
    if (id < rows)
        store_norm(norm, g, tokens[id], total, p);
    report(work, p, bad);
}

/* Grid: (row tiles, Hkv). */
#define NORM_TILES(name, kind, steps, tiles)                                                                           \
    KERNEL(name, TILE_GROUP(kind))                                                                                     \
    (GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work, const ckv_params p)            \
    {                                                                                                                  \
        LOCAL_ARRAY(u32, shared, TILE_SHARED(steps));                                                                  \
        LOCAL_ARRAY(i32, exponents, 32 * (steps));                                                                     \
        LOCAL_ARRAY(i32, scratch, 2 * TILE_GROUP(kind));                                                               \
        LOCAL_ARRAY(i32, tokens, TILE_ROWS *(tiles));                                                                  \
        LOCAL_ARRAY(i32, tops, TILE_ROWS *(tiles));                                                                    \
        norm_tiles(kind, value, packed, norm, work, steps, tiles, shared, exponents, scratch, tokens, tops, p);        \
    }

#endif
#endif
