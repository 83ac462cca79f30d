/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forced entries, stage 1, stage 2 (spec 6).
 *
 * A work item is one KV head.  The cut of a stage is found by radix: a histogram of
 * the ranks' upper bits names the bin of the cut, and only that bin is looked at
 * again.  Forced entries are two ranges, so that candidates are one range.
 */
#include "cpu.h"
#include "lib/numeric.h"
#include "lib/sizes.h"

#define BINS 2048 /* 11 bits at a time: 11, 11, 10 */
#define TAKEN 0u  /* in the array of stage-2 ranks, which are above 0 but for NaN, kept as 1 */

typedef struct job {
    const ckv_plan *plan;
    const ckv_tensor *attention, *norm;
    const ckv_kept *kept; /* or NULL: */
    uint8_t *stages;      /* [Hkv][n] */
    char *scratch;
    size_t scratch_size;
    _Atomic uint32_t *flags;
} job;

typedef struct scratch {
    uint32_t *rank, *bin; /* [n] each */
    uint32_t *histogram;  /* [BINS] */
} scratch;

/* The cut of a stage: ranks above it are in, and `ties` of those equal to it. */
typedef struct cut {
    uint32_t rank;
    int64_t ties;
} cut;

static int lay_out(const ckv_plan *plan, char *at, scratch *s, size_t *total)
{
    const size_t counts[3] = {(size_t)plan->tokens, (size_t)plan->tokens, BINS};
    void *part[3];
    *total = 0;
    for (int i = 0; i < 3; i++) {
        part[i] = at == NULL ? NULL : at + *total;
        if (!ckv_add_block(total, counts[i], sizeof(uint32_t)))
            return 0;
    }
    *s = (scratch){part[0], part[1], part[2]};
    return 1;
}

int ckv_cpu_select_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes)
{
    scratch s;
    sizes->shared = CKV_WORKSPACE_ALIGNMENT;
    sizes->items = (size_t)plan->kv_heads;
    return lay_out(plan, NULL, &s, &sizes->worker);
}

/* Narrows to the bin that holds the count-th greatest; *count becomes its place there. */
static uint32_t find_bin(const uint32_t *ranks, int64_t n, int shift, uint32_t mask, uint32_t *histogram,
                         int64_t *count)
{
    uint32_t bin = mask;
    memset(histogram, 0, BINS * sizeof *histogram);
    for (int64_t i = 0; i < n; i++)
        histogram[(ranks[i] >> shift) & mask]++;
    while (*count > (int64_t)histogram[bin]) {
        *count -= histogram[bin];
        bin--;
    }
    return bin;
}

/* `count` of the n ranks, 1 <= count <= n. */
static cut find_cut(const uint32_t *ranks, int64_t n, int64_t count, const scratch *s)
{
    static const int shifts[3] = {21, 10, 0};
    static const uint32_t masks[3] = {2047u, 2047u, 1023u};
    uint32_t prefix = 0;
    for (int level = 0; level < 3; level++) {
        uint32_t bin = find_bin(ranks, n, shifts[level], masks[level], s->histogram, &count);
        int64_t inside = 0;
        prefix |= bin << shifts[level];
        if (level < 2)
            for (int64_t i = 0; i < n; i++) {
                s->bin[inside] = ranks[i];
                inside += ((ranks[i] >> shifts[level]) & masks[level]) == bin;
            }
        ranks = s->bin;
        n = inside;
    }
    return (cut){prefix, count};
}

uint32_t ckv_cpu_stage2_rank(float attention, float norm, float epsilon)
{
    uint32_t a = ckv_bits(attention), v = ckv_bits(norm);
    int is_nan = ckv_is_nan_bits(a) | ckv_is_nan_bits(v);
    attention = attention < 0x1p-126f ? 0.0f : attention;
    attention = attention > 0x1p20f ? 0x1p20f : attention;
    norm = norm < 0x1p-100f ? 0.0f : norm;
    norm = norm > 0x1p106f ? 0x1p106f : norm;
    float sum = attention + epsilon;
    uint32_t rank = ckv_bits(sum * norm) | CKV_SIGN_BIT;
    return is_nan ? 1u : rank;
}

/* One head's candidates, positions [low, high): what force leaves. */
typedef struct head {
    const job *job;
    int64_t g, low, high;
    scratch s;
} head;

static float get(const ckv_tensor *view, int64_t g, int64_t i)
{
    float x;
    memcpy(&x, ckv_at(view, g, i, 0), sizeof x);
    return x;
}

