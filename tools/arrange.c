/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to lay out a tensor in memory; see arrange.h. */
#include "arrange.h"

#include <string.h>

static const char *const names[ARRANGEMENTS] = {
    "dense",       "tokens-first", "transposed",  "reversed", "odd",     "backwards", "padded",
    "every-other", "shared-heads", "half-shared", "one-row",  "sliding", "folded",    "one-element"};

const char *arrange_name(enum arrangement kind)
{
    return names[kind];
}

enum arrangement arrange_named(const char *name)
{
    int kind = 0;

    while (kind < ARRANGEMENTS && strcmp(names[kind], name) != 0)
        kind++;
    return (enum arrangement)kind;
}

/* From the lowest element to the end of the highest. */
static void measure(struct arranged *a, int64_t size, const int64_t shape[3])
{
    a->bytes = size;
    for (int i = 0; i < 3; i++) {
        int64_t reach = (shape[i] - 1) * a->stride[i];

        a->bytes += reach < 0 ? -reach : reach;
        a->start += reach < 0 ? -reach : 0;
    }
}

struct arranged arrange(enum arrangement kind, int64_t size, const int64_t shape[3])
{
    const int64_t tokens = shape[1], row = shape[2] * size;
    struct arranged a = {.stride = {tokens * row, row, size}};

    switch (kind) {
    case ARRANGE_TOKENS_FIRST:
        a.stride[0] = row;
        a.stride[1] = shape[0] * row;
        break;
    case ARRANGE_TRANSPOSED:
        a.stride[1] = size;
        a.stride[2] = tokens * size;
        break;
    case ARRANGE_REVERSED:
        for (int i = 0; i < 3; i++)
            a.stride[i] = -a.stride[i];
        break;
    case ARRANGE_ODD:
        a.stride[1] = row + 1 + row % 2;
        a.stride[0] = tokens * a.stride[1];
        a.offset = 1;
        break;
    case ARRANGE_BACKWARDS:
        a.stride[1] = -row;
        break;
    case ARRANGE_PADDED:
        a.stride[1] = row + 3 * size;
        a.stride[0] = tokens * a.stride[1] + 5 * size;
        break;
    case ARRANGE_EVERY_OTHER:
        for (int i = 0; i < 3; i++)
            a.stride[i] *= 2;
        break;
    case ARRANGE_SHARED_HEADS:
        a.stride[0] = 0;
        break;
    case ARRANGE_HALF_SHARED:
        a.stride[0] /= 2;
        a.stride[0] -= a.stride[0] % size;
        break;
    case ARRANGE_ONE_ROW:
        a.stride[1] = 0;
        break;
    case ARRANGE_SLIDING:
        a.stride[1] = size;
        break;
    case ARRANGE_FOLDED:
        a.stride[1] = shape[2] <= tokens ? size : 0;
        a.stride[2] = tokens * size;
        break;
    case ARRANGE_ONE_ELEMENT:
        a.stride[0] = a.stride[1] = a.stride[2] = 0;
        break;
    case ARRANGE_DENSE:
    case ARRANGEMENTS:
        break;
    }
    measure(&a, size, shape);
    return a;
}
