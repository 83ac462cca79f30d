/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to lay out a tensor in memory, good and bad, for `ckv verify' and the tests. */
#ifndef CKV_TOOLS_ARRANGE_H
#define CKV_TOOLS_ARRANGE_H

#include <stdint.h>

enum arrangement {
    ARRANGE_DENSE,        /* [heads, tokens, width] */
    ARRANGE_TOKENS_FIRST, /* [tokens, heads * width] */
    ARRANGE_TRANSPOSED,   /* [heads, width, tokens] */
    ARRANGE_REVERSED,     /* every stride negative */
    ARRANGE_ODD,          /* at an odd address, rows of an odd number of bytes */
    ARRANGE_BACKWARDS,    /* tokens from last to first */
    ARRANGE_PADDED,       /* elements left out between rows, more between heads */
    ARRANGE_EVERY_OTHER,  /* elements left out between channels */
    /* Elements lie apart in those above.  In the others some share their bytes: inputs only. */
    ARRANGE_SHARED_HEADS, /* all heads share their pages */
    ARRANGE_HALF_SHARED,  /* each shares half of its pages with the next */
    ARRANGE_ONE_ROW,      /* every row is one row (stride 0) */
    ARRANGE_SLIDING,      /* each row starts an element after the last */
    ARRANGE_FOLDED,       /* channels as far apart as tokens, tokens an element apart or none */
    ARRANGE_ONE_ELEMENT,  /* every element is one element */
    ARRANGEMENTS,
    ARRANGE_APART = ARRANGE_SHARED_HEADS /* how many of them have elements apart */
};

/* Strides and size in bytes; the first element is `start` bytes after the lowest address, which
 * is `offset` past a multiple of anything. */
struct arranged {
    int64_t stride[3];
    int64_t start, bytes, offset;
};

/* Of a tensor [heads, tokens, width], each at least 1, of elements of `size` bytes. */
struct arranged arrange(enum arrangement kind, int64_t size, const int64_t shape[3]);

/* A word for it, and back: ARRANGEMENTS when there is none such. */
const char *arrange_name(enum arrangement kind);
enum arrangement arrange_named(const char *name);

#endif
