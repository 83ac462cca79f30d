/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers a file holds, and views of their tensors, checked against each other. */
#ifndef CKV_TOOLS_LAYERS_H
#define CKV_TOOLS_LAYERS_H

#include "checkpoint.h"
#include "safetensors.h"

#include <ckv/ckv.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Views of the mapped files, without copies; those that a command does not read
 * stay zeroed. */
struct layer {
    int32_t number;
    int32_t query_heads, kv_heads;
    int64_t tokens, queries;
    int32_t head_dim, value_dim, hidden;
    float scale;                          /* of the logits, as in ckv_policy; 0: the default */
    ckv_tensor query, key, value, weight; /* evict */
    ckv_tensor attention, norm;           /* select */
};

struct layer_list {
    struct layer *layers; /* by number */
    size_t count;
};

/* The layers asked for, ascending; none: all that there are. */
struct layer_choice {
    const int32_t *layers;
    size_t count;
};

/* query, key, value and o_proj.weight, the last from `model` unless it is NULL, and
 * the scale.  False after one error line. */
bool layers_find(const struct st_file *input, struct checkpoint *model, const struct layer_choice *choice,
                 struct layer_list *list);

/* attention and norm. */
bool layers_find_scores(const struct st_file *input, const struct layer_choice *choice, struct layer_list *list);

/* Also accepts a zeroed list. */
void layers_free(struct layer_list *list);

/* Bytes of the dense view, as those above are. */
size_t layers_bytes(const ckv_tensor *tensor);

#endif
