/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a problem that shows a difference as small as it goes; see verify_shrink.h. */
#include "verify_shrink.h"

#include "command.h"
#include "verify_numbers.h"
#include "verify_place.h"

#include <stdlib.h>
#include <string.h>

struct work {
    struct verify_shrink *shrink;
    enum verify_stage stage;
    struct verify_problem *best;
    double start;
    bool memory;
    bool better; /* since last asked */
};

/* ------------------------------------------------------------------ one try */

static bool over(const struct work *w)
{
    return !w->memory || w->shrink->tries >= w->shrink->most_tries ||
           command_clock() - w->start >= w->shrink->most_seconds ||
           (w->shrink->stopped != NULL && w->shrink->stopped() != 0);
}

/* Takes the candidate for the best if it differs; frees the other. */
static bool try_it(struct work *w, struct verify_problem *candidate)
{
    bool differs = false;

    if (!over(w)) {
        w->shrink->tries++;
        differs = w->shrink->differs(w->shrink->context, candidate);
    }
    if (differs) {
        verify_free(w->best);
        *w->best = *candidate;
        w->better = true;
    } else {
        verify_free(candidate);
    }
    return differs;
}

/* A copy to change. */
static bool copy(struct work *w, struct verify_problem *candidate)
{
    if (over(w))
        return false;
    if (verify_copy(candidate, w->best))
        return true;
    w->memory = false;
    verify_free(candidate);
    return false;
}

/* ------------------------------------------------------------------ axes */

/* Copies the cells of `input` that lie within the cut, in order. */
static void cut_cells(struct verify_problem *to, const struct verify_problem *from, enum verify_input input,
                      enum verify_axis axis, int64_t first)
{
    const enum verify_axis *axes = verify_axes[input];
    const size_t size = ckv_dtype_size(from->dtype[input]);
    int64_t old[4], new[4], skip[4] = {0, 0, 0, 0};
    char *at = to->cells[input];

    for (int i = 0; i < 4; i++) {
        old[i] = axes[i] == VERIFY_AXES ? 1 : from->axis[axes[i]];
        new[i] = axes[i] == VERIFY_AXES ? 1 : to->axis[axes[i]];
        skip[i] = axes[i] == axis ? first : 0;
    }
    for (int64_t a = 0; a < new[0]; a++)
        for (int64_t b = 0; b < new[1]; b++)
            for (int64_t c = 0; c < new[2]; c++, at += size * (size_t) new[3]) {
                int64_t row = ((a + skip[0]) * old[1] + b + skip[1]) * old[2] + c + skip[2];

                memcpy(at, (const char *)from->cells[input] + size * (size_t)(row * old[3] + skip[3]),
                       size * (size_t) new[3]);
            }
}

bool verify_cut(struct verify_problem *to, const struct verify_problem *from, enum verify_axis axis, int64_t first,
                int64_t length)
{
    *to = *from;
    memset(to->cells, 0, sizeof to->cells);
    to->axis[axis] = length;
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        const enum verify_input input = (enum verify_input)i;

        if (from->cells[i] == NULL || verify_count(to, input) == 0)
            continue;
        if (!verify_allocate(to, input))
            return false;
        cut_cells(to, from, input, axis, first);
        if (!verify_settle(to, input))
            return false;
    }
    return true;
}

static bool try_cut(struct work *w, enum verify_axis axis, int64_t first, int64_t length, int64_t budget)
{
    struct verify_problem candidate;

    if (over(w))
        return false;
    if (!verify_cut(&candidate, w->best, axis, first, length)) {
        w->memory = false;
        verify_free(&candidate);
        return false;
    }
    candidate.policy.budget = budget;
    return try_it(w, &candidate);
}

/* Either end, and with fewer tokens a smaller budget too. */
static bool shorten(struct work *w, enum verify_axis axis, int64_t by)
{
    const int64_t now = w->best->axis[axis], left = now - by, budget = w->best->policy.budget;
    int64_t less = budget * left / now;

    if (try_cut(w, axis, by, left, budget) || try_cut(w, axis, 0, left, budget))
        return true;
    less = less < 1 ? 1 : less;
    return axis == VERIFY_TOKENS && budget > less && try_cut(w, axis, by, left, less);
}

