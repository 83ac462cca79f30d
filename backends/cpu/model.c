/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stage costs by counted work: operations and bytes as functions of the sizes and
 * the parameters, over round figures of a machine.  It ranks candidates before any is
 * timed; no result and no promise rests on it.
 */
#include <string.h>

#include "cpu.h"
#include "tunables.h"

/* Multiply-adds a second of one thread at 3 GHz: fp32, and 16-bit integers or the norm's
 * own form of them. */
static const struct {
    const char *isa;
    double fp32, integer;
} rates[] = {
    {"avx512vnni", 96e9, 200e9}, {"avxvnni", 48e9, 100e9},     {"avx512", 96e9, 100e9}, {"avx2", 48e9, 48e9},
    {"neon_i8mm", 24e9, 96e9},   {"neon_dotprod", 24e9, 48e9}, {"neon", 24e9, 24e9},    {"portable", 6e9, 6e9},
};

#define MEMORY 10e9        /* bytes a second, of all threads */
#define CACHE 40e9         /* of one thread, from what all cores share */
#define NEAR_CACHE 100e9   /* of one thread, from its own second cache */
#define NEAREST (24 << 10) /* bytes that stay in the first cache beside the rest */

static size_t rates_of(const ckv_plan *plan)
{
    const char *isa = ckv_cpu_kernels_list[plan->parameters.value[CKV_CPU_ISA]]->isa;
    size_t i = 0;
    while (i + 1 < sizeof rates / sizeof rates[0] && strcmp(rates[i].isa, isa) != 0)
        i++;
    return i;
}

/* Items that are shared out whole: how much longer the busiest thread takes than an even share. */
static double unevenness(double items, double threads)
{
    double each = items / threads, most = (double)(int64_t)each;
    most += most < each;
    return each > 0 ? most / each : 1;
}

/* Each block of rows meets every panel of W once; its own rows are read again for each
 * panel, from the first cache where they fit. */
static double norm(const ckv_plan *plan)
{
    const ckv_cpu_kernels *kernels = ckv_cpu_kernels_list[plan->parameters.value[CKV_CPU_ISA]];
    double block = plan->parameters.value[CKV_CPU_NORM_BLOCK], threads = plan->context->threads;
    double blocks = (double)((plan->tokens + (int64_t)block - 1) / (int64_t)block), items = blocks * plan->kv_heads;
    double weights = (double)plan->group * plan->value_dim * plan->hidden; /* that one item meets */
    double rows = block * plan->value_dim * 2.0, panels = (double)plan->group * plan->hidden / kernels->norm_columns;
    double one = weights * block / rates[rates_of(plan)].integer + weights * kernels->norm_weight_size / CACHE;
    if (rows > NEAREST)
        one += panels * rows / NEAR_CACHE;
    return items * one / threads * unevenness(items, threads);
}

static double score(const ckv_plan *plan)
{
    double passes = 2, rows = (double)plan->query_heads * (double)plan->window;
    double macs = passes * rows * (double)plan->tokens * plan->head_dim;
    double bytes = (double)plan->kv_heads * (double)plan->tokens * plan->head_dim * 2.0;
    return macs / rates[rates_of(plan)].fp32 / plan->context->threads + bytes / MEMORY;
}

double ckv_cpu_estimate(const ckv_plan *plan, ckv_stage stage)
{
    double entries = (double)plan->kv_heads * (double)plan->tokens;
    double kept = (double)plan->kv_heads * (double)plan->budget;
    switch (stage) {
    case CKV_SCORE:
        return score(plan);
    case CKV_NORM:
        return norm(plan);
    case CKV_SELECT:
        return (entries * 8 + kept * 5) / MEMORY;
    case CKV_COMPACT:
        return 2 * kept * 2 * (plan->head_dim + plan->value_dim) / MEMORY;
    default:
        return score(plan) + norm(plan) + (entries * 8 + kept * 5) / MEMORY;
    }
}
