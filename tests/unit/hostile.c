/* SPDX-License-Identifier: Apache-2.0 */
#include "hostile.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* ---------------------------------------------------------------- tiles */

/* One size after another goes through its list: a tile less one, a tile, one more, and
 * several.  Keys come in tiles of 16 and blocks of 64; rows of V in tiles of 2, 3, 4 and
 * 12, and blocks of 96; queries in tiles of 2, 5, 6 and 12; outputs in panels of 16, 24
 * and 32; channels in steps of 1, 2, 4 and 8, four times unrolled. */
enum { TOKENS, QUERIES, HIDDEN, HIDDEN_7, VALUE_DIM, HEAD_DIM, SIZES };
static const char *const size_names[SIZES] = {"tokens",         "query rows", "hidden, weights of 10 bits",
                                              "hidden, 7 bits", "value_dim",  "head_dim"};
static const int32_t tokens[] = {1, 2, 15, 16, 17, 48, 63, 64, 65, 95, 96, 97, 128, 129, 191, 192, 193, 300};
static const int32_t queries[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 23, 24, 25, 36, 60};
static const int32_t hidden[] = {1, 7, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 95, 96, 97};
static const int32_t hidden_7[] = {1024, 1025, 1031, 1039, 1040, 1041, 1055, 1056, 1057};
static const int32_t value_dim[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 127, 129};
static const int32_t head_dim[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64, 127};
static const struct {
    const int32_t *list;
    int count;
} lists[SIZES] = {{tokens, COUNT(tokens)},     {queries, COUNT(queries)},     {hidden, COUNT(hidden)},
                  {hidden_7, COUNT(hidden_7)}, {value_dim, COUNT(value_dim)}, {head_dim, COUNT(head_dim)}};

/* Outputs of very different sizes, so that panels of many shifts are left half full. */
static void set_policy(test_problem *p, int number)
{
    p->low[TEST_WEIGHT] = number % 3 == 0 ? -20 : -3;
    for (int t = 0; t < TEST_TENSORS; t++)
        p->dtype[t] = (ckv_dtype)(CKV_F32 + (number + t) % 3);
    p->policy.budget = p->shape.tokens / 3;
    p->policy.recent = number % 4 == 0 ? 0 : 2;
    p->policy.sinks = number % 5;
}

static void tile_problem(test_problem *p, int size, int32_t value, int number)
{
    int32_t s[SIZES] = {50, 8, 40, 0, 12, 12};
    s[size] = value;
    /* The window is all queries; two heads of queries for each of keys. */
    int32_t group = s[QUERIES] % 2 == 0 ? 2 : 1;
    test_problem_init(p, 2, group, s[TOKENS], s[QUERIES] / group, s[HEAD_DIM], s[VALUE_DIM],
                      s[HIDDEN_7] > 0 ? s[HIDDEN_7] : s[HIDDEN]);
    p->policy.window = s[QUERIES] / group;
    set_policy(p, number);
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
}

/* ---------------------------------------------------------------- memory */

/* Views of tensors of 2 or 4 heads, 70 tokens, 13 or 9 channels. */
enum {
    SHARED_HEADS,
    HALF_SHARED_HEADS,
    ONE_ROW,
    SLIDING_ROWS,
    TOKENS_BACK,
    ALL_BACK,
    CHANNELS_APART,
    ONE_ELEMENT,
    VIEWS
};
static const char *const view_names[VIEWS] = {
    "all heads share their pages",     "heads share half of their pages",
    "every row is one row (stride 0)", "rows overlap: each starts an element after the last",
    "tokens from last to first",       "all strides negative",
    "channels as far apart as tokens", "every element is one element"};

