/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the routes of the norm over matrix instructions share.  Channels go in steps of
 * 32, a step in four parts of 8 channels: two words of four bytes.  Which channel meets
 * which k of an instruction is free as long as V and W agree, so that one packing of W
 * and one of V serve all instructions.
 */
#ifndef CKV_GPU_NORM_MATRIX_H
#define CKV_GPU_NORM_MATRIX_H

#include "quantize.h"

/* Columns of a panel of W, all of one shift; pack_panels.c has the same. */
#define PANEL_COLUMNS 32
#define STEPS_MAX 8
#define NO_CHANNEL 0x10000 /* beyond any value_dim */
/* Words of a row's limbs in LOCAL memory: [step][limb][part][word], and 8 more so that
 * rows begin in different banks.  Where an operand has rows r and r + 8 of a tile, the two
 * are one row of twice the pitch, [step][limb][part][word][half of the tile]: such an
 * operand is one load, into registers that lie together. */
#define LIMB_PITCH(steps) (16 * (steps) + 8)
#define LIMB_SINGLE 1 /* words from one of a part to the next: rows by themselves */
#define LIMB_PAIRED 2 /* by pairs */
#define PANEL_WORDS(steps) (PANEL_COLUMNS * 8 * (steps))

#ifdef HAS_MATRIX

