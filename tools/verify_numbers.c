/* SPDX-License-Identifier: Apache-2.0 */
/* Plainer numbers in the tensors of a problem; see verify_numbers.h. */
#include "verify_numbers.h"

#include "draw.h"
#include "lib/numeric.h"
#include "verify_place.h"

#include <stdlib.h>
#include <string.h>

bool verify_widen(struct verify_problem *p, enum verify_input input)
{
    const int64_t count = verify_count(p, input);
    uint32_t *wide = malloc((size_t)count * sizeof *wide + 1);

    if (wide == NULL)
        return false;
    for (int64_t i = 0; i < count; i++)
        wide[i] = ckv_load_bits((const char *)p->cells[input] + 2 * i, p->dtype[input]);
    free(p->cells[input]);
    p->cells[input] = wide;
    p->dtype[input] = CKV_F32;
    return true;
}

static uint32_t one_of(ckv_dtype dtype)
{
    return dtype == CKV_F32 ? 0x3f800000u : dtype == CKV_F16 ? 0x3c00u : 0x3f80u;
}

static uint32_t number_at(const struct verify_problem *p, int input, int64_t at)
{
    uint32_t word;
    uint16_t half;

    if (p->dtype[input] == CKV_F32) {
        memcpy(&word, (const char *)p->cells[input] + 4 * at, sizeof word);
        return word;
    }
    memcpy(&half, (const char *)p->cells[input] + 2 * at, sizeof half);
    return half;
}

static void put_number(struct verify_problem *p, int input, int64_t at, uint32_t word)
{
    uint16_t half = (uint16_t)word;

    if (p->dtype[input] == CKV_F32)
        memcpy((char *)p->cells[input] + 4 * at, &word, sizeof word);
    else
        memcpy((char *)p->cells[input] + 2 * at, &half, sizeof half);
}

static uint32_t plainer(ckv_dtype dtype, uint32_t bits, enum verify_plainer how, int64_t at)
{
    const uint32_t exponent = dtype == CKV_F32 ? 0x7f800000u : dtype == CKV_F16 ? 0x7c00u : 0x7f80u;
    const uint32_t sign = dtype == CKV_F32 ? CKV_SIGN_BIT : 0x8000u;
    const uint32_t step = dtype == CKV_F32 ? 0x800000u : dtype == CKV_F16 ? 0x400u : 0x80u;

    if (how == VERIFY_ONES)
        return one_of(dtype);
    if (how == VERIFY_SMALL_INTEGERS) /* 1, 2, 4, 8 in turn: not all one */
        return one_of(dtype) + step * (uint32_t)(at % 4);
    if ((bits & exponent) == exponent || (bits & exponent) == 0)
        return 0; /* NaN, infinite, subnormal */
    return how == VERIFY_POWERS ? bits & (sign | exponent) : bits;
}

bool verify_plainer(struct verify_problem *p, enum verify_input input, int64_t first, int64_t length,
                    enum verify_plainer how)
{
    bool changed = false;

    for (int64_t i = first; i < first + length; i++) {
        uint32_t before = number_at(p, (int)input, i), after = plainer(p->dtype[input], before, how, i);

        changed = changed || (before != after && before != one_of(p->dtype[input]));
        put_number(p, (int)input, i, after);
    }
    return changed;
}

bool verify_redraw(struct verify_problem *p, uint64_t seed)
{
    struct draw r = draw_seed(seed);

    for (int i = 0; i < VERIFY_INPUTS; i++) {
        const enum verify_input input = (enum verify_input)i;

        for (int64_t at = 0; p->cells[i] != NULL && at < verify_count(p, input); at++)
            put_number(p, i, at, draw_element(&r, p->dtype[i], -3, 0));
        if (!verify_settle(p, input))
            return false;
    }
    return true;
}
