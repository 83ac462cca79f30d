/* SPDX-License-Identifier: Apache-2.0 */
/* W_O of a Hugging Face checkpoint: one safetensors file, or an index of several. */
#include "checkpoint.h"

#include "message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_SUFFIX ".json"

/* Text models, text models saved without their head, and the text part of models
 * that take images too, in either order of its name. */
static const char *const prefixes[] = {"model.layers.", "layers.", "language_model.model.layers.",
                                       "model.language_model.layers."};

#define PREFIXES (sizeof prefixes / sizeof prefixes[0])
#define SUFFIX ".self_attn.o_proj.weight"

static void o_proj_name(char *name, size_t size, size_t prefix, int32_t layer)
{
    snprintf(name, size, "%s%" PRId32 SUFFIX, prefixes[prefix], layer);
}

static const struct st_tensor *missing(const struct checkpoint *checkpoint, int32_t layer)
{
    message_error("%s: model.layers.%" PRId32 SUFFIX ": missing, wanted for layers.%" PRId32 " of the input",
                  checkpoint->path, layer, layer);
    return NULL;
}

/* `path` as a file of the checkpoint, opened at the first need; NULL after one
 * error line. */
static struct st_file *open_file(struct checkpoint *checkpoint, const char *path)
{
    struct st_file **grown;
    struct st_file *file;

    for (size_t i = 0; i < checkpoint->file_count; i++) {
        if (strcmp(checkpoint->files[i]->mapping.path, path) == 0)
            return checkpoint->files[i];
    }
    grown = realloc(checkpoint->files, (checkpoint->file_count + 1) * sizeof(struct st_file *));
    if (grown != NULL)
        checkpoint->files = grown;
    file = grown == NULL ? NULL : malloc(sizeof *file);
    if (file == NULL) {
        message_error("%s: out of memory", path);
        return NULL;
    }
    if (!st_open(file, path)) {
        free(file);
        return NULL;
    }
    checkpoint->files[checkpoint->file_count++] = file;
    return file;
}

/* ------------------------------------------------------------------ an index */

static bool open_index(struct checkpoint *checkpoint)
{
    struct mapping mapping;
    json_error_t problem;

    if (!mapping_open(&mapping, checkpoint->path))
        return false;
    checkpoint->index = json_loadb((const char *)mapping.bytes, mapping.length, JSON_REJECT_DUPLICATES, &problem);
    mapping_close(&mapping);
    if (checkpoint->index == NULL) {
        message_error("%s: line %d: %s, wanted the index of a safetensors checkpoint", checkpoint->path, problem.line,
                      problem.text);
        return false;
    }
    if (!json_is_object(json_object_get(checkpoint->index, "weight_map"))) {
        message_error("%s: no weight_map, wanted an object of file names", checkpoint->path);
        return false;
    }
    return true;
}

/* The file beside the index that holds `name`; `entry` is what the index says. */
static struct st_file *open_shard(struct checkpoint *checkpoint, const char *name, const json_t *entry)
{
    const char *text = json_string_value(entry);
    const char *slash = strrchr(checkpoint->path, '/');
    size_t directory = slash == NULL ? 0 : (size_t)(slash - checkpoint->path) + 1;
    struct st_file *file;
    char *path;

    if (text == NULL || text[0] == '\0' || strchr(text, '/') != NULL) {
        message_error("%s: weight_map: %s: '%.200s', wanted the name of a file beside the index", checkpoint->path,
                      name, text == NULL ? "" : text);
        return NULL;
    }
    path = malloc(directory + strlen(text) + 1);
    if (path == NULL) {
        message_error("%s: out of memory", checkpoint->path);
        return NULL;
    }
    memcpy(path, checkpoint->path, directory);
    strcpy(path + directory, text);
    file = open_file(checkpoint, path);
    free(path);
    return file;
}

static const struct st_tensor *find_sharded(struct checkpoint *checkpoint, int32_t layer, const char **path)
{
    const json_t *map = json_object_get(checkpoint->index, "weight_map");
    char name[128];

    for (size_t i = 0; i < PREFIXES; i++) {
        const struct st_tensor *tensor;
        const struct st_file *file;
        const json_t *entry;

        o_proj_name(name, sizeof name, i, layer);
        entry = json_object_get(map, name);
        if (entry == NULL)
            continue;
        file = open_shard(checkpoint, name, entry);
        if (file == NULL)
            return NULL;
        *path = file->mapping.path;
        tensor = st_find(&file->table, name);
        if (tensor == NULL)
            message_error("%s: %s: missing, wanted by %s", file->mapping.path, name, checkpoint->path);
        return tensor;
    }
    return missing(checkpoint, layer);
}

/* ------------------------------------------------------------------ either kind */

bool checkpoint_open(struct checkpoint *checkpoint, const char *path)
{
    size_t length = strlen(path), suffix = strlen(INDEX_SUFFIX);

    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->path = path;
    if (length > suffix && strcmp(path + length - suffix, INDEX_SUFFIX) == 0)
        return open_index(checkpoint);
    return open_file(checkpoint, path) != NULL;
}

const struct st_tensor *checkpoint_o_proj(struct checkpoint *checkpoint, int32_t layer, const char **path)
{
    char name[128];

    if (checkpoint->index != NULL)
        return find_sharded(checkpoint, layer, path);
    *path = checkpoint->files[0]->mapping.path;
    for (size_t i = 0; i < PREFIXES; i++) {
        const struct st_tensor *tensor;

        o_proj_name(name, sizeof name, i, layer);
        tensor = st_find(&checkpoint->files[0]->table, name);
        if (tensor != NULL)
            return tensor;
    }
    return missing(checkpoint, layer);
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->file_count; i++) {
        st_close(checkpoint->files[i]);
        free(checkpoint->files[i]);
    }
    free(checkpoint->files);
    json_decref(checkpoint->index);
    memset(checkpoint, 0, sizeof *checkpoint);
}
