/* SPDX-License-Identifier: Apache-2.0 */
/* The norm (spec 5) by NVIDIA's matrix instructions on bytes, m16n8k32 or m8n8k16. */
#ifndef CKV_GPU_NORM_MMA_H
#define CKV_GPU_NORM_MMA_H

#include "norm_matrix.h"

#ifdef HAS_MMA

#define MMA_GROUP 128
#define MMA_TILES_MAX 2
#define MMA_STAGES 4 /* panels on their way; a power of two */

/* d += a * b over a step of 32 channels; before sm_80 in four parts, of the same registers:
 * halves of the rows, halves of k. */
FUNCTION void mma_step(i32 *d, const u32 *a, const u32 *b)
{
#ifdef HAS_MMA_32
    mma_m16n8k32(d, a, b);
#else
    mma_m8n8k16(d, a[0], b[0]);
    mma_m8n8k16(d, a[2], b[1]);
    mma_m8n8k16(d + 2, a[1], b[0]);
    mma_m8n8k16(d + 2, a[3], b[1]);
#endif
}

/* Starts the copy of a panel to its stage. */
FUNCTION void fetch_panel(GLOBAL const u8 *weights, i64 panel, i64 end, i32 stage, i32 steps, LOCAL u32 *stages)
{
    if (panel < end) {
        GLOBAL const u32 *from = (GLOBAL const u32 *)weights + panel * PANEL_WORDS(steps);
        LOCAL u32 *to = stages + stage * PANEL_WORDS(steps);
        UNROLL for (i32 i = 4 * local_id(); i < PANEL_WORDS(steps); i += 4 * MMA_GROUP) copy_async(to + i, from + i);
    }
    copy_commit();
}

/* A lane's part of a panel: T = 256 * high + low in one accumulator, |T| added to the
 * sums of its rows. */
FUNCTION void multiply_panel(LOCAL const u32 *panel, u32 a[MMA_TILES_MAX][2][STEPS_MAX][4], i32 shift, i32 steps,
                             i32 tiles, u64 sums[MMA_TILES_MAX][2])
{
    const i32 lane = local_id() & 31;
    u32 terms[MMA_TILES_MAX][2] = {{0u, 0u}, {0u, 0u}};
    UNROLL for (i32 pair = 0; pair < PANEL_COLUMNS / 16; pair++)
    {
        i32 d[2][MMA_TILES_MAX][4];
        u32 b[2][STEPS_MAX][2];
        UNROLL for (i32 n = 0; n < 2; n++)
        {
            UNROLL for (i32 s = 0; s < steps; s++)
            {
                const u32x2 two = load_u32x2(panel + (s * PANEL_COLUMNS + 16 * pair + 8 * n) * 8 + 2 * lane);
                b[n][s][0] = two.x;
                b[n][s][1] = two.y;
            }
            UNROLL for (i32 t = 0; t < tiles; t++) UNROLL for (i32 e = 0; e < 4; e++) d[n][t][e] = 0;
        }
        UNROLL for (i32 limb = 0; limb < 2; limb++)
        {
            UNROLL for (i32 s = 0; s < steps; s++) UNROLL for (i32 n = 0; n < 2; n++)
                UNROLL for (i32 t = 0; t < tiles; t++) mma_step(d[n][t], a[t][limb][s], b[n][s]);
            if (limb == 0) {
                UNROLL for (i32 n = 0; n < 2; n++) UNROLL for (i32 t = 0; t < tiles; t++)
                    UNROLL for (i32 e = 0; e < 4; e++) d[n][t][e] = (i32)((u32)d[n][t][e] << 8);
            }
        }
        UNROLL for (i32 t = 0; t < tiles; t++)
        {
            UNROLL for (i32 half_tile = 0; half_tile < 2; half_tile++)
            {
                UNROLL for (i32 n = 0; n < 2; n++) terms[t][half_tile] +=
                    magnitude_of(d[n][t][2 * half_tile]) + magnitude_of(d[n][t][2 * half_tile + 1]);
                /* 8 |T| of 128 channels are below 2^32, 4 of 256. */
                if (steps > 4 || pair == PANEL_COLUMNS / 16 - 1) {
                    sums[t][half_tile] = add_shifted(sums[t][half_tile], terms[t][half_tile], shift);
                    terms[t][half_tile] = 0u;
                }
            }
        }
    }
}

/*
 * A warp has 16 * tiles rows of V, their limbs in registers; the group streams the W of
 * each query head through LOCAL memory, which held the limbs before.
 */
