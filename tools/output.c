/* SPDX-License-Identifier: Apache-2.0 */
/* Writer of safetensors files: all of the file appears under its name, or none. */
#include "output.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINKS 40       /* symbolic links followed, as the kernel does */
#define MAX_TEMPORARY 1000 /* names tried */
#define MAX_STEM 200       /* bytes of the target's name in the temporary's, so that it stays a valid name */
#define HEADER_ALIGNMENT 8u

/* What a signal handler must remove, or NULL. */
static char *volatile unfinished;

void output_remove_unfinished(void)
{
    if (unfinished != NULL)
        unlink(unfinished);
}

/* Sets `unfinished`, and frees what it was, with no handler in between. */
static void set_unfinished(char *path, sigset_t *blocked)
{
    unfinished = path;
    sigprocmask(SIG_SETMASK, blocked, NULL);
}

static void block_signals(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, before);
}

/* ------------------------------------------------------------------ layout */

bool output_add(struct output *output, int32_t layer, const char *suffix, enum st_dtype dtype, int rank,
                const int64_t *shape)
{
    struct output_tensor *tensor;

    if (output->count == output->capacity) {
        size_t capacity = output->capacity == 0 ? 16 : output->capacity * 2;
        struct output_tensor *grown = realloc(output->tensors, capacity * sizeof *grown);

        if (grown == NULL) {
            message_error("out of memory");
            return false;
        }
        output->tensors = grown;
        output->capacity = capacity;
    }
    tensor = &output->tensors[output->count];
    memset(tensor, 0, sizeof *tensor);
    tensor->layer = layer;
    tensor->suffix = suffix;
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->end = st_dtype_bits(dtype) / 8;
    for (int i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
        if (__builtin_mul_overflow(tensor->end, (uint64_t)shape[i], &tensor->end)) {
            message_error("layers.%d.%s: the size overflows, wanted below 2^64 bytes", (int)layer, suffix);
            return false;
        }
    }
    output->count++;
    return true;
}

bool output_metadata(struct output *output, const char *key, const char *value)
{
    if (output->metadata == NULL)
        output->metadata = json_object();
    if (output->metadata != NULL && json_object_set_new(output->metadata, key, json_string(value)) == 0)
        return true;
    message_error("out of memory");
    return false;
}

