/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of models' attention layers, from JSON files. */
#include "shapes.h"

#include "lib/sizes.h"
#include "tools/message.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const shapes_shipped[] = {"Llama-3.1-8B", "Mistral-7B",   "Qwen2.5-32B",
                                      "Llama-3.2-1B", "SmolLM2-135M", NULL};

bool shapes_is_shipped(const char *text)
{
    for (size_t i = 0; shapes_shipped[i] != NULL; i++) {
        const char *name = shapes_shipped[i], *at = text;

        while (*name != '\0' && tolower((unsigned char)*name) == tolower((unsigned char)*at)) {
            name++;
            at++;
        }
        if (*name == '\0' && *at == '\0')
            return true;
    }
    return false;
}

bool shapes_is_path(const char *text)
{
    const char *point = strrchr(text, '.');

    return strchr(text, '/') != NULL ||
           (point != NULL && (strcmp(point, ".json") == 0 || strcmp(point, ".safetensors") == 0));
}

/* ------------------------------------------------------------------ an object's fields */

static bool read_size(const char *path, const json_t *object, const char *key, int32_t most, int32_t *size)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_integer(value) && json_integer_value(value) >= 1 && json_integer_value(value) <= most) {
        *size = (int32_t)json_integer_value(value);
        return true;
    }
    if (value == NULL)
        message_error("%s: %s: missing, wanted an integer from 1 to %" PRId32, path, key, most);
    else if (json_is_integer(value))
        message_error("%s: %s: %" JSON_INTEGER_FORMAT ", wanted an integer from 1 to %" PRId32, path, key,
                      json_integer_value(value), most);
    else
        message_error("%s: %s: not an integer, wanted one from 1 to %" PRId32, path, key, most);
    return false;
}

static bool known_keys_only(const char *path, json_t *object)
{
    static const char *const keys[] = {"name", "query_heads", "kv_heads", "head_dim", "value_dim", "hidden"};
    const char *key;
    json_t *value;

    json_object_foreach (object, key, value) {
        bool known = false;

        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            known = known || strcmp(key, keys[i]) == 0;
        if (!known) {
            message_error("%s: '%s': no such key, wanted name, query_heads, kv_heads, head_dim, value_dim and hidden",
                          path, key);
            return false;
        }
    }
    return true;
}

static bool read_object(const char *path, json_t *object, struct shape *shape)
{
    const char *name = json_string_value(json_object_get(object, "name"));

    if (!json_is_object(object)) {
        message_error("%s: not a JSON object, wanted one with name, query_heads, kv_heads, head_dim and hidden", path);
        return false;
    }
    if (!known_keys_only(path, object))
        return false;
    if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof shape->name) {
        message_error("%s: name: missing or not a string, wanted one of 1 to %zu bytes", path, sizeof shape->name - 1);
        return false;
    }
    memcpy(shape->name, name, strlen(name) + 1);
    if (!read_size(path, object, "query_heads", 4096, &shape->query_heads) ||
        !read_size(path, object, "kv_heads", 4096, &shape->kv_heads) ||
        !read_size(path, object, "head_dim", CKV_LIMIT_HEAD_DIM, &shape->head_dim) ||
        !read_size(path, object, "hidden", CKV_LIMIT_HIDDEN, &shape->hidden))
        return false;
    if (shape->query_heads % shape->kv_heads != 0) {
        message_error("%s: query_heads: %" PRId32 ", wanted a multiple of kv_heads, %" PRId32, path, shape->query_heads,
                      shape->kv_heads);
        return false;
    }
    if (json_object_get(object, "value_dim") != NULL)
        return read_size(path, object, "value_dim", CKV_LIMIT_VALUE_DIM, &shape->value_dim);
    shape->value_dim = shape->head_dim;
    if (shape->value_dim > CKV_LIMIT_VALUE_DIM) {
        message_error("%s: head_dim: %" PRId32 " without value_dim, wanted a value_dim of at most %d", path,
                      shape->head_dim, CKV_LIMIT_VALUE_DIM);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ files */

static bool read_path(const char *path, struct shape *shape)
{
    json_error_t error;
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    bool good;

    if (object == NULL) {
        if (error.line > 0)
            message_error("%s: line %d: %s, wanted a shape as JSON", path, error.line, error.text);
        else
            message_error("%s: %s, wanted a shape as JSON", path, error.text);
        return false;
    }
    good = read_object(path, object, shape);
    json_decref(object);
    return good;
}

/* Where the shipped files are: CKV_SHAPES, where `make install` put them, or the
 * source tree of a build that is not installed. */
static bool find_shipped(const char *name, char *path, size_t size)
{
    const char *const folders[] = {getenv("CKV_SHAPES"), CKV_BENCH_SHAPES, CKV_BENCH_SOURCE_SHAPES};
    char file[80];
    size_t length = strlen(name);

    for (size_t i = 0; i <= length; i++)
        file[i] = (char)tolower((unsigned char)name[i]);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (folders[i] == NULL || folders[i][0] == '\0')
            continue;
        if ((size_t)snprintf(path, size, "%s/%s.json", folders[i], file) < size && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool shapes_read(const char *option, const char *text, struct shape *shape)
{
    char path[1024];

    memset(shape, 0, sizeof *shape);
    if (!shapes_is_shipped(text))
        return read_path(text, shape);
    if (find_shipped(text, path, sizeof path))
        return read_path(path, shape);
    message_error("%s: '%s': its file is neither in CKV_SHAPES nor in %s", option, text, CKV_BENCH_SHAPES);
    return false;
}
