/* SPDX-License-Identifier: Apache-2.0 */
/* The table of fixed problems; see golden.h. */
#include "golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/ref/ref.h"

#define F CKV_F32
#define H CKV_F16
#define B CKV_BF16
#define NONE CKV_POOL_NONE
#define MAX CKV_POOL_MAX
#define AVG CKV_POOL_AVERAGE

static const struct {
    const char *name;
    ckv_dtype dtype[TEST_TENSORS]; /* Q, K, V, W_O */
    int32_t kv_heads, group;
    int64_t tokens, queries;
    int32_t head_dim, value_dim, hidden;
    int32_t window;
    ckv_pool pool;
    int32_t width, recent, sinks;
    int64_t budget; /* -1: the default ratio */
    int spread;     /* exponents of the elements: -spread to 1 */
} table[] = {
    {"f32-mha", {F, F, F, F}, 2, 1, 64, 32, 16, 16, 32, 32, MAX, 7, -1, 0, -1, 4},
    {"f32-gqa2", {F, F, F, F}, 2, 2, 64, 32, 16, 16, 64, 16, MAX, 7, -1, 0, -1, 4},
    {"f32-gqa3", {F, F, F, F}, 2, 3, 70, 20, 24, 16, 50, 16, MAX, 7, -1, 4, -1, 4},
    {"f32-gqa5", {F, F, F, F}, 1, 5, 70, 20, 24, 16, 50, 8, AVG, 5, -1, 0, -1, 4},
    {"f32-gqa7", {F, F, F, F}, 1, 7, 90, 12, 20, 12, 31, 8, AVG, 7, 4, 2, 30, 4},
    {"f32-gqa8", {F, F, F, F}, 1, 8, 100, 32, 32, 32, 96, 8, NONE, 1, -1, 0, -1, 4},
    {"f16-mha", {H, H, H, H}, 2, 1, 64, 32, 16, 16, 32, 32, MAX, 7, -1, 0, -1, 4},
    {"f16-gqa2", {H, H, H, H}, 2, 2, 120, 32, 32, 32, 48, 32, MAX, 7, -1, 0, -1, 4},
    {"f16-gqa3", {H, H, H, H}, 3, 3, 50, 10, 16, 8, 40, 6, AVG, 5, -1, 0, -1, 4},
    {"f16-gqa7", {H, H, H, H}, 1, 7, 64, 16, 16, 16, 33, 5, MAX, 3, 0, 0, -1, 6},
    {"f16-gqa8", {H, H, H, H}, 2, 8, 40, 9, 16, 16, 33, 7, MAX, 5, -1, 1, 17, 10},
    {"bf16-mha", {B, B, B, B}, 2, 1, 64, 32, 16, 16, 32, 32, MAX, 7, -1, 0, -1, 4},
    {"bf16-gqa2", {B, B, B, B}, 2, 2, 64, 32, 16, 16, 32, 16, AVG, 7, -1, 0, -1, 4},
    {"bf16-gqa5", {B, B, B, B}, 1, 5, 80, 32, 16, 24, 32, 16, MAX, 9, 8, 4, -1, 4},
    {"bf16-gqa8", {B, B, B, B}, 1, 8, 200, 16, 32, 16, 40, 16, MAX, 7, -1, 0, -1, 4},
    {"mixed-hbfh", {H, B, F, H}, 2, 2, 60, 16, 16, 8, 30, 8, MAX, 7, -1, 0, -1, 4},
    {"mixed-fhbb", {F, H, B, B}, 2, 3, 60, 16, 16, 8, 30, 8, AVG, 3, -1, 0, -1, 4},
    {"mixed-bfhf", {B, F, H, F}, 1, 4, 60, 16, 16, 8, 30, 8, NONE, 1, -1, 0, -1, 4},
    {"width-59", {F, F, F, F}, 1, 2, 48, 8, 59, 59, 64, 8, MAX, 7, -1, 0, -1, 4},
    {"width-80", {H, H, H, H}, 1, 2, 48, 8, 80, 80, 100, 8, MAX, 7, -1, 0, -1, 4},
    {"width-96", {B, B, B, B}, 1, 2, 48, 8, 96, 96, 100, 8, MAX, 7, -1, 0, -1, 4},
    {"mla-192-128", {B, B, B, B}, 1, 4, 40, 8, 192, 128, 64, 8, MAX, 7, -1, 0, -1, 3},
    {"d1", {F, F, F, F}, 2, 2, 30, 4, 1, 1, 1, 4, MAX, 3, -1, 0, -1, 2},
    {"dv-wide", {F, F, F, F}, 1, 1, 12, 4, 4, 512, 20, 4, MAX, 3, -1, 0, -1, 4},
    {"hidden-wide", {H, H, H, H}, 1, 2, 12, 4, 4, 16, 1200, 4, MAX, 3, -1, 0, -1, 4},
    {"n1", {F, F, F, F}, 1, 2, 1, 1, 8, 8, 8, 32, MAX, 7, -1, 0, -1, 4},
    {"n2", {F, F, F, F}, 1, 2, 2, 1, 8, 8, 8, 32, MAX, 7, -1, 0, 1, 4},
    {"n7-window-all", {F, F, F, F}, 2, 2, 7, 32, 8, 8, 8, 32, MAX, 7, -1, 0, 3, 4},
    {"n9-even-pool", {F, F, F, F}, 2, 2, 9, 2, 8, 8, 8, 2, AVG, 4, -1, 0, 5, 4},
    {"n33-even-max", {H, H, H, H}, 2, 2, 33, 3, 8, 8, 8, 3, MAX, 6, -1, 0, -1, 4},
    {"wide-pool", {F, F, F, F}, 1, 3, 50, 4, 8, 8, 16, 4, AVG, 99, -1, 0, -1, 4},
    {"decode-step", {B, B, B, B}, 4, 4, 128, 1, 32, 32, 128, 32, MAX, 7, 8, 4, 40, 4},
    {"long-f16", {H, H, H, H}, 2, 2, 600, 32, 32, 16, 32, 32, MAX, 7, -1, 4, -1, 4},
    {"long-bf16", {B, B, B, B}, 1, 4, 500, 40, 64, 16, 32, 16, AVG, 7, -1, 0, 465, 4},
    {"long-f32", {F, F, F, F}, 1, 2, 800, 16, 16, 16, 32, 16, MAX, 7, -1, 0, 100, 5},
    {"peaked", {F, F, F, F}, 2, 2, 100, 16, 32, 16, 32, 16, MAX, 7, -1, 0, -1, 0},
    {"flat", {H, H, H, H}, 2, 2, 100, 16, 32, 16, 32, 16, MAX, 7, -1, 0, -1, 14},
    {"spread-f32", {F, F, F, F}, 2, 3, 60, 8, 12, 12, 24, 8, AVG, 5, 2, 0, -1, 30},
    {"spread-bf16", {B, B, B, B}, 2, 3, 60, 8, 12, 12, 24, 8, AVG, 5, 2, 0, -1, 45},
    {"many-heads", {H, H, H, H}, 8, 4, 40, 8, 16, 16, 64, 8, MAX, 7, -1, 0, -1, 4},
    /* Weights of 10 bits to 1023 outputs, of 7 from 1024. */
    {"hidden-1023", {F, F, F, F}, 1, 2, 40, 8, 8, 16, 1023, 8, MAX, 7, -1, 0, -1, 4},
    {"hidden-1024", {F, F, F, F}, 1, 2, 40, 8, 8, 16, 1024, 8, MAX, 7, -1, 0, -1, 4},
    {"f16-2048", {H, H, H, H}, 1, 3, 40, 8, 16, 24, 2048, 8, MAX, 7, -1, 0, -1, 4},
    {"bf16-1536", {B, B, B, B}, 2, 2, 40, 8, 16, 32, 1536, 8, AVG, 5, -1, 0, -1, 6},
    {"spread-1024", {F, F, F, F}, 1, 3, 30, 8, 12, 12, 1024, 8, AVG, 5, 2, 0, -1, 30},
};

