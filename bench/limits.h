/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at most, measured. */
#ifndef CKV_BENCH_LIMITS_H
#define CKV_BENCH_LIMITS_H

#include "isa.h"
#include "timing.h"
#include "work.h"

#include <stdbool.h>

/* Multiply-adds or bytes a second.  The best of the repeats: a limit is what was seen
 * to be possible. */
struct limit {
    double rate;
    struct times times; /* of one repeat */
    double amount;      /* its work */
};

struct limits {
    const struct isa *isa;
    int32_t threads;
    struct limit one[BOUNDS], all[BOUNDS]; /* one thread, and all of them */
    size_t bytes;                          /* of each of the two blocks of memory */
    uint64_t *from, *to;
};

/* One limit as an item of timing_measure. */
struct limits_loop {
    const struct limits *limits;
    enum bound bound;
    int32_t threads;
    int64_t rounds; /* of each thread */
};

/* What the bound's unit is called, and where its limit comes from. */
const char *limits_unit(enum bound bound);                                /* "GMAC/s" or "GB/s" */
const char *limits_name(const struct limits *limits, enum bound bound);   /* "memory copy" */
const char *limits_method(const struct limits *limits, enum bound bound); /* "memcpy" */

/* Measures all of them.  `quick` takes less time and memory.  False after one error line;
 * close in any case. */
bool limits_measure(struct limits *limits, const struct isa *isa, int32_t threads, bool quick);
void limits_close(struct limits *limits);

/* The limit of all threads, to take turns with what it limits: the machine's pace changes
 * from minute to minute.  The item runs `loop`, which must last as long. */
void limits_turn(const struct limits *limits, enum bound bound, struct limits_loop *loop, struct timed *item);

/* What came of it: multiply-adds or bytes a second, of the median turn. */
double limits_rate(const struct limits_loop *loop, const struct times *times);

/* Fills the caches with something else, so that what is timed next comes from memory.  The
 * argument is the struct limits. */
void limits_clear_caches(const void *argument);

#endif
