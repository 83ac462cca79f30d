/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forced entries, stage 1, stage 2 (spec 6).
 *
 * A work item is one KV head.  The cut of a stage is bracketed by a sample of the
 * ranks, then found by radix among those in the bracket, or among all should the sample
 * mislead: a histogram of the upper bits names the bin of the cut, and only that bin is
 * looked at again.  Forced entries are two ranges, so that candidates are one range.
 */
#include "optimize.h"

#include "cpu.h"
#include "lib/numeric.h"
#include "lib/sizes.h"
#include "tunables.h"

#define BINS 2048 /* 11 bits at a time: 11, 11, 10 */
#define SAMPLE_MAX 8192
#define CHUNK 256
#define TAKEN CKV_CPU_TAKEN

typedef struct job {
    const ckv_plan *plan;
    const ckv_tensor *attention, *norm;
    const ckv_kept *kept;
    const uint8_t *idle; /* [Hkv] or NULL: none is */
    char *scratch;
    size_t scratch_size;
    _Atomic uint32_t *flags;
} job;

typedef struct scratch {
    uint32_t *rank, *bin; /* [n] each */
    uint32_t *histogram;  /* [BINS] */
} scratch;

/* The cut of a stage: in are ranks from `rank` on before position `end`, and ranks above
 * it after that. */
typedef struct cut {
    uint32_t rank;
    int64_t end;
} cut;

/* None is in. */
static const cut nothing = {UINT32_MAX, INT64_MAX};

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

/* The count-th greatest of n ranks, 1 <= count <= n, which may lie at s->bin.  *count
 * becomes its place among *equal equal ones. */
static uint32_t find_rank(const uint32_t *ranks, int64_t n, int64_t *count, int64_t *equal, const scratch *s)
{
    static const int shifts[3] = {21, 10, 0};
    static const uint32_t masks[3] = {2047u, 2047u, 1023u};
    uint32_t prefix = 0;
    for (int level = 0; level < 3; level++) {
        uint32_t bin = find_bin(ranks, n, shifts[level], masks[level], s->histogram, count);
        int64_t inside = 0;
        prefix |= bin << shifts[level];
        for (int64_t i = 0; i < n; i++) {
            s->bin[inside] = ranks[i];
            inside += ((ranks[i] >> shifts[level]) & masks[level]) == bin;
        }
        ranks = s->bin;
        n = inside;
    }
    *equal = n;
    return prefix;
}

/* The rank in the sample that is the place-th greatest of `count`. */
static uint32_t sampled(const uint32_t *ranks, int64_t n, int64_t count, int64_t place, const scratch *s)
{
    int64_t equal;
    for (int64_t i = 0; i < count; i++)
        s->bin[i] = ranks[i * n / count];
    place = place < 1 ? 1 : place > count ? count : place;
    return find_rank(s->bin, count, &place, &equal, s);
}

/* Four deviations of a place in a sample, which are at most sqrt(sample) / 2 each, and a
 * little more: a sample of four times the size has twice the width. */
static int64_t width_of(int64_t sample)
{
    int64_t width = 192;
    for (int64_t s = SAMPLE_MAX; s > sample; s /= 4)
        width /= 2;
    return width;
}

/* `count` of the ranks of positions [low, high).  The bracket is four deviations wide to
 * either side, or more, of where a random sample would put the cut. */
static cut find_cut(const ckv_plan *plan, const scratch *s, int64_t low, int64_t high, int64_t count)
{
    const int64_t sample = plan->parameters.value[CKV_CPU_SELECT_SAMPLE], width = width_of(sample);
    const uint32_t *ranks = s->rank + low, *from = ranks;
    int64_t n = high - low, left = n, above = 0, equal;
    if (count == 0)
        return nothing;
    if (n > 4 * sample) {
        int64_t place = count * sample / n;
        uint32_t top = sampled(ranks, n, sample, place - width, s);
        uint32_t bottom = sampled(ranks, n, sample, place + width, s);
        int64_t inside = ckv_cpu_kernels_of(plan)->gather(ranks, n, bottom, top, s->bin, &above);
        if (above < count && count <= above + inside) {
            from = s->bin;
            left = inside;
            count -= above;
        }
    }
    cut c = {find_rank(from, left, &count, &equal, s), high};
    if (count < equal) /* not all equal ones */
        for (c.end = low; count > 0; c.end++)
            count -= s->rank[c.end] == c.rank;
    return c;
}

/* One head's candidates, positions [low, high): what force leaves. */
typedef struct head {
    const job *job;
    int64_t g, low, high;
    scratch s;
} head;

/* `count` numbers from position `first`: where they lie, or copied to `room`. */
static const float *chunk(const ckv_tensor *view, int64_t g, int64_t first, int64_t count, float *room)
{
    const void *at = ckv_at(view, g, first, 0);
    if (view->stride[1] == sizeof(float) && (uintptr_t)at % sizeof(float) == 0)
        return at;
    for (int64_t i = 0; i < count; i++)
        memcpy(room + i, ckv_at(view, g, first + i, 0), sizeof *room);
    return room;
}

/* How many positions from `first` on make the next chunk, on one side of the cut's end. */
static int64_t next_chunk(int64_t first, int64_t to, cut c)
{
    int64_t last = to - first < CHUNK ? to : first + CHUNK;
    return (first < c.end && c.end < last ? c.end : last) - first;
}

