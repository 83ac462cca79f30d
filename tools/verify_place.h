/* SPDX-License-Identifier: Apache-2.0 */
/* Dense cells in memory laid out in some way, with bytes around that must stay. */
#ifndef CKV_TOOLS_VERIFY_PLACE_H
#define CKV_TOOLS_VERIFY_PLACE_H

#include "verify.h"

#define VERIFY_RED 64 /* bytes before and after */

struct verify_memory {
    unsigned char *memory, *before; /* `whole` bytes each */
    size_t whole;
    unsigned char *data; /* the first element */
    int64_t extent[3], stride[3];
    size_t unit;
};

/* Memory of any kind: `size` bytes at `data`, all of it `fill`.  The following return false when out
 * of memory; free in any case, also what is zeroed. */
bool verify_memory_new(struct verify_memory *m, size_t size, int32_t offset, unsigned char fill);
bool verify_memory_place(struct verify_memory *m, const struct verify_place *place, size_t unit,
                         const int64_t extent[3], unsigned char fill);
void verify_memory_free(struct verify_memory *m);

/* All cells, in order; the later wins where elements share bytes. */
void verify_memory_put(const struct verify_memory *m, const unsigned char *cells);
/* Cells of the first `tokens` rows of each head. */
void verify_memory_get(const struct verify_memory *m, int64_t tokens, unsigned char *cells);

/* From now on the memory may change only where one says so. */
void verify_memory_remember(struct verify_memory *m);
/* Puts the cells of those rows back as they were remembered. */
void verify_memory_restore(struct verify_memory *m, int64_t tokens);
bool verify_memory_unchanged(const struct verify_memory *m);

/* A view for the library: of rank 2 without the first axis, which must be 1 then. */
ckv_tensor verify_memory_view(const struct verify_memory *m, ckv_dtype dtype, int rank);

/* Gives elements that share bytes one value. */
bool verify_settle(struct verify_problem *p, enum verify_input input);

#endif
