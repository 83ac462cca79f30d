/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of safetensors files: eight bytes of header length, a JSON header, data. */
#ifndef CKV_TOOLS_SAFETENSORS_H
#define CKV_TOOLS_SAFETENSORS_H

#include "mapping.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ST_MAX_RANK 8 /* extents that a table keeps; a tensor may have more */

enum st_dtype {
    ST_BOOL,
    ST_F4,
    ST_F6_E2M3,
    ST_F6_E3M2,
    ST_U8,
    ST_I8,
    ST_F8_E5M2,
    ST_F8_E4M3,
    ST_F8_E8M0,
    ST_I16,
    ST_U16,
    ST_F16,
    ST_BF16,
    ST_I32,
    ST_U32,
    ST_F32,
    ST_C64,
    ST_F64,
    ST_I64,
    ST_U64,
    ST_DTYPES
};

const char *st_dtype_name(enum st_dtype dtype);
unsigned st_dtype_bits(enum st_dtype dtype);

struct st_tensor {
    char *name;
    enum st_dtype dtype;
    int rank;
    int64_t shape[ST_MAX_RANK];
    uint64_t begin, end; /* data_offsets */
    const unsigned char *data;
};

struct st_table {
    struct st_tensor *tensors; /* by name */
    size_t count;
    json_t *metadata; /* an object of strings; NULL: none */
};

struct st_error {
    char text[1024];
};

/*
 * Reads and checks the header of the `length` bytes of a whole file.  The table
 * borrows `bytes` for its tensors' data.  Every rule of the format is checked,
 * so that each tensor's data lie within the file, apart from all others' and at
 * a multiple of their element's size within the data.  False with one line in
 * `error`, and then there is nothing to free.
 */
bool st_parse(const unsigned char *bytes, size_t length, struct st_table *table, struct st_error *error);

/* Also accepts a zeroed table. */
void st_free(struct st_table *table);

/* NULL when there is none. */
const struct st_tensor *st_find(const struct st_table *table, const char *name);

/* The value of a key of the file's __metadata__, the table's own; NULL when there is none. */
const char *st_metadata(const struct st_table *table, const char *key);

/* "[2,100,64]" */
void st_shape_text(const struct st_tensor *tensor, char *text, size_t size);

/* A file, mapped and parsed.  False after one error line. */
struct st_file {
    struct mapping mapping;
    struct st_table table;
};

bool st_open(struct st_file *file, const char *path);

/* Also accepts a zeroed file. */
void st_close(struct st_file *file);

#endif
