/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stage costs by counted work (costs.def), over round figures of a compute unit of
 * any chip.  It ranks candidates before any is timed; no result and no promise rests on it.
 */
#include "costs.h"
#include "tunables.h"

/* A second, of one compute unit. */
#define FP32 384e9     /* operations: 128 lanes at 1.5 GHz, two each */
#define BY_INT 150e9   /* of products of integers, one for two limbs */
#define BY_DOT4 750e9  /* of products of four bytes */
#define BY_MATRIX 6e12 /* of matrices */
#define MEMORY 25e9    /* bytes */
#define CACHE 60e9     /* bytes from what all units share */
#define RESIDENT 4     /* work-groups of a unit at once */
#define LAUNCH 3e-6    /* seconds */

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* Work-groups that run whole: how much longer the units take than an even share. */
static double unevenness(double groups, double units)
{
    const double each = groups / (units * RESIDENT);
    double most = (double)(int64_t)each;
    most += most < each;
    return each > 0 ? most / each : 1;
}

static double seconds_of(int family, const ckv_gpu_cost_shape *shape, double int8_rate, double groups, double units)
{
    const ckv_gpu_cost cost = ckv_gpu_cost_of(family, shape);
    const double compute = (cost.fp32 / FP32 + cost.int8 / int8_rate) / units * unevenness(groups, units);
    return LAUNCH + greater(compute, greater(cost.bytes / MEMORY, cost.traffic / CACHE) / units);
}

double ckv_gpu_estimate(const ckv_plan *plan, ckv_stage stage)
{
    static const double rates[] = {
        [CKV_GPU_BY_INT] = BY_INT * 2, [CKV_GPU_BY_DOT4] = BY_DOT4, [CKV_GPU_BY_MATRIX] = BY_MATRIX};
    const ckv_gpu *gpu = ckv_gpu_of(plan->context);
    const int32_t *value = plan->parameters.value;
    const double units = gpu->info.compute_units > 0 ? gpu->info.compute_units : 1;
    ckv_gpu_cost_shape s = {.n = (double)plan->tokens,
                            .hq = plan->query_heads,
                            .hkv = plan->kv_heads,
                            .d = plan->head_dim,
                            .dv = plan->value_dim,
                            .hidden = plan->hidden,
                            .w = (double)plan->window,
                            .budget = (double)plan->budget,
                            .size = 2,
                            .keys = value[CKV_GPU_SCORE_KEYS]};
    const ckv_gpu_sizes sizes = {value[CKV_GPU_INT_ROWS], value[CKV_GPU_NORM_TILES]};
    const ckv_gpu_route route = ckv_gpu_route_of(ckv_gpu_route_for(gpu, value[CKV_GPU_NORM_ROUTE]), plan->value_dim,
                                                 plan->hidden < CKV_WIDE_BELOW ? 12 : 15);
    const double row_tiles = (double)(((int64_t)plan->group * plan->window + SCORE_ROWS - 1) / SCORE_ROWS);
    double score, norm, select, groups;
    s.rows = (double)ckv_gpu_norm_rows(route, ckv_gpu_steps(plan->value_dim), sizes);
    groups = s.n / greater(value[CKV_GPU_SCORE_CHUNK], s.keys) * s.hkv * row_tiles;
    score = seconds_of(CKV_GPU_COST_ckv_row_max, &s, BY_DOT4, groups, units) +
            seconds_of(CKV_GPU_COST_ckv_row_sum, &s, BY_DOT4, groups, units);
    s.keys = value[CKV_GPU_ATTEND_KEYS];
    score += seconds_of(CKV_GPU_COST_ckv_attend, &s, BY_DOT4, s.n / s.keys * s.hq, units) +
             seconds_of(CKV_GPU_COST_ckv_pool, &s, BY_DOT4, s.n / REDUCE_GROUP * s.hkv, units) +
             2 * LAUNCH * (double)((plan->group + value[CKV_GPU_SCORE_WAVE] - 1) / value[CKV_GPU_SCORE_WAVE]);
    norm = seconds_of(CKV_GPU_COST_ckv_norm, &s, rates[ckv_gpu_value_for(route)], s.n / s.rows * s.hkv, units);
    select = seconds_of(CKV_GPU_COST_ckv_select, &s, BY_DOT4, s.hkv, units);
    switch (stage) {
    case CKV_SCORE:
        return score;
    case CKV_NORM:
        return norm;
    case CKV_SELECT:
        return select;
    case CKV_COMPACT:
        return seconds_of(CKV_GPU_COST_ckv_compact, &s, BY_DOT4, units, units);
    default:
        break;
    }
    if (!ckv_gpu_skips(plan))
        return score + norm + select;
    /* What is left of the norm is its share of stage 2, at least. */
    norm *= (double)ckv_plan_stage2_slots(plan) / s.n;
    s.rows = value[CKV_GPU_BOUND_ROWS];
    return score + norm + 2 * select + seconds_of(CKV_GPU_COST_ckv_bound, &s, BY_DOT4, s.n / s.rows * s.hkv, units);
}
