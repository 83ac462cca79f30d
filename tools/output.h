/* SPDX-License-Identifier: Apache-2.0 */
/* Writer of safetensors files: all of the file appears under its name, or none. */
#ifndef CKV_TOOLS_OUTPUT_H
#define CKV_TOOLS_OUTPUT_H

#include "safetensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_MAX_RANK 3

struct output_tensor {
    int32_t layer;
    const char *suffix; /* the name is layers.LAYER.SUFFIX; a string constant */
    enum st_dtype dtype;
    int rank;
    int64_t shape[OUTPUT_MAX_RANK];
    uint64_t begin, end;
};

/* Zero it, add every tensor and line of metadata, open, write each tensor's bytes in any order, then
 * commit; close in any case. */
struct output {
    const char *path;
    char *target;    /* what is replaced in the end: `path` with symbolic links followed */
    char *temporary; /* NULL for a device, which is written directly */
    int file;
    bool is_open;
    struct output_tensor *tensors;
    size_t count, capacity;
    json_t *metadata; /* NULL: none */
    uint64_t data_start;
};

/* These return false after one error line. */
bool output_add(struct output *output, int32_t layer, const char *suffix, enum st_dtype dtype, int rank,
                const int64_t *shape);

/* A line of the file's __metadata__; a key given again has its new value. */
bool output_metadata(struct output *output, const char *key, const char *value);

/* Fixes the layout, which depends on the tensors added and nothing else, and
 * writes the header.  `path` outlives the output. */
bool output_open(struct output *output, const char *path);

/* `data` holds the whole of one tensor added before. */
bool output_write(struct output *output, int32_t layer, const char *suffix, const void *data);

/* Puts the finished file in its place. */
bool output_commit(struct output *output);

/* Removes whatever is unfinished.  Also accepts a zeroed output. */
void output_close(struct output *output);

/* The same for a signal handler. */
void output_remove_unfinished(void);

#endif
