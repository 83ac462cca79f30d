/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of safetensors files: eight bytes of header length, a JSON header, data. */
#include "safetensors.h"

#include "message.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define MAX_HEADER 100000000u /* the format's own limit */

/* Names are cut to this in error lines, so that what was wanted still fits. */
#define NAME_FORMAT "%.200s"

static const struct {
    const char *name;
    unsigned bits;
} dtypes[ST_DTYPES] = {
    [ST_BOOL] = {"BOOL", 8},       [ST_F4] = {"F4", 4},    [ST_F6_E2M3] = {"F6_E2M3", 6}, [ST_F6_E3M2] = {"F6_E3M2", 6},
    [ST_U8] = {"U8", 8},           [ST_I8] = {"I8", 8},    [ST_F8_E5M2] = {"F8_E5M2", 8}, [ST_F8_E4M3] = {"F8_E4M3", 8},
    [ST_F8_E8M0] = {"F8_E8M0", 8}, [ST_I16] = {"I16", 16}, [ST_U16] = {"U16", 16},        [ST_F16] = {"F16", 16},
    [ST_BF16] = {"BF16", 16},      [ST_I32] = {"I32", 32}, [ST_U32] = {"U32", 32},        [ST_F32] = {"F32", 32},
    [ST_C64] = {"C64", 64},        [ST_F64] = {"F64", 64}, [ST_I64] = {"I64", 64},        [ST_U64] = {"U64", 64},
};

const char *st_dtype_name(enum st_dtype dtype)
{
    return dtypes[dtype].name;
}

unsigned st_dtype_bits(enum st_dtype dtype)
{
    return dtypes[dtype].bits;
}

/* Always false, so that a check can end in `return fail(...)`. */
__attribute__((format(printf, 2, 3))) static bool fail(struct st_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

void st_shape_text(const struct st_tensor *tensor, char *text, size_t size)
{
    size_t used = 0;

    if (size == 0)
        return;
    text[0] = '\0';
    for (int i = 0; i < tensor->rank && i < ST_MAX_RANK && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%" PRId64, i == 0 ? '[' : ',', tensor->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "%s%s", tensor->rank == 0 ? "[" : "",
                 tensor->rank > ST_MAX_RANK ? ",...]" : "]");
}

/* What stands in place of a wanted value, for an error line; "missing" for NULL. */
struct value_text {
    char text[64];
};

static struct value_text value_text(const json_t *value)
{
    struct value_text result = {"missing"};
    char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

    if (text != NULL)
        snprintf(result.text, sizeof result.text, "%s", text);
    free(text);
    return result;
}

/* ------------------------------------------------------------------ one tensor */

static bool read_dtype(struct st_tensor *tensor, const json_t *entry, struct st_error *error)
{
    const json_t *value = json_object_get(entry, "dtype");

    for (int i = 0; json_is_string(value) && i < ST_DTYPES; i++) {
        if (strcmp(json_string_value(value), dtypes[i].name) == 0) {
            tensor->dtype = (enum st_dtype)i;
            return true;
        }
    }
    return fail(error, NAME_FORMAT ": dtype %s, wanted one of the safetensors format, such as F32, F16 or BF16",
                tensor->name, value_text(value).text);
}

/* `bits` is the size of the whole tensor. */
static bool read_shape(struct st_tensor *tensor, const json_t *entry, uint64_t *bits, struct st_error *error)
{
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    bool good = json_is_array(shape) && rank <= INT32_MAX;

    for (size_t i = 0; good && i < rank; i++)
        good = json_is_integer(json_array_get(shape, i)) && json_integer_value(json_array_get(shape, i)) >= 0;
    if (!good)
        return fail(error, NAME_FORMAT ": shape %s, wanted an array of non-negative integers", tensor->name,
                    value_text(shape).text);
    tensor->rank = (int)rank;
    *bits = st_dtype_bits(tensor->dtype);
    for (size_t i = 0; i < rank; i++) {
        json_int_t extent = json_integer_value(json_array_get(shape, i));

        if (i < ST_MAX_RANK)
            tensor->shape[i] = extent;
        if (__builtin_mul_overflow(*bits, (uint64_t)extent, bits))
            return fail(error, NAME_FORMAT ": shape %s of %s: the size overflows, wanted below 2^64 bits", tensor->name,
                        value_text(shape).text, st_dtype_name(tensor->dtype));
    }
    return true;
}

static bool read_offsets(struct st_tensor *tensor, const json_t *entry, uint64_t data_length, struct st_error *error)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);

    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < 0)
        return fail(error, NAME_FORMAT ": data_offsets %s, wanted an array of two non-negative integers", tensor->name,
                    value_text(offsets).text);
    tensor->begin = (uint64_t)json_integer_value(begin);
    tensor->end = (uint64_t)json_integer_value(end);
    if (tensor->begin > tensor->end)
        return fail(error, NAME_FORMAT ": data_offsets %s, wanted the first not above the second", tensor->name,
                    value_text(offsets).text);
    if (tensor->end > data_length)
        return fail(error,
                    NAME_FORMAT ": data_offsets %s, wanted at most %" PRIu64
                                ", the bytes of data in the file: it is cut short or the header is wrong",
                    tensor->name, value_text(offsets).text, data_length);
    return true;
}