static void rank_by_attention(const head *h)
{
    const job *j = h->job;
    uint32_t flags = 0;
    for (int64_t i = 0; i < j->plan->tokens; i++) {
        uint32_t a = ckv_bits(get(j->attention, h->g, i)), v = ckv_bits(get(j->norm, h->g, i));
        flags |= ckv_is_nonfinite_bits(a) ? CKV_NONFINITE_ATTENTION : 0u;
        flags |= ckv_is_nonfinite_bits(v) ? CKV_NONFINITE_NORM : 0u;
        h->s.rank[i] = ckv_rank_bits(a);
    }
    if (flags != 0)
        atomic_fetch_or_explicit(j->flags, flags, memory_order_relaxed);
}

/* Replaces stage 1's ranks by stage 2's, TAKEN where stage 1 keeps. */
static void rank_by_score(const head *h, int64_t count)
{
    const job *j = h->job;
    uint32_t *rank = h->s.rank;
    cut c = {UINT32_MAX, 0};
    if (count > 0)
        c = find_cut(rank + h->low, h->high - h->low, count, &h->s);
    for (int64_t i = h->low; i < h->high; i++) {
        int tie = count > 0 && rank[i] == c.rank && c.ties > 0;
        c.ties -= tie;
        rank[i] = (count > 0 && rank[i] > c.rank) || tie
                      ? TAKEN
                      : ckv_cpu_stage2_rank(get(j->attention, h->g, i), get(j->norm, h->g, i), j->plan->epsilon);
    }
}

/* Why position i is kept, positions in ascending order; `c` is stage 2's cut, with
 * UINT32_MAX and no ties where it keeps none. */
static uint8_t stage_of(const head *h, int64_t i, cut *c)
{
    uint32_t rank = h->s.rank[i];
    if (i < h->low || i >= h->high)
        return CKV_KEPT_FORCED;
    if (rank == TAKEN)
        return CKV_KEPT_STAGE1;
    if (rank > c->rank)
        return CKV_KEPT_STAGE2;
    if (rank < c->rank || c->ties == 0)
        return CKV_CPU_NOT_KEPT;
    c->ties--;
    return CKV_KEPT_STAGE2;
}

static void write_kept(const head *h, int64_t count)
{
    const job *j = h->job;
    int64_t at = h->g * j->plan->budget, n = j->plan->tokens;
    cut c = {UINT32_MAX, 0};
    if (count > 0)
        c = find_cut(h->s.rank + h->low, h->high - h->low, count, &h->s);
    for (int64_t i = 0; i < n; i++) {
        uint8_t stage = stage_of(h, i, &c);
        if (j->kept == NULL) {
            j->stages[h->g * n + i] = stage;
            continue;
        }
        if (stage == CKV_CPU_NOT_KEPT)
            continue;
        j->kept->positions[at] = (int32_t)i;
        if (j->kept->stages != NULL)
            j->kept->stages[at] = stage;
        at++;
    }
    if (j->kept != NULL)
        j->kept->offsets[h->g + 1] = (int32_t)at;
}

static void select_head(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    const ckv_plan *plan = j->plan;
    int64_t recent = plan->recent < plan->budget ? plan->recent : plan->budget;
    int64_t stage1 = plan->stage1 > plan->forced ? plan->stage1 : plan->forced;
    head h = {.job = j, .g = g, .low = plan->forced - recent, .high = plan->tokens - recent};
    size_t size;
    lay_out(plan, j->scratch + (size_t)worker * j->scratch_size, &h.s, &size);
    rank_by_attention(&h);
    rank_by_score(&h, stage1 - plan->forced);
    write_kept(&h, plan->budget - stage1);
}

static uint32_t run(job *j, void *workspace)
{
    scratch s;
    lay_out(j->plan, NULL, &s, &j->scratch_size);
    j->scratch = (char *)workspace + CKV_WORKSPACE_ALIGNMENT;
    j->flags = workspace;
    atomic_store_explicit(j->flags, 0, memory_order_relaxed);
    ckv_cpu_for_each(j->plan->context, j->plan->kv_heads, select_head, j);
    return atomic_load_explicit(j->flags, memory_order_relaxed);
}

uint32_t ckv_cpu_select(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept,
                        void *workspace)
{
    job j = {.plan = plan, .attention = attention, .norm = norm, .kept = kept};
    kept->offsets[0] = 0;
    return run(&j, workspace);
}

void ckv_cpu_select_stages(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm, uint8_t *stages,
                           void *workspace)
{
    job j = {.plan = plan, .attention = attention, .norm = norm, .stages = stages};
    run(&j, workspace);
}
