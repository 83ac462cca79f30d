/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of models' attention layers, from JSON files. */
#ifndef CKV_BENCH_SHAPES_H
#define CKV_BENCH_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

struct shape {
    char name[64];
    int32_t query_heads, kv_heads, head_dim, value_dim, hidden;
};

/* The shipped ones, in the order of a report; NULL ends the list. */
extern const char *const shapes_shipped[];

/* Whether the text is a shipped shape's name, in any case, or else a file's path. */
bool shapes_is_shipped(const char *text);
bool shapes_is_path(const char *text);

/*
 * `text`: a shipped shape's name, or the path of a .json file: an object with "name",
 * "query_heads", "kv_heads", "head_dim", "hidden", and "value_dim" where it
 * is not head_dim.  `option` is what an error line names.  False after one.
 */
bool shapes_read(const char *option, const char *text, struct shape *shape);

#endif