const int golden_count = (int)(sizeof table / sizeof table[0]);

static void require_ok(ckv_status status)
{
    if (status != CKV_OK) {
        fprintf(stderr, "golden: %s: %s\n", ckv_status_string(status), ckv_error_detail());
        abort();
    }
}

void golden_open(int index, test_problem *p)
{
    test_problem_init(p, table[index].kv_heads, table[index].group, table[index].tokens, table[index].queries,
                      table[index].head_dim, table[index].value_dim, table[index].hidden);
    for (int t = 0; t < TEST_TENSORS; t++) {
        p->dtype[t] = table[index].dtype[t];
        p->low[t] = -table[index].spread;
        p->high[t] = 1;
    }
    p->policy.window = table[index].window;
    p->policy.pool = table[index].pool;
    p->policy.pool_width = table[index].width;
    p->policy.recent = table[index].recent;
    p->policy.sinks = table[index].sinks;
    p->policy.budget = table[index].budget;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)index + 1);
    require_ok(test_problem_open(p));
}

static void exp_line(char line[GOLDEN_LINE])
{
    uint64_t hash = test_hash_start;
    for (uint32_t u = 0xb2800000u; u <= 0xc2700000u; u += 911) { /* -2^-26 to -60 */
        uint32_t bits = test_bits(ckv_ref_exp(test_float(u)));
        const unsigned char bytes[4] = {(unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16),
                                        (unsigned char)(bits >> 24)};
        hash = test_hash(hash, bytes, sizeof bytes);
    }
    snprintf(line, GOLDEN_LINE, "exp %016" PRIx64, hash);
}

void golden_line(int index, char line[GOLDEN_LINE])
{
    test_problem p;
    if (index == golden_count) {
        exp_line(line);
        return;
    }
    golden_open(index, &p);
    require_ok(test_stages(&p));
    snprintf(line, GOLDEN_LINE, "%s attention %016" PRIx64 " norm %016" PRIx64 " kept %016" PRIx64, table[index].name,
             test_hash_attention(&p), test_hash_norm(&p), test_hash_selection(&p));
    test_problem_close(&p);
}

int golden_is_long(int index)
{
    return index == golden_count || table[index].tokens * table[index].kv_heads * table[index].group *
                                            table[index].window * table[index].head_dim >
                                        100000;
}
