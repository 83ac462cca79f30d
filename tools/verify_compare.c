/* SPDX-License-Identifier: Apache-2.0 */
/* Results of two runs held against each other, and the bit that is made to differ. */
#include "lib/numeric.h"
#include "verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t elements(const struct verify_block *block)
{
    return block->cells == NULL ? 0 : block->extent[0] * block->extent[1] * block->extent[2];
}

uint64_t verify_bits(const struct verify_result *result)
{
    uint64_t bytes = 0;

    for (int i = 0; i < VERIFY_BLOCKS; i++)
        bytes += (uint64_t)elements(&result->block[i]) * result->block[i].unit;
    return 8 * bytes;
}

/* "attention[0,40]": without the axes that have one element by their nature. */
static void position_text(enum verify_stage stage, const struct verify_block *block, int64_t at, char *text,
                          size_t size)
{
    const int64_t *extent = block->extent, row = at / extent[2];

    if (stage == VERIFY_COMPACT)
        snprintf(text, size, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 "]", block->name, row / extent[1], row % extent[1],
                 at % extent[2]);
    else if (stage == VERIFY_SCORE || stage == VERIFY_NORM)
        snprintf(text, size, "%s[%" PRId64 ",%" PRId64 "]", block->name, row, at % extent[2]);
    else
        snprintf(text, size, "%s[%" PRId64 "]", block->name, at);
}

/* The bits, and what they say where that is a number. */
static void element_text(enum verify_stage stage, const struct verify_block *block, int64_t at, char *text, size_t size)
{
    const unsigned char *cell = block->cells + (size_t)at * block->unit;
    uint32_t word = 0;
    uint16_t half = 0;

    if (block->unit == sizeof word)
        memcpy(&word, cell, sizeof word);
    else if (block->unit == sizeof half)
        memcpy(&half, cell, sizeof half);
    if (block->unit == sizeof word && (stage == VERIFY_SCORE || stage == VERIFY_NORM))
        snprintf(text, size, "0x%08" PRIx32 " (%.9g)", word, (double)ckv_float(word));
    else if (block->unit == sizeof word && stage != VERIFY_COMPACT)
        snprintf(text, size, "0x%08" PRIx32 " (%" PRId32 ")", word, (int32_t)word);
    else if (block->unit == sizeof word)
        snprintf(text, size, "0x%08" PRIx32, word);
    else if (block->unit == sizeof half)
        snprintf(text, size, "0x%04x", (unsigned)half);
    else
        snprintf(text, size, "0x%02x", (unsigned)*cell);
}

static bool same_block(enum verify_stage stage, const struct verify_block *want, const struct verify_block *got,
                       char text[VERIFY_TEXT])
{
    const int64_t count = elements(want);
    char where[80], wanted[48], found[48];
    int64_t at = 0;

    if (elements(got) != count || (count > 0 && got->unit != want->unit)) {
        snprintf(text, VERIFY_TEXT, "%s: %" PRId64 " elements, wanted %" PRId64, want->name == NULL ? "" : want->name,
                 elements(got), count);
        return false;
    }
    if (count == 0 || memcmp(want->cells, got->cells, (size_t)count * want->unit) == 0)
        return true;
    while (memcmp(want->cells + (size_t)at * want->unit, got->cells + (size_t)at * want->unit, want->unit) == 0)
        at++;
    position_text(stage, want, at, where, sizeof where);
    element_text(stage, want, at, wanted, sizeof wanted);
    element_text(stage, got, at, found, sizeof found);
    snprintf(text, VERIFY_TEXT, "%s is %s, wanted %s", where, found, wanted);
    return false;
}

bool verify_same(enum verify_stage stage, const struct verify_result *want, const struct verify_result *got,
                 char text[VERIFY_TEXT])
{
    bool same = true;

    if (got->status != want->status) {
        snprintf(text, VERIFY_TEXT, "status %d (%s), wanted %d (%s)%s%s", (int)got->status,
                 ckv_status_string(got->status), (int)want->status, ckv_status_string(want->status),
                 got->detail[0] != '\0' ? ": " : "", got->detail);
        return false;
    }
    for (int i = 0; same && i < VERIFY_BLOCKS; i++)
        same = same_block(stage, &want->block[i], &got->block[i], text);
    if (same && got->flags != want->flags) {
        snprintf(text, VERIFY_TEXT, "flags 0x%02" PRIx32 ", wanted 0x%02" PRIx32, got->flags, want->flags);
        return false;
    }
    if (same && got->computed != want->computed) {
        snprintf(text, VERIFY_TEXT, "%" PRId64 " norms computed, wanted %" PRId64, got->computed, want->computed);
        return false;
    }
    if (same && got->stray != NULL) {
        snprintf(text, VERIFY_TEXT, "bytes written that must stay as they were: %s", got->stray);
        return false;
    }
    return same;
}

/* In problems that are neither the smallest nor rare, so that there is something to find
 * and something to shrink. */
#define PLANT_TOKENS 37
#define PLANT_GROUP 2

void verify_plant(const struct verify_plant *plant, const char *backend, const struct verify_problem *p,
                  struct verify_result results[VERIFY_STAGES])
{
    struct verify_block *block = &results[plant->stage].block[0];
    const int64_t count = elements(block);

    if (plant->backend == NULL || strcmp(plant->backend, backend) != 0 || !results[plant->stage].done || count == 0)
        return;
    if (p->axis[VERIFY_TOKENS] >= PLANT_TOKENS && p->axis[VERIFY_GROUP] >= PLANT_GROUP)
        block->cells[(size_t)(count / 2) * block->unit] ^= 1;
}