static void shorten_axis(struct work *w, enum verify_axis axis)
{
    int64_t step = w->best->axis[axis] - 1;

    while (step >= 1 && !over(w)) {
        if (w->best->axis[axis] - step < 1 || !shorten(w, axis, step))
            step /= 2;
    }
}

/* What the stage has no use for. */
static void drop_unused(struct work *w)
{
    for (int axis = 0; axis < VERIFY_AXES; axis++) {
        bool used = axis == VERIFY_KV_HEADS || axis == VERIFY_TOKENS || w->best->axis[axis] == 0;

        for (int input = 0; input < VERIFY_INPUTS; input++)
            for (int i = 0; i < 4; i++)
                used = used || ((int)verify_axes[input][i] == axis &&
                                verify_reads(w->best, 1u << w->stage, (enum verify_input)input));
        if (!used)
            try_cut(w, (enum verify_axis)axis, 0, 0, w->best->policy.budget);
    }
    for (int input = 0; input < VERIFY_INPUTS; input++) {
        struct verify_problem candidate;

        if (w->best->cells[input] == NULL || verify_reads(w->best, 1u << w->stage, (enum verify_input)input) ||
            !copy(w, &candidate))
            continue;
        free(candidate.cells[input]);
        candidate.cells[input] = NULL;
        try_it(w, &candidate);
    }
}

/* ------------------------------------------------------------------ options */

/* Numbers towards their least; `offset` of an int32_t or int64_t in the problem. */
#define OPTION(member, least)                                                                                          \
    {                                                                                                                  \
        offsetof(struct verify_problem, member), sizeof(((struct verify_problem *)0)->member), least                   \
    }
static const struct option {
    size_t offset, size;
    int64_t least;
} numbers[] = {
    OPTION(threads, 1),         OPTION(as_bytes, 0),          OPTION(in_place, 0),        OPTION(spare, 0),
    OPTION(policy.window, 1),   OPTION(policy.pool_width, 1), OPTION(policy.sinks, 0),    OPTION(policy.recent, 0),
    OPTION(policy.budget, 1),   OPTION(moves_keys, 0),        OPTION(place[0].offset, 0), OPTION(place[1].offset, 0),
    OPTION(place[2].offset, 0), OPTION(place[3].offset, 0),   OPTION(place[4].offset, 0), OPTION(place[5].offset, 0),
    OPTION(to[0].offset, 0),    OPTION(to[1].offset, 0),      OPTION(to[2].offset, 0),
};

static int64_t get(const struct verify_problem *p, const struct option *option)
{
    int64_t wide;
    int32_t narrow;

    if (option->size == sizeof wide) {
        memcpy(&wide, (const char *)p + option->offset, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)p + option->offset, sizeof narrow);
    return narrow;
}

static void set(struct verify_problem *p, const struct option *option, int64_t value)
{
    int32_t narrow = (int32_t)value;

    if (option->size == sizeof value)
        memcpy((char *)p + option->offset, &value, sizeof value);
    else
        memcpy((char *)p + option->offset, &narrow, sizeof narrow);
}

static void lower(struct work *w, const struct option *option)
{
    int64_t step = get(w->best, option) - option->least;

    while (step >= 1) {
        struct verify_problem candidate;
        int64_t next = get(w->best, option) - step;

        if (next < option->least) {
            step /= 2;
            continue;
        }
        if (!copy(w, &candidate))
            return;
        set(&candidate, option, next);
        if (!try_it(w, &candidate))
            step /= 2;
    }
}

/* Words that have a plain value; false where it has that already. */
enum { KEEP, ALPHA, EPSILON, SCALE, SKIP, POOL, CHOICES };

static bool choose_default(struct verify_problem *p, int choice)
{
    const ckv_policy before = p->policy;
    ckv_policy *policy = &p->policy, plain;

    ckv_policy_init(&plain);
    if (choice == KEEP) {
        policy->budget = plain.budget;
        policy->keep = plain.keep;
    } else if (choice == ALPHA) {
        policy->alpha = plain.alpha;
    } else if (choice == EPSILON) {
        policy->epsilon = plain.epsilon;
    } else if (choice == SCALE) {
        policy->scale = plain.scale;
    } else if (choice == SKIP) {
        policy->skip = plain.skip;
    } else {
        policy->pool = CKV_POOL_NONE;
        policy->pool_width = 1;
    }
    return memcmp(&before, policy, sizeof before) != 0;
}