/* Wide elements first: then every tensor starts at a multiple of its element. */
static int by_place(const void *left, const void *right)
{
    const struct output_tensor *a = left, *b = right;
    unsigned a_bits = st_dtype_bits(a->dtype), b_bits = st_dtype_bits(b->dtype);

    if (a_bits != b_bits)
        return a_bits > b_bits ? -1 : 1;
    if (a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    return strcmp(a->suffix, b->suffix);
}

static bool lay_out(struct output *output)
{
    uint64_t at = 0;

    if (output->count != 0)
        qsort(output->tensors, output->count, sizeof *output->tensors, by_place);
    for (size_t i = 0; i < output->count; i++) {
        struct output_tensor *tensor = &output->tensors[i];
        uint64_t size = tensor->end;

        tensor->begin = at;
        if (__builtin_add_overflow(at, size, &at) || at > INT64_MAX / 2) {
            message_error("%s: the size overflows, wanted below 2^62 bytes", output->path);
            return false;
        }
        tensor->end = at;
    }
    return true;
}

/* The first bytes of the file, up to the data; NULL when out of memory. */
static char *header_text(const struct output *output, size_t *length)
{
    char *text = NULL;
    size_t size = 0;
    uint64_t json_length;
    FILE *stream = open_memstream(&text, &size);
    bool good;

    if (stream == NULL)
        return NULL;
    fwrite("        ", 1, 8, stream);
    fputc('{', stream);
    if (output->metadata != NULL) {
        fputs("\"__metadata__\":", stream);
        json_dumpf(output->metadata, stream, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    }
    for (size_t i = 0; i < output->count; i++) {
        const struct output_tensor *tensor = &output->tensors[i];

        fprintf(stream, "%s\"layers.%" PRId32 ".%s\":{\"dtype\":\"%s\",\"shape\":[",
                i == 0 && output->metadata == NULL ? "" : ",", tensor->layer, tensor->suffix,
                st_dtype_name(tensor->dtype));
        for (int axis = 0; axis < tensor->rank; axis++)
            fprintf(stream, "%s%" PRId64, axis == 0 ? "" : ",", tensor->shape[axis]);
        fprintf(stream, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", tensor->begin, tensor->end);
    }
    fputc('}', stream);
    good = fflush(stream) == 0;
    for (size_t pad = size % HEADER_ALIGNMENT; good && pad != 0 && pad < HEADER_ALIGNMENT; pad++)
        fputc(' ', stream);
    good = good && !ferror(stream);
    if (fclose(stream) != 0 || !good || text == NULL) {
        free(text);
        return NULL;
    }
    json_length = size - 8;
    for (int i = 0; i < 8; i++)
        text[i] = (char)(json_length >> (8 * i) & 0xff);
    *length = size;
    return text;
}

/* ------------------------------------------------------------------ the place */

static size_t directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* `path` with the symbolic links of its last part followed, dangling ones too. */
static char *follow_links(const char *path)
{
    char *at = strdup(path);

    for (int hops = 0; at != NULL && hops < MAX_LINKS; hops++) {
        char link[PATH_MAX];
        ssize_t length = readlink(at, link, sizeof link - 1);
        size_t directory;
        char *next;

        if (length < 0)
            return at;
        link[length] = '\0';
        directory = link[0] == '/' ? 0 : directory_length(at);
        next = malloc(directory + (size_t)length + 1);
        if (next != NULL) {
            memcpy(next, at, directory);
            memcpy(next + directory, link, (size_t)length + 1);
        }
        free(at);
        at = next;
    }
    free(at);
    return NULL;
}

static bool open_device(struct output *output)
{
    output->file = open(output->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (output->file < 0) {
        message_error("%s: cannot be opened for writing: %s", output->path, strerror(errno));
        return false;
    }
    output->is_open = true;
    return true;
}

/* `mode` is that of the file to be replaced, 0 where there is none. */
static bool open_temporary(struct output *output, mode_t mode)
{
    size_t directory, stem, size;
    sigset_t before;

    output->target = follow_links(output->path);
    if (output->target == NULL) {
        message_error("%s: cannot be resolved: too many symbolic links", output->path);
        return false;
    }
    directory = directory_length(output->target);
    stem = strlen(output->target + directory);
    if (stem == 0) {
        message_error("%s: names no file, wanted the path of a file", output->path);
        return false;
    }
    if (stem > MAX_STEM)
        stem = MAX_STEM;
    size = directory + stem + 48;
    output->temporary = malloc(size);
    if (output->temporary == NULL) {
        message_error("%s: out of memory", output->path);
        return false;
    }
    for (int i = 0; i < MAX_TEMPORARY; i++) {
        snprintf(output->temporary, size, "%.*s.%.*s.%ld-%d.tmp", (int)directory, output->target, (int)stem,
                 output->target + directory, (long)getpid(), i);
        block_signals(&before);
        output->file = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        output->is_open = output->file >= 0;
        set_unfinished(output->is_open ? output->temporary : NULL, &before);
        if (output->is_open) {
            if (mode != 0)
                (void)fchmod(output->file, mode); /* who could not read the old file cannot read the new one */
            return true;
        }
        if (errno != EEXIST)
            break;
    }
    message_error("%s: a file in its directory cannot be created: %s", output->path, strerror(errno));
    free(output->temporary);
    output->temporary = NULL;
    return false;
}

static bool open_place(struct output *output)
{
    struct stat status;

    if (stat(output->path, &status) != 0)
        return open_temporary(output, 0); /* none there, or a dangling link */
    if (S_ISREG(status.st_mode))
        return open_temporary(output, status.st_mode & 0777);
    if (S_ISCHR(status.st_mode))
        return open_device(output);
    message_error("%s: is a %s, wanted a file", output->path,
                  S_ISDIR(status.st_mode) ? "directory" : "pipe, socket or block device");
    return false;
}

/* ------------------------------------------------------------------ writing */

static bool write_at(const struct output *output, const void *data, uint64_t size, uint64_t offset)
{
    const char *at = data;

    while (size > 0) {
        size_t piece = size > (1u << 30) ? 1u << 30 : (size_t)size;
        ssize_t written = pwrite(output->file, at, piece, (off_t)offset);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            message_error("%s: cannot be written: %s", output->path, written == 0 ? "no progress" : strerror(errno));
            return false;
        }
        at += written;
        size -= (uint64_t)written;
        offset += (uint64_t)written;
    }
    return true;
}

bool output_open(struct output *output, const char *path)
{
    char *header;
    size_t length = 0;
    bool good;

    output->path = path;
    if (!lay_out(output))
        return false;
    header = header_text(output, &length);
    if (header == NULL) {
        message_error("%s: out of memory", path);
        return false;
    }
    output->data_start = length;
    good = open_place(output) && write_at(output, header, length, 0);
    free(header);
    return good;
}

bool output_write(struct output *output, int32_t layer, const char *suffix, const void *data)
{
    for (size_t i = 0; i < output->count; i++) {
        const struct output_tensor *tensor = &output->tensors[i];

        if (tensor->layer == layer && strcmp(tensor->suffix, suffix) == 0)
            return write_at(output, data, tensor->end - tensor->begin, output->data_start + tensor->begin);
    }
    message_error("%s: layers.%d.%s: not in the layout", output->path, (int)layer, suffix);
    return false;
}

/* No fsync: the rename is atomic for every reader, and what a power cut loses can
 * be made again from the input. */
bool output_commit(struct output *output)
{
    sigset_t before;
    bool good;

    output->is_open = false;
    if (close(output->file) != 0) {
        message_error("%s: cannot be written: %s", output->path, strerror(errno));
        return false;
    }
    if (output->temporary == NULL)
        return true;
    block_signals(&before);
    good = rename(output->temporary, output->target) == 0;
    if (!good) {
        message_error("%s: cannot be put in place: %s", output->path, strerror(errno));
        unlink(output->temporary);
    }
    set_unfinished(NULL, &before);
    free(output->temporary);
    output->temporary = NULL;
    return good;
}

void output_close(struct output *output)
{
    sigset_t before;

    if (output->is_open)
        close(output->file);
    if (output->temporary != NULL) {
        block_signals(&before);
        unlink(output->temporary);
        set_unfinished(NULL, &before);
    }
    free(output->temporary);
    free(output->target);
    free(output->tensors);
    json_decref(output->metadata);
    memset(output, 0, sizeof *output);
}
