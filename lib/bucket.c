/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of problems. */
#include "bucket.h"

#include <math.h>
#include <string.h>

#define ONLY_ONE 16.0 /* distance where one of two problems has a size and the other not */

const char *const ckv_bucket_names[CKV_BUCKET_SIZES] = {"tokens", "window",   "query_heads", "kv_heads",
                                                        "group",  "head_dim", "value_dim",   "hidden"};

#define BIT(size) (1u << CKV_BUCKET_##size)

/* What a stage's time depends on. */
static const struct {
    const char *stage;
    unsigned sizes;
} stages[] = {
    {"score", BIT(TOKENS) | BIT(WINDOW) | BIT(KV_HEADS) | BIT(GROUP) | BIT(HEAD_DIM)},
    {"norm", BIT(TOKENS) | BIT(KV_HEADS) | BIT(GROUP) | BIT(VALUE_DIM) | BIT(HIDDEN)},
    {"select", BIT(TOKENS) | BIT(KV_HEADS)},
    {"compact", BIT(TOKENS) | BIT(KV_HEADS)},
    {"evict", BIT(TOKENS) | BIT(KV_HEADS) | BIT(GROUP) | BIT(VALUE_DIM) | BIT(HIDDEN)},
};

#define OF_PROJECTION (BIT(QUERY_HEADS) | BIT(VALUE_DIM) | BIT(HIDDEN))
#define OF_PLAN (BIT(TOKENS) | BIT(WINDOW) | BIT(KV_HEADS) | BIT(GROUP) | BIT(HEAD_DIM) | BIT(VALUE_DIM) | BIT(HIDDEN))

static unsigned sizes_of(const char *stage, ckv_tuning_scope scope)
{
    if (scope != CKV_TUNE_PLAN)
        return scope == CKV_TUNE_PROJECTION ? OF_PROJECTION : 0;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        if (strcmp(stages[i].stage, stage) == 0)
            return stages[i].sizes;
    return OF_PLAN;
}

static int32_t next_power(int64_t n)
{
    int32_t power = 1;
    while (power < n && power < 1 << 30)
        power *= 2;
    return n <= 0 ? 0 : power;
}

void ckv_bucket_of(const ckv_problem *problem, const char *stage, ckv_tuning_scope scope, ckv_bucket *bucket)
{
    const int32_t sizes[CKV_BUCKET_SIZES] = {
        [CKV_BUCKET_TOKENS] = next_power(problem->tokens),
        [CKV_BUCKET_WINDOW] = next_power(problem->window),
        [CKV_BUCKET_QUERY_HEADS] = problem->query_heads,
        [CKV_BUCKET_KV_HEADS] = problem->kv_heads,
        [CKV_BUCKET_GROUP] = problem->kv_heads == 0 ? 0 : problem->query_heads / problem->kv_heads,
        [CKV_BUCKET_HEAD_DIM] = problem->head_dim,
        [CKV_BUCKET_VALUE_DIM] = problem->value_dim,
        [CKV_BUCKET_HIDDEN] = problem->hidden,
    };
    const unsigned wanted = sizes_of(stage, scope);
    for (int i = 0; i < CKV_BUCKET_SIZES; i++)
        bucket->size[i] = (wanted >> i & 1u) != 0 ? sizes[i] : 0;
}

int ckv_bucket_equal(const ckv_bucket *a, const ckv_bucket *b)
{
    return memcmp(a->size, b->size, sizeof a->size) == 0;
}

double ckv_bucket_distance(const ckv_bucket *a, const ckv_bucket *b)
{
    double sum = 0;
    for (int i = 0; i < CKV_BUCKET_SIZES; i++) {
        if (a->size[i] == b->size[i])
            continue;
        sum += a->size[i] <= 0 || b->size[i] <= 0 ? ONLY_ONE : fabs(log2(a->size[i]) - log2(b->size[i]));
    }
    return sum;
}
