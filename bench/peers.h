/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same results as a user would get them from what is at hand, in fp32:
 *
 * score    OpenBLAS sgemm for the logits, softmax, mean over the window, max pool
 * norm     OpenBLAS sgemm in blocks of rows per query head, sums of magnitudes
 * select   std::nth_element over (score, position), std::sort of what is kept
 * compact  one memcpy of as many bytes, without any gather
 *
 * Threads share out whole blocks, each calling OpenBLAS on one thread, so that a block is summed
 * by the thread that has it in its cache.
 */
#ifndef CKV_BENCH_PEERS_H
#define CKV_BENCH_PEERS_H

#include "blas.h"
#include "data.h"
#include "isa.h"
#include "limits.h"
#include "nth_element.h"

#include <ckv/ckv.h>

struct peers {
    const struct subject *subject;
    struct blas *blas;
    const struct isa *isa; /* the machine's best, whatever the backend was told to use */
    int32_t threads;
    int64_t window, budget, stage1, recent;
    float epsilon, scale;
    int width; /* of the max pool */

    /* What select reads: the peers' own, or any other of the same form. */
    const float *attention_in, *norm_in;

    float *attention, *norm; /* [Hkv, n], out of score and norm */
    int32_t *positions;      /* [Hkv, budget], ascending, out of select */

    float *pooled;          /* [Hq, n] */
    float *scratch;         /* [threads] */
    size_t scratch_size;    /* floats of each */
    struct scored *entries; /* [threads][n] */
    char *from, *to;        /* of the memcpy */
    size_t bytes;
};

/* Borrows what it is given; score and norm want the subject's fp32 copies.  Policies that
 * differ in what is kept come later.  False after one error line; close in any case. */
bool peers_open(struct peers *peers, const struct subject *subject, struct blas *blas, int32_t threads,
                const ckv_policy *policy, int64_t window);
bool peers_keep(struct peers *peers, const ckv_plan_info *info);
void peers_close(struct peers *peers);

/* A peer's name; NULL where there is none, and then *reason says why. */
const char *peers_name(const struct peers *peers, enum bench_stage stage, const char **reason);

/* Each runs one peer; the argument is the struct peers. */
bool peers_score(void *argument);
bool peers_norm(void *argument);
bool peers_select(void *argument);
bool peers_compact(void *argument);

#endif
