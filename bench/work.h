/* SPDX-License-Identifier: Apache-2.0 */
/* The least work of each stage, counted from the sizes: what its limit is about. */
#ifndef CKV_BENCH_WORK_H
#define CKV_BENCH_WORK_H

#include "tools/layers.h"

#include <stdint.h>

enum bench_stage { BENCH_SCORE, BENCH_NORM, BENCH_SELECT, BENCH_COMPACT, BENCH_LAYER, BENCH_STAGES };

extern const char *const bench_stages[BENCH_STAGES];

/* What a machine has a limit of. */
enum bound { BOUND_FMA, BOUND_INTEGER, BOUND_READ, BOUND_COPY, BOUNDS };

struct work {
    enum bound bound; /* what bounds the stage; the layer is bounded by its stages */
    double macs;      /* multiply-adds */
    double bytes;     /* read from memory and written to it at least */
};

/*
 * score    one pass of logits, Hq * w * n * d multiply-adds in fp32; Q and K read, attention
 *          written
 * norm     every row through the projection, Hq * n * dv * D multiply-adds of integers; V and
 *          W_O (two bytes an element, as quantised) read, norms written
 * select   attention and norm read, kept positions written; one product an entry
 * compact  kept rows of keys and values read and written
 * layer    score, norm and select together
 *
 * `window` and `budget` are those of the plan.
 */
struct work work_of(enum bench_stage stage, const struct layer *layer, int64_t window, int64_t budget);

/* What the bound counts of it. */
double work_amount(const struct work *work);

#endif
