/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any small problem, of any bits, on the reference and on every instruction set of this
 * machine: each gives what the reference gives, to the last bit, and writes nowhere else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "tests/unit/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first bytes are the problem's sizes; tests/fuzz/make_corpus.py writes them so. */
enum {
    HEADS,
    GROUP,
    TOKENS,
    QUERIES,
    HEAD_DIM,
    VALUE_DIM,
    HIDDEN,
    DTYPES,
    LAYOUTS,
    MORE_LAYOUTS,
    WINDOW,
    BUDGET,
    POOL,
    FORCED,
    POOL_WIDTH,
    THREADS,
    HEADER
};

static int32_t from(const uint8_t *data, int field, int32_t least, int32_t most)
{
    return least + data[field] % (most - least + 1);
}

static void set_up(test_problem *p, const uint8_t *h)
{
    int wide = (h[HIDDEN] & 0x80u) != 0; /* weights of 7 bits */
    int32_t hidden = from(h, HIDDEN, 1, 64) + (wide ? 1023 : 0);
    test_problem_init(p, from(h, HEADS, 1, 2), from(h, GROUP, 1, 3), from(h, TOKENS, 1, 130), from(h, QUERIES, 1, 14),
                      from(h, HEAD_DIM, 1, 20), from(h, VALUE_DIM, 1, wide ? 6 : 20), hidden);
    for (int t = 0; t < TEST_TENSORS; t++) {
        p->dtype[t] = (ckv_dtype)(CKV_F32 + (h[DTYPES] >> (2 * t) & 3u) % 3u);
        p->layout[t] = (test_layout)(((unsigned)h[LAYOUTS + t / 2] >> (4 * (t % 2)) & 15u) % TEST_LAYOUTS);
    }
    p->policy.window = from(h, WINDOW, 1, 30);
    p->policy.budget = h[BUDGET] % (p->shape.tokens + 2);
    p->policy.pool = (ckv_pool)(h[POOL] & 3u) % 3;
    p->policy.alpha = (ckv_ratio){(h[POOL] >> 2) % 9, 8};
    p->policy.sinks = h[FORCED] & 7u;
    p->policy.recent = (int32_t)(h[FORCED] >> 3) - 1;
    p->policy.pool_width = from(h, POOL_WIDTH, 1, 12);
}

/* Elements' bits from the input, round and round, xor the number of the round. */
static void fill(test_problem *p, const uint8_t *data, size_t size)
{
    size_t at = 0;
    for (int t = 0; t < TEST_TENSORS; t++) {
        const int64_t *shape = p->tensor[t].cells.shape;
        for (int64_t h = 0; h < shape[0]; h++)
            for (int64_t i = 0; i < shape[1]; i++)
                for (int64_t c = 0; c < shape[2]; c++) {
                    uint32_t bits = 0;
                    for (size_t b = 0; size > 0 && b < ckv_dtype_size(p->dtype[t]); b++, at++)
                        bits = bits << 8 | (data[at % size] ^ (uint8_t)(at / size));
                    test_put_bits(&p->tensor[t], h, i, c, bits);
                }
    }
}

/* Workers in turn, the last first: which takes what differs, and no thread is made. */
static void backwards(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument)
{
    (void)pool;
    for (int32_t i = tasks - 1; i >= 0; i--)
        task(argument, i);
}

static test_outcome solve(const uint8_t *data, size_t size, const char *backend, const char *isa)
{
    test_problem p;
    test_outcome outcome;
    set_up(&p, data);
    p.options.parallel_for = backwards;
    test_problem_build(&p);
    fill(&p, data + HEADER, size - HEADER);
    if (test_solve_on(&p, backend, isa, from(data, THREADS, 1, 3), &outcome) != CKV_OK) {
        fprintf(stderr, "%s %s: %s\n", backend, isa == NULL ? "" : isa, ckv_error_detail());
        abort();
    }
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEST_DIFFERENCE];
    if (size < HEADER)
        return 0;
    test_outcome want = solve(data, size, "ref", NULL);
    for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++) {
        const ckv_cpu_kernels *kernels = ckv_cpu_kernels_list[i];
        if (!kernels->usable())
            continue;
        test_outcome got = solve(data, size, "cpu", kernels->isa);
        if (!test_same(&want, &got, text)) {
            fprintf(stderr, "%s: %s\n", kernels->isa, text);
            abort();
        }
    }
    return 0;
}