/* Eight elements of a row from channel k on, unsanitised, 0 beyond dv. */
FUNCTION void load_octet(GLOBAL const u8 *row, i32 k, i32 vector, u32 *v, const ckv_params p)
{
    if (vector && k + 8 <= p.value_dim && p.value.dtype == DTYPE_F32) {
        const u32x4 a = load_u32x4(row + (i64)k * 4), b = load_u32x4(row + (i64)k * 4 + 16);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else if (vector && k + 8 <= p.value_dim) {
        const u32x4 a = load_u32x4(row + (i64)k * 2);
        const u32 pair[4] = {a.x, a.y, a.z, a.w};
        UNROLL for (i32 i = 0; i < 4; i++)
        {
            if (p.value.dtype == DTYPE_BF16) {
                v[2 * i] = pair[i] << 16;
                v[2 * i + 1] = pair[i] & 0xffff0000u;
            } else {
                v[2 * i] = half_bits(pair[i] & 0xffffu);
                v[2 * i + 1] = half_bits(pair[i] >> 16);
            }
        }
    } else {
        UNROLL for (i32 i = 0; i < 8; i++) v[i] =
            k + i < p.value_dim ? load_bits(row + (k + i) * p.value.element, p.value.dtype, p.value.aligned) : 0u;
    }
}

/* The integers of spec 5.2 of an octet as words of limbs: q = 256 * high + low, both
 * signed bytes.  The greatest |q|. */
FUNCTION i32 store_limbs(const u32 *v, LOCAL const i32 *exponents, i32 scale, i32 pairing, LOCAL u32 *to)
{
    const f32 round = 12582912.0f;
    i32 greatest = 0;
    UNROLL for (i32 word = 0; word < 2; word++)
    {
        u32 high = 0u, low = 0u;
        UNROLL for (i32 i = 0; i < 4; i++)
        {
            i32 e = scale + exponents[4 * word + i], q;
            e = e > 60 ? 60 : e; /* as in quantize(); a dropped channel comes to 0 here too */
            e = e < -80 ? -80 : e;
            q = (i32)(bits(sanitize(v[4 * word + i]) * power(e) + round) - bits(round));
            low |= ((u32)q & 255u) << (8 * i);
            high |= ((u32)(q + 128) >> 8 & 255u) << (8 * i);
            q = q < 0 ? -q : q;
            greatest = q > greatest ? q : greatest;
        }
        to[pairing * word] = high;
        to[pairing * (8 + word)] = low;
    }
    return greatest;
}

/* Where the limbs of a row begin. */
FUNCTION i32 place_of_row(i32 row, i32 steps, i32 pairing)
{
    if (pairing == LIMB_SINGLE)
        return row * LIMB_PITCH(steps);
    return ((row >> 4) * 8 + (row & 7)) * 2 * LIMB_PITCH(steps) + (row >> 3 & 1);
}

FUNCTION i32 greatest_of_four(LOCAL const i32 *p)
{
    i32 a = p[0] > p[1] ? p[0] : p[1], b = p[2] > p[3] ? p[2] : p[3];
    return a > b ? a : b;
}

/*
 * The limbs of `rows` rows, and their R in tops[]; `items` work-items, four a row, `rows` a
 * multiple of items / 4.  scratch[2 * items], exponents[32 * steps].  Starts and ends
 * with a barrier.
 */
FUNCTION u32 quantize_limbs(GLOBAL const u8 *value, GLOBAL const u8 *packed, i32 head, i32 g, LOCAL const i32 *tokens,
                            i32 rows, i32 items, i32 steps, i32 pairing, LOCAL i32 *exponents, LOCAL i32 *scratch,
                            LOCAL i32 *tops, LOCAL u32 *limbs, const ckv_params p)
{
    GLOBAL const i16 *of_head = (GLOBAL const i16 *)(packed + p.at_exponents) + (i64)head * p.value_dim;
    const i32 id = local_id(), part = id & 3;
    const i32 size = p.value.dtype == DTYPE_F32 ? 4 : 2;
    const i32 vector = p.value.element == size &&
                       ((address(value) + (u64)p.value.offset) | (u64)p.value.head | (u64)p.value.token) % 16u == 0u;
    u32 largest = 0u;
    BARRIER();
    for (i32 k = id; k < 32 * steps; k += items)
        exponents[k] = k < p.value_dim ? of_head[k] : CHANNEL_DROPPED;
    BARRIER();
    NO_UNROLL for (i32 first = 0; first < rows; first += items / 4)
    {
        const i32 row = first + (id >> 2), token = tokens[row];
        i32 top = NO_EXPONENT, again = 0;
        GLOBAL const u8 *from = value + place(p.value, g, token < 0 ? 0 : token, 0);
        QUANTIZE_LOOP for (i32 s = 0; s < steps; s++)
        {
            u32 v[8];
            load_octet(from, token < 0 ? NO_CHANNEL : 32 * s + 8 * part, vector, v, p);
            UNROLL for (i32 i = 0; i < 8; i++)
            {
                u32 magnitude = v[i] & ~SIGN;
                i32 e;
                largest = magnitude > largest ? magnitude : largest;
                magnitude = bits(sanitize(v[i])) & ~SIGN;
                e = (i32)(magnitude >> 23) - 126 + exponents[32 * s + 8 * part + i];
                top = magnitude != 0u && e > top ? e : top; /* a dropped channel's e is below any */
            }
        }
        scratch[id] = top;
        BARRIER();
        top = greatest_of_four(scratch + (id & ~3));
        NO_UNROLL for (;;)
        {
            i32 greatest = 0;
            QUANTIZE_LOOP for (i32 s = 0; s < steps; s++)
            {
                u32 v[8];
                i32 of_octet;
                load_octet(from, token < 0 ? NO_CHANNEL : 32 * s + 8 * part, vector, v, p);
                of_octet = store_limbs(v, exponents + 32 * s + 8 * part, p.value_bits - top, pairing,
                                       limbs + place_of_row(row, steps, pairing) + pairing * (16 * s + 2 * part));
                greatest = of_octet > greatest ? of_octet : greatest;
            }
            if (again)
                break;
            scratch[items + id] = greatest;
            BARRIER();
            if (greatest_of_four(scratch + items + (id & ~3)) <= Q_MAX)
                break;
            top++;
            again = 1;
        }
        if (part == 0)
            tops[row] = top;
    }
    BARRIER();
    return largest >= INFINITE ? BAD_VALUE : 0u;
}

/* Adds terms of one shift to S of spec 5.3. */
FUNCTION u64 add_shifted(u64 sum, u32 terms, i32 shift)
{
    return sum + ((u64)terms << shift);
}

FUNCTION u32 magnitude_of(i32 t)
{
    return (u32)(t < 0 ? -t : t);
}

#endif
#endif
