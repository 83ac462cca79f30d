/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated timing: several things in turn, so that drift of the machine meets all. */
#ifndef CKV_BENCH_TIMING_H
#define CKV_BENCH_TIMING_H

#include <stdbool.h>
#include <stddef.h>

/* Seconds of one run, over the repeats. */
struct times {
    double median, least, most, lower, upper; /* lower, upper: quartiles */
    size_t repeats;                           /* 0: not measured */
};

/* When enough was measured. */
struct effort {
    size_t repeats;     /* at least so many ... */
    double least, most; /* ... over at least so many seconds, but stop after `most` */
};

struct timed {
    bool (*run)(void *argument); /* false after one error line */
    void *argument;
    void (*before)(const void *argument); /* optional, untimed, before each run */
    const void *before_argument;
    struct times times; /* out */
};

/* Sorts `samples`. */
void timing_summarise(double *samples, size_t count, struct times *times);

/* Each item runs once unmeasured, then all take turns.  An item whose first run alone
 * takes `most` seconds has that run as its only sample.  False when a run failed. */
bool timing_measure(struct timed *items, size_t count, const struct effort *effort);

/* Half the distance of the quartiles, as a share of the median. */
double timing_spread(const struct times *times);

double timing_clock(void);

#endif