FUNCTION void norm_mma(GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work, i32 steps,
                       i32 tiles, LOCAL u32 *shared, LOCAL i32 *exponents, LOCAL i32 *scratch, LOCAL i32 *tokens,
                       LOCAL i32 *tops, const ckv_params p)
{
    const i32 id = local_id(), lane = id & 31, part = lane & 3, rows = MMA_ROWS(tiles), g = group_y(p);
    const i32 first_row = (id >> 5) * 16 * tiles + (lane >> 2);
    GLOBAL const i64 *panels = (GLOBAL const i64 *)(packed + p.at_panels);
    GLOBAL const u8 *shifts = packed + p.at_shifts, *weights = packed + p.at_weights;
    f32 total = 0.0f;
    u32 bad = 0u;
    i32 members;
    find_rows(work, g, (i64)group_id(0) * rows, rows, MMA_GROUP, tokens, p);
    BARRIER();
    members = tokens[0] >= 0 ? p.group : 0; /* rows that are not listed are the last */
    NO_UNROLL for (i32 member = 0; member < members; member++)
    {
        const i32 head = g * p.group + member;
        const i64 begin = panels[head], end = panels[head + 1];
        u32 a[MMA_TILES_MAX][2][STEPS_MAX][4];
        u64 sums[MMA_TILES_MAX][2];
        bad |= quantize_limbs(value, packed, head, g, tokens, rows, MMA_GROUP, steps, LIMB_PAIRED, exponents, scratch,
                              tops, shared, p);
        UNROLL for (i32 t = 0; t < tiles; t++)
        {
            LOCAL const u32 *limbs = shared + place_of_row(first_row + 16 * t, steps, LIMB_PAIRED) + 4 * part;
            UNROLL for (i32 s = 0; s < steps; s++)
            {
                UNROLL for (i32 limb = 0; limb < 2; limb++)
                {
                    const u32x4 four = load_u32x4(limbs + 32 * s + 16 * limb);
                    a[t][limb][s][0] = four.x;
                    a[t][limb][s][1] = four.y;
                    a[t][limb][s][2] = four.z;
                    a[t][limb][s][3] = four.w;
                }
            }
            sums[t][0] = 0u;
            sums[t][1] = 0u;
        }
        BARRIER();
        UNROLL for (i32 stage = 0; stage < MMA_STAGES - 1; stage++)
            fetch_panel(weights, begin + stage, end, stage, steps, shared);
        NO_UNROLL for (i64 panel = begin; panel < end; panel++)
        {
            const i32 stage = (i32)(panel - begin) & (MMA_STAGES - 1), shift = shifts[panel];
            copy_wait(MMA_STAGES - 2);
            BARRIER(); /* this stage has come, and all are done with the one before */
            fetch_panel(weights, panel + MMA_STAGES - 1, end, (stage + MMA_STAGES - 1) & (MMA_STAGES - 1), steps,
                        shared);
            multiply_panel(shared + stage * PANEL_WORDS(steps), a, shift, steps, tiles, sums);
        }
        BARRIER();
        UNROLL for (i32 t = 0; t < tiles; t++)
        {
            UNROLL for (i32 half_tile = 0; half_tile < 2; half_tile++)
            {
                LOCAL u32 *to = shared + (first_row + 16 * t + 8 * half_tile) * 8 + 2 * part;
                to[0] = (u32)sums[t][half_tile];
                to[1] = (u32)(sums[t][half_tile] >> 32);
            }
        }
        BARRIER();
        if (id < rows) {
            u64 sum = 0u;
            for (i32 i = 0; i < 4; i++)
                sum += (u64)shared[id * 8 + 2 * i] | (u64)shared[id * 8 + 2 * i + 1] << 32;
            total = total + head_norm(packed, head, tops[id], (i64)sum, p);
        }
    }
    if (id < rows)
        store_norm(norm, g, tokens[id], total, p);
    report(work, p, bad);
}

/* Grid: (row tiles, Hkv).  `tiles` such that a lane's limbs are at most 64 registers; names
 * that end in x1 have one where there could be two. */
#define NORM_MMA(name, steps, tiles, resident)                                                                         \
    KERNEL_RESIDENT(name, MMA_GROUP, resident)                                                                         \
    (GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work, const ckv_params p)            \
    {                                                                                                                  \
        LOCAL_ARRAY(u32, shared, MMA_SHARED(steps, tiles));                                                            \
        LOCAL_ARRAY(i32, exponents, 32 * (steps));                                                                     \
        LOCAL_ARRAY(i32, scratch, 2 * MMA_GROUP);                                                                      \
        LOCAL_ARRAY(i32, tokens, MMA_ROWS(tiles));                                                                     \
        LOCAL_ARRAY(i32, tops, MMA_ROWS(tiles));                                                                       \
        norm_mma(value, packed, norm, work, steps, tiles, shared, exponents, scratch, tokens, tops, p);                \
    }
#define MMA_SHARED(steps, tiles)                                                                                       \
    (MMA_ROWS(tiles) * LIMB_PITCH(steps) > MMA_STAGES * PANEL_WORDS(steps) ? MMA_ROWS(tiles) * LIMB_PITCH(steps)       \
                                                                           : MMA_STAGES * PANEL_WORDS(steps))

NORM_MMA(ckv_norm_mma_32, 1, 2, 3)
NORM_MMA(ckv_norm_mma_64, 2, 2, 3)
NORM_MMA(ckv_norm_mma_96, 3, 2, 3)
NORM_MMA(ckv_norm_mma_128, 4, 2, 3)
NORM_MMA(ckv_norm_mma_256, 8, 1, 2)
NORM_MMA(ckv_norm_mma_32x1, 1, 1, 3)
NORM_MMA(ckv_norm_mma_64x1, 2, 1, 3)
NORM_MMA(ckv_norm_mma_96x1, 3, 1, 3)
NORM_MMA(ckv_norm_mma_128x1, 4, 1, 3)

#endif
#endif
