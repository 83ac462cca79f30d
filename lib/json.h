/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON by libjansson.so.4, which is looked for when it is first needed: the library does
 * not depend on it, and the files that are JSON are not used where it is missing.
 */
#ifndef CKV_LIB_JSON_H
#define CKV_LIB_JSON_H

#include <stddef.h>

/* As jansson has them, in every version of that name. */
typedef struct json_t {
    int type;
    volatile size_t refcount;
} json_t;

typedef struct json_error_t {
    int line, column, position;
    char source[80];
    char text[160];
} json_error_t;

typedef int (*json_dump_callback_t)(const char *text, size_t size, void *data);

enum {
#define CONSTANT(name, value) name = value,
#define FUNCTION(result, name, arguments)
#include "jansson.def"
#undef CONSTANT
#undef FUNCTION
};

typedef struct ckv_json {
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) result(*name) arguments;
#include "jansson.def"
#undef CONSTANT
#undef FUNCTION
} ckv_json;

/* The functions, or NULL. */
const ckv_json *ckv_json_load(void);

/* Why ckv_json_load gives NULL. */
const char *ckv_json_absence(void);

/* Of a value that this thread alone has; NULL is allowed. */
static inline void ckv_json_release(const ckv_json *json, json_t *value)
{
    if (value != NULL && value->refcount != (size_t)-1 && --value->refcount == 0)
        json->json_delete(value);
}

/* For one more holder. */
static inline json_t *ckv_json_keep(json_t *value)
{
    if (value->refcount != (size_t)-1)
        value->refcount++;
    return value;
}

#endif
