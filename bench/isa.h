/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one instruction set can do at most, and the peers' plain loops compiled for
 * it.  One isa_NAME.c each, with flags of its own; only usable() of a file may run
 * before it said yes.
 */
#ifndef CKV_BENCH_ISA_H
#define CKV_BENCH_ISA_H

#include <stddef.h>
#include <stdint.h>

struct isa {
    const char *name; /* the CPU backend's */
    int (*usable)(void);

    /* Loops of nothing but the instruction, on enough independent accumulators. */
    const char *fma_name, *integer_name;
    double fma_macs, integer_macs; /* multiply-adds of one round */
    void (*fma)(int64_t rounds);
    void (*integer)(int64_t rounds);
    uint64_t (*read)(const uint64_t *words, size_t count);

    /* The peers' loops, plain C. */
    void (*add_absolute)(const float *rows, int64_t count, int64_t width, float scale, float *sums);
    void (*softmax)(float *row, int64_t seen, int64_t count);
    void (*add_scaled)(float *sum, const float *row, float scale, int64_t count);
    void (*pool_max)(float *pooled, const float *row, int64_t count, int width);
};

/* Best first; NULL ends the list.  The last is usable everywhere. */
extern const struct isa *const isa_list[];

extern const struct isa isa_avx512vnni, isa_avx512, isa_avx2, isa_neon, isa_portable;

/* By name; NULL: not built in. */
const struct isa *isa_find(const char *name);

/* The best that runs here. */
const struct isa *isa_best(void);

#endif