static bool check_size(const struct st_tensor *tensor, uint64_t bits, struct st_error *error)
{
    uint64_t size = tensor->end - tensor->begin;
    unsigned element = st_dtype_bits(tensor->dtype);
    char shape[256];

    st_shape_text(tensor, shape, sizeof shape);
    if (bits % 8 != 0)
        return fail(error, NAME_FORMAT ": shape %s of %s, wanted whole bytes", tensor->name, shape,
                    st_dtype_name(tensor->dtype));
    if (size != bits / 8)
        return fail(error,
                    NAME_FORMAT ": data_offsets [%" PRIu64 ",%" PRIu64 "] hold %" PRIu64 " bytes, wanted %" PRIu64
                                " for shape %s of %s",
                    tensor->name, tensor->begin, tensor->end, size, bits / 8, shape, st_dtype_name(tensor->dtype));
    if (element > 8 && tensor->begin % (element / 8) != 0)
        return fail(error,
                    NAME_FORMAT ": data_offsets [%" PRIu64 ",%" PRIu64 "] are misaligned, wanted multiples of the %u"
                                " bytes of %s",
                    tensor->name, tensor->begin, tensor->end, element / 8, st_dtype_name(tensor->dtype));
    return true;
}

static bool read_tensor(struct st_tensor *tensor, const char *name, const json_t *entry, uint64_t data_length,
                        struct st_error *error)
{
    uint64_t bits = 0;

    tensor->name = strdup(name);
    if (tensor->name == NULL)
        return fail(error, "out of memory");
    if (!json_is_object(entry))
        return fail(error, NAME_FORMAT ": %s, wanted an object with dtype, shape and data_offsets", name,
                    value_text(entry).text);
    return read_dtype(tensor, entry, error) && read_shape(tensor, entry, &bits, error) &&
           read_offsets(tensor, entry, data_length, error) && check_size(tensor, bits, error);
}

/* ------------------------------------------------------------------ all tensors */

static int by_offset(const void *left, const void *right)
{
    const struct st_tensor *a = left, *b = right;

    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_name(const void *left, const void *right)
{
    const struct st_tensor *a = left, *b = right;

    return strcmp(a->name, b->name);
}

/* The format allows neither overlaps nor holes: in order of offsets, each tensor
 * begins where the one before it ends. */
static bool check_cover(struct st_table *table, uint64_t data_length, struct st_error *error)
{
    uint64_t at = 0;

    if (table->count != 0)
        qsort(table->tensors, table->count, sizeof *table->tensors, by_offset);
    for (size_t i = 0; i < table->count; i++) {
        const struct st_tensor *tensor = &table->tensors[i];

        if (tensor->begin < at)
            return fail(error,
                        NAME_FORMAT ": data_offsets [%" PRIu64 ",%" PRIu64 "] overlap those of " NAME_FORMAT
                                    ", wanted %" PRIu64 " or more to start with",
                        tensor->name, tensor->begin, tensor->end, table->tensors[i - 1].name, at);
        if (tensor->begin > at)
            return fail(error,
                        NAME_FORMAT ": data_offsets [%" PRIu64 ",%" PRIu64 "] leave a hole before them, wanted %" PRIu64
                                    " to start with",
                        tensor->name, tensor->begin, tensor->end, at);
        at = tensor->end;
    }
    if (at != data_length)
        return fail(error, "%" PRIu64 " bytes after the last tensor's data, wanted none", data_length - at);
    return true;
}

static bool read_metadata(struct st_table *table, json_t *metadata, struct st_error *error)
{
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return fail(error, "__metadata__: not a JSON object, wanted an object of strings");
    json_object_foreach (metadata, key, value) {
        if (!json_is_string(value))
            return fail(error, "__metadata__: " NAME_FORMAT " is not a string, wanted an object of strings", key);
    }
    table->metadata = json_incref(metadata);
    return true;
}

static bool read_header(const json_t *header, const unsigned char *data, uint64_t data_length, struct st_table *table,
                        struct st_error *error)
{
    const char *name;
    json_t *entry;

    table->tensors = calloc(json_object_size(header) + 1, sizeof *table->tensors);
    if (table->tensors == NULL)
        return fail(error, "out of memory");
    json_object_foreach ((json_t *)(uintptr_t)header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            if (!read_metadata(table, entry, error))
                return false;
            continue;
        }
        if (!read_tensor(&table->tensors[table->count++], name, entry, data_length, error))
            return false;
    }
    if (!check_cover(table, data_length, error))
        return false;
    for (size_t i = 0; i < table->count; i++)
        table->tensors[i].data = data + table->tensors[i].begin;
    if (table->count != 0)
        qsort(table->tensors, table->count, sizeof *table->tensors, by_name);
    return true;
}

