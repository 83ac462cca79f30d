/* SPDX-License-Identifier: Apache-2.0 */
/* The layers that are timed: made up, or from a capture; and fp32 copies for the peers. */
#ifndef CKV_BENCH_DATA_H
#define CKV_BENCH_DATA_H

#include "shapes.h"
#include "tools/layers.h"

struct subject {
    char name[80];
    struct layer layer;
    void *memory[4];                     /* query, key, value, weight of a made-up one */
    float *query, *key, *value, *weight; /* fp32, dense; NULL before data_plain */
};

/*
 * A layer of that shape with n tokens and `queries` queries, the same on every machine
 * and with any number of threads.  Not white noise, since work may be skipped by what the
 * data are.  As in the deeper layers of tests/data's capture, 1% of the keys draws more
 * than half of the attention and 10% about four fifths, in runs of neighbours, the first and
 * the latest tokens among them; norms of V's rows vary by a quarter, those of the first
 * are small, and a few channels stand out.  False after one error line; free in any case.
 */
bool data_make(struct subject *subject, const struct shape *shape, int64_t tokens, int64_t queries, ckv_dtype dtype);

/* Looks at a capture's layer, which stays the caller's. */
void data_borrow(struct subject *subject, const char *name, const struct layer *layer);

/* Adds the fp32 copies.  False after one error line. */
bool data_plain(struct subject *subject);

void data_free(struct subject *subject);

#endif
