/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded numbers, elements and sizes; see draw.h. */
#include "draw.h"

struct draw draw_seed(uint64_t seed)
{
    struct draw draw = {seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019)};

    if (draw.state == 0)
        draw.state = 1;
    for (int i = 0; i < 8; i++)
        draw_next(&draw);
    return draw;
}

uint64_t draw_next(struct draw *draw)
{
    uint64_t x = draw->state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    draw->state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

int64_t draw_between(struct draw *draw, int64_t least, int64_t most)
{
    return least + (int64_t)((draw_next(draw) >> 11) % (uint64_t)(most - least + 1));
}

uint32_t draw_element(struct draw *draw, ckv_dtype dtype, int low, int high)
{
    uint32_t word = (uint32_t)(draw_next(draw) >> 32);
    int exponent = (int)draw_between(draw, low, high);

    if (dtype == CKV_F16) {
        int field = exponent + 15;
        uint32_t mantissa = word & 0x3ffu;

        if (field > 30)
            field = 30;
        if (field < 0)
            field = 0;
        return ((word >> 31) << 15) | ((uint32_t)field << 10) | mantissa;
    }
    word = (word & 0x807fffffu) | ((uint32_t)(exponent + 127) << 23);
    return dtype == CKV_BF16 ? word >> 16 : word;
}

const uint32_t draw_special[DRAW_SPECIALS] = {
    0x00000000u, 0x80000000u, 0x00000001u, 0x807fffffu, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u,
    0x7fc00000u, 0xffffffffu, 0x3f7fffffu, 0xbf7fffffu, 0x2c000000u, 0x2bffffffu, 0x53800000u, 0x53800001u};

static const int32_t tokens[] = {1, 2, 15, 16, 17, 48, 63, 64, 65, 95, 96, 97, 128, 129, 191, 192, 193, 300};
static const int32_t queries[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 23, 24, 25, 36, 60};
static const int32_t hidden[] = {1, 7, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 95, 96, 97};
static const int32_t hidden_7[] = {1024, 1025, 1031, 1039, 1040, 1041, 1055, 1056, 1057};
static const int32_t value_dim[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 127, 129};
static const int32_t head_dim[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64, 127};

_Static_assert(sizeof tokens + sizeof queries + sizeof hidden + sizeof hidden_7 + sizeof value_dim + sizeof head_dim ==
                   DRAW_EDGE_SIZES * sizeof(int32_t),
               "DRAW_EDGE_SIZES");

#define EDGES(list)                                                                                                    \
    {                                                                                                                  \
        list, (int)(sizeof(list) / sizeof *(list))                                                                     \
    }
const struct draw_edges draw_edges[DRAW_EDGES] = {EDGES(tokens),   EDGES(queries),   EDGES(hidden),
                                                  EDGES(hidden_7), EDGES(value_dim), EDGES(head_dim)};