/* Within the memory of the tensor as it was made: dense. */
static void set_view(ckv_tensor *view, int kind)
{
    int64_t *stride = view->stride, size = stride[2];
    char *data = view->data;
    switch (kind) {
    case SHARED_HEADS:
        stride[0] = 0;
        break;
    case HALF_SHARED_HEADS:
        stride[0] /= 2;
        stride[0] -= stride[0] % size;
        break;
    case ONE_ROW:
        stride[1] = 0;
        break;
    case SLIDING_ROWS:
        stride[1] = size;
        break;
    case TOKENS_BACK:
        data += (view->shape[1] - 1) * stride[1];
        stride[1] = -stride[1];
        break;
    case ALL_BACK:
        for (int i = 0; i < 3; i++) {
            data += (view->shape[i] - 1) * stride[i];
            stride[i] = -stride[i];
        }
        break;
    case CHANNELS_APART:
        stride[1] = view->shape[2] <= view->shape[1] ? size : 0;
        stride[2] = view->shape[1] * size;
        break;
    default:
        stride[0] = stride[1] = stride[2] = 0;
    }
    view->data = data;
}

static void view_problem(test_problem *p, int kind, int number)
{
    test_problem_init(p, 2, 2, 70, 70, 13, 9, 40);
    p->policy.window = 11;
    set_policy(p, number);
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
    set_view(&p->tensor[TEST_QUERY].view, kind);
    set_view(&p->tensor[TEST_KEY].view, kind);
    set_view(&p->tensor[TEST_VALUE].view, kind);
}

static const int offsets[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 63};

/* Dense tensors at any address: the smallest sizes that vectors meet whole. */
static void offset_problem(test_problem *p, int offset, int number)
{
    test_problem_init(p, 2, 2, 40, 8, 24, 24, 48);
    p->policy.window = 8;
    set_policy(p, number);
    test_problem_build(p);
    for (int t = 0; t < TEST_TENSORS; t++) {
        test_tensor *tensor = &p->tensor[t];
        size_t size = tensor->buffer.size;
        test_buffer_free(&tensor->buffer);
        test_buffer_new(&tensor->buffer, size, (size_t)(offset + t) % 64);
        tensor->cells.data = tensor->view.data = tensor->buffer.data;
    }
    test_problem_randomize(p, (uint64_t)number + 1);
}

/* ---------------------------------------------------------------- numbers */

/* The greatest sums that the norm's integers reach: 512 channels of the greatest q and w
 * (spec 5.1, 5.2), all of one sign, or alternating from output to output. */
static void greatest_problem(test_problem *p, int wide, int sign, int number)
{
    float q = wide ? 1.0f - 0x1p-20f : 32639 * 0x1p-15f, w = wide ? 1023 * 0x1p-10f : 127 * 0x1p-7f;
    test_problem_init(p, 1, 2, 14, 4, 4, 512, wide ? 200 : 1100);
    p->policy.budget = 7;
    p->policy.window = 4;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
    test_fill(&p->tensor[TEST_VALUE], sign == 2 ? -q : q);
    for (int64_t j = 0; j < p->shape.hidden; j++)
        for (int64_t c = 0; c < 1024; c++)
            test_put(&p->tensor[TEST_WEIGHT], 0, j, c, sign == 1 && j % 2 == 1 ? -w : w);
}

/* Kinds of numbers that a rounding, a limb or a rank may trip over. */
static void special_problem(test_problem *p, int kind, int number)
{
    static const uint32_t special[] = {0x00000000u, 0x80000000u, 0x00000001u, 0x807fffffu, 0x7f7fffffu, 0xff7fffffu,
                                       0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu, 0x3f7fffffu, 0xbf7fffffu,
                                       0x2c000000u, 0x2bffffffu, 0x53800000u, 0x53800001u};
    test_random r = test_seed((uint64_t)number + 7);
    test_problem_init(p, 2, 2, 60, 6, 10, 20, kind % 2 == 0 ? 60 : 1050);
    p->policy.budget = 25;
    p->policy.window = 6;
    p->policy.sinks = 1;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
    for (int t = 0; t < TEST_TENSORS; t++) {
        const int64_t *shape = p->tensor[t].cells.shape;
        int64_t times = kind < 2 ? 6 : shape[0] * shape[1] * shape[2] / 2;
        for (int64_t i = 0; i < times; i++)
            test_put_bits(&p->tensor[t], test_between(&r, 0, shape[0] - 1), test_between(&r, 0, shape[1] - 1),
                          test_between(&r, 0, shape[2] - 1), special[test_between(&r, 0, COUNT(special) - 1)]);
    }
}

