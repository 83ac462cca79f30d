/* SPDX-License-Identifier: Apache-2.0 */
/* The least work of each stage, and what known chips can do at most. */
#include <math.h>
#include <string.h>

#include "device.h"

/* Dense, at the boost clock, as the vendors' data sheets have them. */
static const struct chip chips[] = {
    {"H200", "NVL", 1979e12, 67e12, 4.8e12},
    {"H100 80GB HBM3", "PCIe", 1979e12, 67e12, 3.35e12},
    {"A100-SXM", NULL, 624e12, 19.5e12, 2.0e12},
    {"MI300X", NULL, 2615e12, 163.4e12, 5.3e12},
};

const struct chip *chip_of(const char *device)
{
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++)
        if (strstr(device, chips[i].name) != NULL &&
            (chips[i].unlike == NULL || strstr(device, chips[i].unlike) == NULL))
            return &chips[i];
    return NULL;
}

/* 8-bit products of one product of the norm: two limbs of a value, and of a weight one
 * or, where it has more than 7 bits, two (spec 5.1, 5.2). */
static double limbs(const struct subject *subject)
{
    return subject->projection->weight_bits > 7 ? 4 : 2;
}

/*
 * score    one pass of logits; Q and K read, attention written
 * norm     every row through the projection in 8-bit parts; V and W_O (as 8 or 16 bits)
 *          read, norms written
 * select   attention and norms read, positions and stages written
 * compact  kept rows of keys and values read and written
 * evict    score, norm and select, with every norm
 */
struct work work_of(const struct subject *subject, enum stage stage)
{
    const struct layer *l = subject->layer;
    double n = (double)l->tokens, heads = l->query_heads, entries = l->kv_heads * n, w = (double)subject->info.window;
    double kept = (double)subject->info.positions, d = l->head_dim, dv = l->value_dim, outputs = heads * dv * l->hidden;
    struct work sum = {0, 0, 0};
    switch (stage) {
    case SCORE:
        return (struct work){2 * heads * w * n * d, 0, entries * (2 * d + 4) + 2 * heads * w * d};
    case NORM:
        return (struct work){0, 2 * limbs(subject) * outputs * n,
                             entries * (2 * dv + 4) + outputs * limbs(subject) / 2};
    case SELECT:
        return (struct work){0, 0, entries * 8 + kept * 5};
    case COMPACT:
    case IN_PLACE:
        return (struct work){0, 0, 2 * kept * 2 * (d + dv)};
    default:
        for (int i = SCORE; i <= SELECT; i++) {
            struct work part = work_of(subject, (enum stage)i);
            sum.flops += part.flops;
            sum.integer_ops += part.integer_ops;
            sum.bytes += part.bytes;
        }
        return sum;
    }
}

/* What evict must do of a stage: where it leaves norms out, those of stage 2's entries
 * are made in any case. */
static double share_of(const struct subject *subject, enum stage stage)
{
    const ckv_plan *plan = subject->plan;
    int64_t first = plan->stage1 > plan->forced ? plan->stage1 : plan->forced;
    return stage == NORM && ckv_gpu_skips(plan) ? (double)(plan->budget - first) / (double)plan->tokens : 1;
}

double floor_of(const struct subject *subject, enum stage stage, const struct chip *chip, double measured,
                const char **bound)
{
    struct work work = work_of(subject, stage);
    double bandwidth = chip != NULL ? chip->bytes : measured, sum = 0, compute;
    if (stage == EVICT || stage == REPLAY) { /* one stage after the other */
        for (int i = SCORE; i <= SELECT; i++)
            sum += floor_of(subject, (enum stage)i, chip, measured, bound) * share_of(subject, (enum stage)i);
        *bound = "stages";
        return sum;
    }
    *bound = chip != NULL ? "memory" : "measured copy";
    if (!(bandwidth > 0))
        return (double)NAN;
    if (chip == NULL)
        return work.bytes / bandwidth;
    compute = work.flops / chip->fp32 + work.integer_ops / chip->int8;
    if (compute > work.bytes / bandwidth)
        *bound = work.integer_ops > 0 ? "int8" : "fp32";
    return fmax(compute, work.bytes / bandwidth);
}
