/* SPDX-License-Identifier: Apache-2.0 */
/* W_O of a Hugging Face checkpoint: one safetensors file, or an index of several. */
#ifndef CKV_TOOLS_CHECKPOINT_H
#define CKV_TOOLS_CHECKPOINT_H

#include "safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct checkpoint {
    const char *path;       /* as given */
    json_t *index;          /* NULL: `path` is the one safetensors file */
    struct st_file **files; /* opened so far, each only once */
    size_t file_count;
};

/* `path` outlives the checkpoint.  False after one error line. */
bool checkpoint_open(struct checkpoint *checkpoint, const char *path);

/* The o_proj.weight of `layer` and the path of the file that holds it, both valid
 * until the checkpoint is closed.  NULL after one error line. */
const struct st_tensor *checkpoint_o_proj(struct checkpoint *checkpoint, int32_t layer, const char **path);

/* Also accepts a zeroed checkpoint. */
void checkpoint_close(struct checkpoint *checkpoint);

#endif
