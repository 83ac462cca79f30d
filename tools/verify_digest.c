/* SPDX-License-Identifier: Apache-2.0 */
/* One hash of all that the reference gave; see verify_digest.h. */
#include "verify_digest.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct verify_digest *verify_digest_new(void)
{
    XXH3_state_t *state = XXH3_createState();

    if (state != NULL)
        XXH3_128bits_reset(state);
    return (struct verify_digest *)(void *)state;
}

static XXH3_state_t *state_of(struct verify_digest *digest)
{
    return (XXH3_state_t *)(void *)digest;
}

void verify_digest_free(struct verify_digest *digest)
{
    XXH3_freeState(state_of(digest));
}

static void add_number(struct verify_digest *digest, uint64_t number)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    XXH3_128bits_update(state_of(digest), bytes, sizeof bytes);
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static void add_cells(struct verify_digest *digest, const struct verify_block *block, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t byte = block->unit; byte-- > 0;)
            XXH3_128bits_update(state_of(digest), block->cells + i * block->unit + byte, 1);
}
#else
static void add_cells(struct verify_digest *digest, const struct verify_block *block, size_t count)
{
    XXH3_128bits_update(state_of(digest), block->cells, count * block->unit);
}
#endif

void verify_digest_add(struct verify_digest *digest, const struct verify_result results[VERIFY_STAGES])
{
    for (int stage = 0; stage < VERIFY_STAGES; stage++) {
        const struct verify_result *result = &results[stage];

        add_number(digest, (uint64_t)result->status);
        add_number(digest, result->flags);
        for (int i = 0; i < VERIFY_BLOCKS && result->block[i].cells != NULL; i++) {
            const struct verify_block *block = &result->block[i];
            size_t count = (size_t)(block->extent[0] * block->extent[1] * block->extent[2]);

            add_number(digest, count);
            add_cells(digest, block, count);
        }
    }
}

void verify_digest_text(const struct verify_digest *digest, char text[VERIFY_DIGEST])
{
    XXH128_hash_t hash = XXH3_128bits_digest((const XXH3_state_t *)(const void *)digest);
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < sizeof canonical.digest; i++)
        snprintf(text + 2 * i, 3, "%02x", canonical.digest[i]);
}
