/* SPDX-License-Identifier: Apache-2.0 */
#include "hostile.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* ---------------------------------------------------------------- tiles */

/* One size after another goes through its list of the edges of tiles. */
static const char *const size_names[DRAW_EDGES] = {
    [DRAW_TOKENS] = "tokens",           [DRAW_QUERIES] = "query rows",  [DRAW_HIDDEN] = "hidden, weights of 10 bits",
    [DRAW_HIDDEN_7] = "hidden, 7 bits", [DRAW_VALUE_DIM] = "value_dim", [DRAW_HEAD_DIM] = "head_dim"};

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
    int32_t s[DRAW_EDGES] = {[DRAW_TOKENS] = 50,  [DRAW_QUERIES] = 8,    [DRAW_HIDDEN] = 40,
                             [DRAW_HIDDEN_7] = 0, [DRAW_VALUE_DIM] = 12, [DRAW_HEAD_DIM] = 12};
    s[size] = value;
    /* The window is all queries; two heads of queries for each of keys. */
    int32_t group = s[DRAW_QUERIES] % 2 == 0 ? 2 : 1;
    test_problem_init(p, 2, group, s[DRAW_TOKENS], s[DRAW_QUERIES] / group, s[DRAW_HEAD_DIM], s[DRAW_VALUE_DIM],
                      s[DRAW_HIDDEN_7] > 0 ? s[DRAW_HIDDEN_7] : s[DRAW_HIDDEN]);
    p->policy.window = s[DRAW_QUERIES] / group;
    set_policy(p, number);
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
}

/* ---------------------------------------------------------------- memory */

/* Views of tensors of 2 or 4 heads, 70 tokens, 13 or 9 channels. */
static const struct {
    enum arrangement kind;
    const char *name;
} views[] = {{ARRANGE_SHARED_HEADS, "all heads share their pages"},
             {ARRANGE_HALF_SHARED, "heads share half of their pages"},
             {ARRANGE_ONE_ROW, "every row is one row (stride 0)"},
             {ARRANGE_SLIDING, "rows overlap: each starts an element after the last"},
             {ARRANGE_BACKWARDS, "tokens from last to first"},
             {ARRANGE_REVERSED, "all strides negative"},
             {ARRANGE_FOLDED, "channels as far apart as tokens"},
             {ARRANGE_ONE_ELEMENT, "every element is one element"}};
#define VIEWS COUNT(views)

/* Within the memory of the tensor as it was made: dense. */
static void set_view(ckv_tensor *view, enum arrangement kind)
{
    const struct arranged a = arrange(kind, view->stride[2], view->shape);
    view->data = (char *)view->data + a.start;
    for (int i = 0; i < 3; i++)
        view->stride[i] = a.stride[i];
}

static void view_problem(test_problem *p, enum arrangement kind, int number)
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
                          test_between(&r, 0, shape[2] - 1), draw_special[test_between(&r, 0, DRAW_SPECIALS - 1)]);
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

#define VIEW_PROBLEMS (2 * VIEWS)
#define GREATEST_PROBLEMS 6
#define SPECIAL_PROBLEMS 4
#define TIED_PROBLEMS 2
#define PERIODIC_PROBLEMS 2

const int hostile_problems = DRAW_EDGE_SIZES + VIEW_PROBLEMS + COUNT(offsets) + GREATEST_PROBLEMS + SPECIAL_PROBLEMS +
                             TIED_PROBLEMS + PERIODIC_PROBLEMS;

void hostile_build(test_problem *p, int number, char name[HOSTILE_NAME])
{
    int i = number;
    for (int size = 0; size < DRAW_EDGES; i -= draw_edges[size++].count)
        if (i < draw_edges[size].count) {
            int32_t value = draw_edges[size].sizes[i];
            snprintf(name, HOSTILE_NAME, "%s %d", size_names[size], (int)value);
            tile_problem(p, size, value, number);
            return;
        }
    if (i < VIEW_PROBLEMS) {
        snprintf(name, HOSTILE_NAME, "%s", views[i % VIEWS].name);
        view_problem(p, views[i % VIEWS].kind, number);
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