/* All rows one row, so that all scores are one score: who is kept is up to positions. */
static void tied_problem(test_problem *p, int number)
{
    test_problem_init(p, 2, 1, 9000, 3, 1, 1, 1);
    p->policy.budget = 1000;
    p->policy.window = 3;
    p->policy.pool = CKV_POOL_NONE;
    test_problem_build(p);
    for (int t = 0; t < TEST_TENSORS; t++)
        test_fill(&p->tensor[t], number % 2 == 0 ? 1.0f : -0.5f);
}

/* Scores that repeat with the period at which a sample of the ranks would be taken. */
static void periodic_problem(test_problem *p, int number)
{
    test_random r = test_seed((uint64_t)number + 7);
    test_problem_init(p, 1, 1, 10240 + 2, 2, 1, 1, 1);
    p->policy.budget = number % 2 == 0 ? 3000 : 9000;
    p->policy.window = 2;
    p->policy.pool = CKV_POOL_NONE;
    test_problem_build(p);
    for (int t = 0; t < TEST_TENSORS; t++)
        test_fill(&p->tensor[t], 1.0f);
    for (int64_t i = 0; i < p->shape.tokens; i++) {
        int32_t x = i % 5 == 0 ? 256 : (int32_t)test_between(&r, 1, 255);
        test_put(&p->tensor[TEST_KEY], 0, i, 0, (float)x * 0x1p-6f);
        test_put(&p->tensor[TEST_VALUE], 0, i, 0, (float)x * 0x1p-6f);
    }
}

/* ---------------------------------------------------------------- the list */

#define TILE_PROBLEMS                                                                                                  \
    (COUNT(tokens) + COUNT(queries) + COUNT(hidden) + COUNT(hidden_7) + COUNT(value_dim) + COUNT(head_dim))
#define VIEW_PROBLEMS (2 * VIEWS)
#define GREATEST_PROBLEMS 6
#define SPECIAL_PROBLEMS 4
#define TIED_PROBLEMS 2
#define PERIODIC_PROBLEMS 2

const int hostile_problems = TILE_PROBLEMS + VIEW_PROBLEMS + COUNT(offsets) + GREATEST_PROBLEMS + SPECIAL_PROBLEMS +
                             TIED_PROBLEMS + PERIODIC_PROBLEMS;

void hostile_build(test_problem *p, int number, char name[HOSTILE_NAME])
{
    int i = number;
    for (int size = 0; size < SIZES; i -= lists[size++].count)
        if (i < lists[size].count) {
            int32_t value = lists[size].list[i];
            snprintf(name, HOSTILE_NAME, "%s %d", size_names[size], (int)value);
            tile_problem(p, size, value, number);
            return;
        }
    if (i < VIEW_PROBLEMS) {
        snprintf(name, HOSTILE_NAME, "%s", view_names[i % VIEWS]);
        view_problem(p, i % VIEWS, number);
        return;
    }
    i -= VIEW_PROBLEMS;
    if (i < COUNT(offsets)) {
        snprintf(name, HOSTILE_NAME, "addresses %d past a multiple of 64", offsets[i]);
        offset_problem(p, offsets[i], number);
        return;
    }
    i -= COUNT(offsets);
    if (i < GREATEST_PROBLEMS) {
        snprintf(name, HOSTILE_NAME, "the greatest integers, weights of %d bits", i < 3 ? 7 : 10);
        greatest_problem(p, i / 3, i % 3, number);
        return;
    }
    i -= GREATEST_PROBLEMS;
    if (i < SPECIAL_PROBLEMS) {
        snprintf(name, HOSTILE_NAME, "special numbers, kind %d", i);
        special_problem(p, i, number);
        return;
    }
    i -= SPECIAL_PROBLEMS;
    if (i < TIED_PROBLEMS) {
        snprintf(name, HOSTILE_NAME, "all scores tie");
        tied_problem(p, i);
        return;
    }
    snprintf(name, HOSTILE_NAME, "a sample of the scores misleads");
    periodic_problem(p, i - TIED_PROBLEMS);
}
