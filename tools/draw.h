/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded numbers, and elements and sizes made of them by integers alone, so that every
 * machine makes the same: for `ckv verify' and the tests. */
#ifndef CKV_TOOLS_DRAW_H
#define CKV_TOOLS_DRAW_H

#include <ckv/ckv.h>

#include <stdint.h>

/* xorshift64*; never seeded with 0. */
struct draw {
    uint64_t state;
};

struct draw draw_seed(uint64_t seed);
uint64_t draw_next(struct draw *draw);
int64_t draw_between(struct draw *draw, int64_t least, int64_t most);

/* Bits of a random element: sign, exponent in [low, high], mantissa.  F16 takes what its
 * range allows and makes its smallest numbers subnormal. */
uint32_t draw_element(struct draw *draw, ckv_dtype dtype, int low, int high);

/* Numbers, as binary32, that a rounding, a limb or a rank may trip over: zeros, subnormals,
 * the greatest, infinities, NaN, and both sides of the bounds of spec 3.1. */
#define DRAW_SPECIALS 16
extern const uint32_t draw_special[DRAW_SPECIALS];

/* Sizes at the edges of every kernel's tiles: a tile less one, a tile, one more, and
 * several.  Keys come in tiles of 16 and blocks of 64; rows of V in tiles of 2, 3, 4 and
 * 12, and blocks of 96; queries in tiles of 2, 5, 6 and 12; outputs in panels of 16, 24
 * and 32; channels in steps of 1, 2, 4 and 8, four times unrolled. */
enum {
    DRAW_TOKENS,
    DRAW_QUERIES,
    DRAW_HIDDEN,   /* weights of 10 bits */
    DRAW_HIDDEN_7, /* of 7 */
    DRAW_VALUE_DIM,
    DRAW_HEAD_DIM,
    DRAW_EDGES
};
extern const struct draw_edges {
    const int32_t *sizes;
    int count;
} draw_edges[DRAW_EDGES];
#define DRAW_EDGE_SIZES 92 /* in all lists */

#endif