static void rank_by_attention(const head *h)
{
    const job *j = h->job;
    uint32_t greatest_a = 0, greatest_v = 0, flags = 0;
    float room[2][CHUNK];
    for (int64_t first = 0, count; first < j->plan->tokens; first += count) {
        count = next_chunk(first, j->plan->tokens, nothing);
        const float *a = chunk(j->attention, h->g, first, count, room[0]);
        const float *v = chunk(j->norm, h->g, first, count, room[1]);
        ckv_cpu_kernels_of(j->plan)->rank(h->s.rank + first, a, v, count, &greatest_a, &greatest_v);
    }
    flags |= greatest_a >= CKV_INF_BITS ? CKV_NONFINITE_ATTENTION : 0u;
    flags |= greatest_v >= CKV_INF_BITS ? CKV_NONFINITE_NORM : 0u;
    if (flags != 0)
        atomic_fetch_or_explicit(j->flags, flags, memory_order_relaxed);
}

/* Replaces stage 1's ranks by stage 2's, TAKEN where stage 1 keeps. */
static void rank_by_score(const head *h, int64_t keep)
{
    const job *j = h->job;
    float room[2][CHUNK];
    const ckv_cpu_kernels *kernels = ckv_cpu_kernels_of(j->plan);
    cut c = find_cut(j->plan, &h->s, h->low, h->high, keep);
    for (int64_t first = h->low, count; first < h->high; first += count) {
        count = next_chunk(first, h->high, c);
        kernels->score(h->s.rank + first, chunk(j->attention, h->g, first, count, room[0]),
                       chunk(j->norm, h->g, first, count, room[1]), count, first < c.end ? c.rank : c.rank + 1,
                       j->plan->epsilon);
    }
}

/* Where the next kept position goes. */
typedef struct output {
    int32_t *positions;
    uint8_t *stages; /* or NULL */
    int64_t at, end;
} output;

static void write_forced(output *o, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        o->positions[o->at] = (int32_t)i;
        if (o->stages != NULL)
            o->stages[o->at] = CKV_KEPT_FORCED;
        o->at++;
    }
}

/* Those TAKEN and those whose rank is at least `least` > TAKEN. */
static void write_some(output *o, const uint32_t *rank, int64_t from, int64_t to, uint32_t least)
{
    for (int64_t i = from; i < to; i++)
        if (rank[i] == TAKEN || rank[i] >= least) {
            o->positions[o->at] = (int32_t)i;
            if (o->stages != NULL)
                o->stages[o->at] = rank[i] == TAKEN ? CKV_KEPT_STAGE1 : CKV_KEPT_STAGE2;
            o->at++;
        }
}

/* The same; all of them must fit. */
static void write_chunk(const ckv_cpu_kernels *kernels, output *o, const uint32_t *rank, int64_t from, int64_t to,
                        uint32_t least)
{
    o->at += kernels->keep(rank + from, (int32_t)from, to - from, least, o->positions + o->at, o->stages + o->at);
}

static void write_kept(const head *h, int64_t keep)
{
    const job *j = h->job;
    int64_t budget = j->plan->budget;
    output o = {j->kept->positions, j->kept->stages, h->g * budget, (h->g + 1) * budget};
    cut c = find_cut(j->plan, &h->s, h->low, h->high, keep);
    write_forced(&o, 0, h->low);
    for (int64_t first = h->low, count; first < h->high; first += count) {
        count = next_chunk(first, h->high, c);
        uint32_t least = first < c.end ? c.rank : c.rank + 1;
        if (o.stages != NULL && count < o.end - o.at)
            write_chunk(ckv_cpu_kernels_of(j->plan), &o, h->s.rank, first, first + count, least);
        else
            write_some(&o, h->s.rank, first, first + count, least);
    }
    write_forced(&o, h->high, j->plan->tokens);
    j->kept->offsets[h->g + 1] = (int32_t)o.at;
}

static void select_head(const void *argument, int64_t g, int32_t worker)
{
    const job *j = argument;
    const ckv_plan *plan = j->plan;
    int64_t stage2 = ckv_plan_stage2_slots(plan);
    head h = {.job = j, .g = g};
    size_t size;
    if (j->idle != NULL && j->idle[g] != 0)
        return;
    ckv_plan_candidates(plan, &h.low, &h.high);
    lay_out(plan, j->scratch + (size_t)worker * j->scratch_size, &h.s, &size);
    rank_by_attention(&h);
    rank_by_score(&h, plan->budget - plan->forced - stage2);
    write_kept(&h, stage2);
}

static uint32_t select_heads(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm,
                             const ckv_kept *kept, const uint8_t *idle, void *workspace)
{
    job j = {plan, attention, norm, kept, idle, (char *)workspace + CKV_WORKSPACE_ALIGNMENT, 0, workspace};
    scratch s;
    lay_out(plan, NULL, &s, &j.scratch_size);
    atomic_store_explicit(j.flags, 0, memory_order_relaxed);
    kept->offsets[0] = 0;
    ckv_cpu_for_each(plan->context, plan->kv_heads, select_head, &j);
    return atomic_load_explicit(j.flags, memory_order_relaxed);
}

uint32_t ckv_cpu_select(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept,
                        void *workspace)
{
    return select_heads(plan, attention, norm, kept, NULL, workspace);
}

void ckv_cpu_select_some(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm,
                         const ckv_kept *kept, const uint8_t *idle, void *workspace)
{
    select_heads(plan, attention, norm, kept, idle, workspace);
}
