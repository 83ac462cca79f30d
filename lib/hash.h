/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a over 64 bits: tells texts apart, guards against damage and against no one. */
#ifndef CKV_LIB_HASH_H
#define CKV_LIB_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CKV_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t ckv_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* With the byte that ends it, so that two texts are not as good as one. */
static inline uint64_t ckv_hash_text(uint64_t hash, const char *text)
{
    return ckv_hash(hash, text, strlen(text) + 1);
}

#endif
