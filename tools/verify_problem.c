/* SPDX-License-Identifier: Apache-2.0 */
/* A problem of ckv verify: its sizes and memory. */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

const char *const verify_stages[VERIFY_STAGES] = {"score", "norm", "select", "compact", "evict"};

enum verify_stage verify_stage_named(const char *name)
{
    int stage = 0;

    while (stage < VERIFY_STAGES && strcmp(verify_stages[stage], name) != 0)
        stage++;
    return (enum verify_stage)stage;
}

#define NONE VERIFY_AXES
const enum verify_axis verify_axes[VERIFY_INPUTS][4] = {
    [VERIFY_QUERY] = {VERIFY_KV_HEADS, VERIFY_GROUP, VERIFY_QUERIES, VERIFY_HEAD_DIM},
    [VERIFY_KEY] = {VERIFY_KV_HEADS, NONE, VERIFY_TOKENS, VERIFY_HEAD_DIM},
    [VERIFY_VALUE] = {VERIFY_KV_HEADS, NONE, VERIFY_TOKENS, VERIFY_VALUE_DIM},
    [VERIFY_WEIGHT] = {VERIFY_HIDDEN, VERIFY_KV_HEADS, VERIFY_GROUP, VERIFY_VALUE_DIM},
    [VERIFY_ATTENTION] = {NONE, NONE, VERIFY_KV_HEADS, VERIFY_TOKENS},
    [VERIFY_NORMS] = {NONE, NONE, VERIFY_KV_HEADS, VERIFY_TOKENS},
};

const char *const verify_input_names[VERIFY_INPUTS] = {"query", "key", "value", "o_proj.weight", "attention", "norm"};

static int64_t length(const struct verify_problem *p, enum verify_axis axis)
{
    return axis == NONE ? 1 : p->axis[axis];
}

bool verify_extents(const struct verify_problem *p, enum verify_input input, int64_t extent[3])
{
    const enum verify_axis *axes = verify_axes[input];

    if (input == VERIFY_WEIGHT) { /* [D, Hq * dv] */
        extent[0] = 1;
        extent[1] = length(p, axes[0]);
        extent[2] = length(p, axes[1]) * length(p, axes[2]) * length(p, axes[3]);
    } else {
        extent[0] = length(p, axes[0]) * length(p, axes[1]);
        extent[1] = length(p, axes[2]);
        extent[2] = length(p, axes[3]);
    }
    return extent[0] > 0 && extent[1] > 0 && extent[2] > 0;
}

bool verify_reads(const struct verify_problem *p, unsigned stages, enum verify_input input)
{
    static const unsigned readers[VERIFY_INPUTS] = {
        [VERIFY_QUERY] = 1u << VERIFY_SCORE | 1u << VERIFY_EVICT,
        [VERIFY_KEY] = 1u << VERIFY_SCORE | 1u << VERIFY_EVICT,
        [VERIFY_VALUE] = 1u << VERIFY_NORM | 1u << VERIFY_EVICT,
        [VERIFY_WEIGHT] = 1u << VERIFY_NORM | 1u << VERIFY_EVICT,
        [VERIFY_ATTENTION] = 1u << VERIFY_SELECT | 1u << VERIFY_COMPACT,
        [VERIFY_NORMS] = 1u << VERIFY_SELECT | 1u << VERIFY_COMPACT,
    };
    const bool moved = input == (p->moves_keys != 0 ? VERIFY_KEY : VERIFY_VALUE);

    return (readers[input] & stages) != 0 || (moved && (stages & 1u << VERIFY_COMPACT) != 0);
}

int64_t verify_count(const struct verify_problem *p, enum verify_input input)
{
    int64_t extent[3];

    return verify_extents(p, input, extent) ? extent[0] * extent[1] * extent[2] : 0;
}

ckv_shape verify_shape(const struct verify_problem *p)
{
    ckv_shape shape;

    ckv_shape_init(&shape);
    shape.kv_heads = (int32_t)p->axis[VERIFY_KV_HEADS];
    shape.query_heads = (int32_t)(p->axis[VERIFY_KV_HEADS] * p->axis[VERIFY_GROUP]);
    shape.tokens = p->axis[VERIFY_TOKENS];
    shape.queries = p->axis[VERIFY_QUERIES];
    shape.head_dim = (int32_t)p->axis[VERIFY_HEAD_DIM];
    shape.value_dim = (int32_t)p->axis[VERIFY_VALUE_DIM];
    shape.hidden = (int32_t)p->axis[VERIFY_HIDDEN];
    return shape;
}

double verify_work(const struct verify_problem *p)
{
    const int64_t *a = p->axis;
    double rows = (double)a[VERIFY_KV_HEADS] * (double)a[VERIFY_TOKENS];
    double window = (double)(p->policy.window < a[VERIFY_QUERIES] ? p->policy.window : a[VERIFY_QUERIES]);
    double score = window * (double)a[VERIFY_GROUP] * ((double)a[VERIFY_HEAD_DIM] + 30);
    double norm = (double)a[VERIFY_GROUP] * (double)a[VERIFY_VALUE_DIM] * (double)a[VERIFY_HIDDEN];

    return rows * (score + 2 * norm + 100);
}

bool verify_allocate(struct verify_problem *p, enum verify_input input)
{
    free(p->cells[input]);
    p->cells[input] = calloc((size_t)verify_count(p, input) + 1, ckv_dtype_size(p->dtype[input]));
    return p->cells[input] != NULL;
}

bool verify_copy(struct verify_problem *to, const struct verify_problem *from)
{
    *to = *from;
    memset(to->cells, 0, sizeof to->cells);
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        const enum verify_input input = (enum verify_input)i;

        if (from->cells[i] == NULL)
            continue;
        if (!verify_allocate(to, input))
            return false;
        memcpy(to->cells[i], from->cells[i], (size_t)verify_count(from, input) * ckv_dtype_size(from->dtype[i]));
    }
    return true;
}

void verify_free(struct verify_problem *p)
{
    for (int i = 0; i < VERIFY_INPUTS; i++)
        free(p->cells[i]);
    memset(p, 0, sizeof *p);
}