/* ------------------------------------------------------------------ the header's text */

/* jansson stops just behind the second of two equal names, but does not always
 * say which it was: read it back from the text. */
static void fail_duplicate(const char *text, int position, struct st_error *error)
{
    int end = position - 1, begin;

    if (end < 1 || text[end] != '"') {
        fail(error, "header: a name is there twice, wanted each once");
        return;
    }
    begin = end - 1;
    while (begin > 0 && (text[begin] != '"' || text[begin - 1] == '\\'))
        begin--;
    fail(error, "%.*s: the name is there twice in the header, wanted once",
         end - begin - 1 > 200 ? 200 : end - begin - 1, text + begin + 1);
}

static bool has_large(const json_t *array)
{
    const json_t *value;
    size_t i;

    json_array_foreach (array, i, value) {
        if (fabs(json_real_value(value)) >= 0x1p63)
            return true;
    }
    return false;
}

/* An integer that jansson cannot hold stops it before there is a tensor to name: a
 * second reading, as floating-point numbers, finds that one, the first of its kind. */
static void fail_large_integer(const char *text, size_t length, const char *problem, struct st_error *error)
{
    static const char *const fields[] = {"shape", "data_offsets"};
    json_t *header = json_loadb(text, length, JSON_DECODE_INT_AS_REAL, NULL);
    const char *name;
    json_t *entry;

    fail(error, "header: %s, wanted from 0 to 2^63 - 1", problem);
    json_object_foreach (header, name, entry) {
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (!has_large(json_object_get(entry, fields[i])))
                continue;
            fail(error, NAME_FORMAT ": %s: %s in the header, wanted from 0 to 2^63 - 1", name, fields[i], problem);
            json_decref(header);
            return;
        }
    }
    json_decref(header);
}

static json_t *parse_header(const char *text, size_t length, struct st_error *error)
{
    json_error_t problem;
    json_t *header;

    if (length == 0 || text[0] != '{') {
        fail(error, "header: does not start with '{', wanted a JSON object: not a safetensors file");
        return NULL;
    }
    header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
    if (header != NULL)
        return header;
    switch (json_error_code(&problem)) {
    case json_error_duplicate_key:
        fail_duplicate(text, problem.position, error);
        break;
    case json_error_numeric_overflow:
        fail_large_integer(text, length, problem.text, error);
        break;
    default:
        fail(error, "header: at byte %d: %s, wanted a JSON object", problem.position, problem.text);
    }
    return NULL;
}

bool st_parse(const unsigned char *bytes, size_t length, struct st_table *table, struct st_error *error)
{
    uint64_t header_length = 0, room;
    json_t *header;
    bool good;

    memset(table, 0, sizeof *table);
    if (length < LENGTH_BYTES)
        return fail(error, "%zu bytes, wanted at least %d: not a safetensors file", length, LENGTH_BYTES);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        header_length = header_length << 8 | bytes[i];
    room = length - LENGTH_BYTES;
    if (header_length > MAX_HEADER)
        return fail(error, "header length %" PRIu64 ", wanted at most %u: not a safetensors file", header_length,
                    MAX_HEADER);
    if (header_length > room)
        return fail(error, "header length %" PRIu64 ", wanted at most %" PRIu64 ", the bytes that follow in the file",
                    header_length, room);
    header = parse_header((const char *)bytes + LENGTH_BYTES, (size_t)header_length, error);
    if (header == NULL)
        return false;
    good = read_header(header, bytes + LENGTH_BYTES + header_length, room - header_length, table, error);
    json_decref(header);
    if (!good)
        st_free(table);
    return good;
}

void st_free(struct st_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->tensors[i].name);
    free(table->tensors);
    json_decref(table->metadata);
    memset(table, 0, sizeof *table);
}

const struct st_tensor *st_find(const struct st_table *table, const char *name)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, table->tensors[middle].name);

        if (order == 0)
            return &table->tensors[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *st_metadata(const struct st_table *table, const char *key)
{
    return json_string_value(json_object_get(table->metadata, key));
}

/* ------------------------------------------------------------------ files */

bool st_open(struct st_file *file, const char *path)
{
    struct st_error error;

    memset(file, 0, sizeof *file);
    if (!mapping_open(&file->mapping, path))
        return false;
    if (st_parse(file->mapping.bytes, file->mapping.length, &file->table, &error))
        return true;
    message_error("%s: %s", path, error.text);
    mapping_close(&file->mapping);
    return false;
}

void st_close(struct st_file *file)
{
    st_free(&file->table);
    mapping_close(&file->mapping);
}