static void simplify_options(struct work *w)
{
    struct verify_problem candidate;

    for (int choice = 0; choice < CHOICES && copy(w, &candidate); choice++) {
        if (choose_default(&candidate, choice))
            try_it(w, &candidate);
        else
            verify_free(&candidate);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        lower(w, &numbers[i]);
}

/* ------------------------------------------------------------------ memory and dtypes */

static void simplify_memory(struct work *w)
{
    struct verify_problem candidate;

    for (int i = 0; i < VERIFY_OUTPUTS; i++) {
        if (w->best->to[i].kind == ARRANGE_DENSE || !copy(w, &candidate))
            continue;
        candidate.to[i].kind = ARRANGE_DENSE;
        try_it(w, &candidate);
    }
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        if (w->best->place[i].kind != ARRANGE_DENSE && copy(w, &candidate)) {
            candidate.place[i].kind = ARRANGE_DENSE;
            try_it(w, &candidate);
        }
        if (w->best->cells[i] != NULL && w->best->dtype[i] != CKV_F32 && copy(w, &candidate)) {
            if (verify_widen(&candidate, (enum verify_input)i)) {
                try_it(w, &candidate);
            } else {
                w->memory = false;
                verify_free(&candidate);
            }
        }
    }
}

/* ------------------------------------------------------------------ numbers */

static bool replace(struct work *w, int input, int64_t first, int64_t length, enum verify_plainer how)
{
    struct verify_problem candidate;

    if (!copy(w, &candidate))
        return false;
    if (verify_plainer(&candidate, (enum verify_input)input, first, length, how) &&
        verify_settle(&candidate, (enum verify_input)input))
        return try_it(w, &candidate);
    verify_free(&candidate);
    return false;
}

static void simplify_numbers(struct work *w)
{
    for (int input = 0; input < VERIFY_INPUTS && !over(w); input++) {
        const int64_t count = w->best->cells[input] == NULL ? 0 : verify_count(w->best, (enum verify_input)input);
        bool done = count == 0;

        for (int how = 0; how < VERIFY_PLAINER && !done; how++)
            done = replace(w, input, 0, count, (enum verify_plainer)how) && how < VERIFY_POWERS;
        for (int64_t length = (count + 1) / 2; !done && length >= 1 && !over(w); length /= 2)
            for (int64_t first = 0; first < count; first += length)
                replace(w, input, first, first + length > count ? count - first : length, VERIFY_ONES);
    }
}

/* ------------------------------------------------------------------ other numbers */

#define REDRAWS 12

/* A wrong rounding shows with few numbers, and a cut changes them all: so that it does not end there,
 * a short axis is tried with several draws of plain ones. */
static void redraw_axes(struct work *w)
{
    for (int axis = 0; axis < VERIFY_AXES; axis++)
        for (int64_t length = 1; length <= w->best->axis[axis] / 2 && length <= 4; length *= 2)
            for (uint64_t seed = 0; seed < REDRAWS && w->best->axis[axis] > length && !over(w); seed++) {
                struct verify_problem candidate;
                bool good = verify_cut(&candidate, w->best, (enum verify_axis)axis, 0, length) &&
                            verify_redraw(&candidate, seed);

                if (good) {
                    try_it(w, &candidate);
                } else {
                    w->memory = false;
                    verify_free(&candidate);
                }
            }
}

/* ------------------------------------------------------------------ all of it */

static bool moved(struct work *w)
{
    bool better = w->better;

    w->better = false;
    return better;
}

bool verify_shrink(struct verify_shrink *shrink, enum verify_stage stage, struct verify_problem *p)
{
    struct work w = {.shrink = shrink, .stage = stage, .best = p, .start = command_clock(), .memory = true};

    shrink->tries = 0;
    do {
        do {
            drop_unused(&w);
            for (int axis = 0; axis < VERIFY_AXES; axis++)
                shorten_axis(&w, (enum verify_axis)axis);
            simplify_memory(&w);
            simplify_options(&w);
        } while (moved(&w) && !over(&w));
        redraw_axes(&w);
        simplify_numbers(&w);
    } while (moved(&w) && !over(&w));
    return w.memory;
}
