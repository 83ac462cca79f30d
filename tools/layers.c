/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers a file holds, and views of their tensors, checked against each other. */
#include "layers.h"

#include "lib/sizes.h"
#include "message.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor found, and where: all that an error line about it needs. */
struct found {
    const char *path;
    const struct st_tensor *tensor;
    const char *axes; /* what its extents are, as documented */
};

/* ------------------------------------------------------------------ which layers */

static int by_number(const void *left, const void *right)
{
    const int32_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* The N of "layers.N.SUFFIX", SUFFIX being one of a NULL-ended list; -1 for any
 * other name. */
static int32_t layer_of(const char *name, const char *const *suffixes)
{
    static const char prefix[] = "layers.";
    const char *at = name + sizeof prefix - 1;
    int64_t number = 0;

    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || *at < '0' || *at > '9')
        return -1;
    if (at[0] == '0' && at[1] != '.')
        return -1; /* one name for one number */
    for (; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (*at - '0');
        if (number > INT32_MAX)
            return -1;
    }
    if (*at != '.')
        return -1;
    for (; *suffixes != NULL; suffixes++) {
        if (strcmp(at + 1, *suffixes) == 0)
            return (int32_t)number;
    }
    return -1;
}

/* "0, 14, 29", cut short when there are many. */
static void list_text(const int32_t *numbers, size_t count, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (used + 32 > size) {
            snprintf(text + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId32, i == 0 ? "" : ", ", numbers[i]);
    }
}

static bool check_choice(const struct st_file *input, const struct layer_choice *choice, const int32_t *numbers,
                         size_t count)
{
    for (size_t i = 0; i < choice->count; i++) {
        char text[160];

        if (bsearch(&choice->layers[i], numbers, count, sizeof *numbers, by_number) != NULL)
            continue;
        list_text(numbers, count, text, sizeof text);
        message_error("--layer: '%" PRId32 "': wanted a layer that %s has: %s", choice->layers[i], input->mapping.path,
                      text);
        return false;
    }
    return true;
}

/* Zeroed layers with their numbers: those of the file that have any of the
 * suffixes, or of these the chosen ones. */
static bool list_layers(const struct st_file *input, const char *const *suffixes, const struct layer_choice *choice,
                        struct layer_list *list)
{
    int32_t *numbers = malloc((input->table.count + 1) * sizeof *numbers);
    const int32_t *taken = choice->count > 0 ? choice->layers : numbers;
    size_t count = 0, unique = 0;
    bool good = false;

    memset(list, 0, sizeof *list);
    if (numbers == NULL) {
        message_error("%s: out of memory", input->mapping.path);
        return false;
    }
    for (size_t i = 0; i < input->table.count; i++) {
        numbers[count] = layer_of(input->table.tensors[i].name, suffixes);
        count += numbers[count] >= 0;
    }
    qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || numbers[i] != numbers[unique - 1])
            numbers[unique++] = numbers[i];
    }
    if (unique == 0) {
        message_error("%s: layers.0.%s: missing, wanted the tensors of at least one layer", input->mapping.path,
                      suffixes[0]);
    } else if (check_choice(input, choice, numbers, unique)) {
        list->count = choice->count > 0 ? choice->count : unique;
        list->layers = calloc(list->count, sizeof *list->layers);
        good = list->layers != NULL;
        if (!good)
            message_error("%s: out of memory", input->mapping.path);
        for (size_t i = 0; good && i < list->count; i++)
            list->layers[i].number = taken[i];
    }
    free(numbers);
    return good;
}

/* ------------------------------------------------------------------ one tensor */

/* Prints "FILE: NAME: shape [...], wanted ..." and is false. */
__attribute__((format(printf, 2, 3))) static bool misfit(const struct found *found, const char *format, ...)
{
    char shape[256], wanted[512];
    va_list arguments;

    st_shape_text(found->tensor, shape, sizeof shape);
    va_start(arguments, format);
    vsnprintf(wanted, sizeof wanted, format, arguments);
    va_end(arguments);
    message_error("%s: %s: shape %s, wanted %s", found->path, found->tensor->name, shape, wanted);
    return false;
}

static bool find(const struct st_file *input, int32_t layer, const char *suffix, const char *axes,
                 const char *wanted_by, struct found *found)
{
    char name[64];

    snprintf(name, sizeof name, "layers.%" PRId32 ".%s", layer, suffix);
    found->path = input->mapping.path;
    found->axes = axes;
    found->tensor = st_find(&input->table, name);
    if (found->tensor == NULL)
        message_error("%s: %s: missing, wanted %s for %s", found->path, name, axes, wanted_by);
    return found->tensor != NULL;
}

/* A view of the whole tensor, whose rank is that of `axes`, after the checks that
 * concern it alone. */
static bool view(const struct found *found, int rank, bool only_f32, ckv_tensor *tensor)
{
    const struct st_tensor *source = found->tensor;
    /* The library never writes through an input's pointer. */
    void *data = (void *)(uintptr_t)source->data;
    ckv_dtype dtype;

    if (source->rank != rank)
        return misfit(found, "rank %d, %s", rank, found->axes);
    for (int i = 0; i < rank; i++) {
        if (source->shape[i] == 0)
            return misfit(found, "no extent of 0");
        if (source->shape[i] > INT32_MAX)
            return misfit(found, "extents of at most %d", INT32_MAX);
    }
    if (source->dtype == ST_F32) {
        dtype = CKV_F32;
    } else if (source->dtype == ST_F16 && !only_f32) {
        dtype = CKV_F16;
    } else if (source->dtype == ST_BF16 && !only_f32) {
        dtype = CKV_BF16;
    } else {
        message_error("%s: %s: dtype %s, wanted %s", found->path, source->name, st_dtype_name(source->dtype),
                      only_f32 ? "F32" : "F32, F16 or BF16");
        return false;
    }
    if (rank == 2)
        ckv_tensor_init_2d(tensor, dtype, data, source->shape[0], source->shape[1]);
    else
        ckv_tensor_init_3d(tensor, dtype, data, source->shape[0], source->shape[1], source->shape[2]);
    return true;
}

size_t layers_bytes(const ckv_tensor *tensor)
{
    size_t bytes = ckv_dtype_size(tensor->dtype);

    for (int32_t i = 0; i < tensor->rank; i++)
        bytes *= (size_t)tensor->shape[i];
    return bytes;
}

/* ------------------------------------------------------------------ a layer for evict */

static bool find_weight(const struct st_file *input, struct checkpoint *model, int32_t layer, struct found *weight)
{
    if (model == NULL)
        return find(input, layer, "o_proj.weight", "[D,Hq*dv]", "this layer, or --model FILE", weight);
    weight->axes = "[D,Hq*dv]";
    weight->tensor = checkpoint_o_proj(model, layer, &weight->path);
    return weight->tensor != NULL;
}

static bool check_together(const struct found *query, const struct found *key, const struct found *value,
                           const struct found *weight)
{
    const int64_t *q = query->tensor->shape, *k = key->tensor->shape, *v = value->tensor->shape;
    const int64_t *w = weight->tensor->shape;

    if (q[0] % k[0] != 0)
        return misfit(query, "query heads a multiple of the %" PRId64 " KV heads of %s", k[0], key->tensor->name);
    if (k[2] != q[2])
        return misfit(key, "head_dim %" PRId64 " as in %s", q[2], query->tensor->name);
    if (v[0] != k[0])
        return misfit(value, "%" PRId64 " heads as in %s", k[0], key->tensor->name);
    if (v[1] != k[1])
        return misfit(value, "%" PRId64 " tokens as in %s", k[1], key->tensor->name);
    if (w[1] != q[0] * v[2])
        return misfit(weight, "width %" PRId64 ": %" PRId64 " heads of %s times value_dim %" PRId64 " of %s",
                      q[0] * v[2], q[0], query->tensor->name, v[2], value->tensor->name);
    return true;
}

/* The library's own limits, checked here because here the tensor has a name. */
static bool check_limits(const struct found *query, const struct found *key, const struct found *value,
                         const struct found *weight)
{
    if (query->tensor->shape[2] > CKV_LIMIT_HEAD_DIM)
        return misfit(query, "head_dim at most %d", (int)CKV_LIMIT_HEAD_DIM);
    if (key->tensor->shape[1] > CKV_LIMIT_TOKENS)
        return misfit(key, "tokens at most %d", (int)CKV_LIMIT_TOKENS);
    if (value->tensor->shape[2] > CKV_LIMIT_VALUE_DIM)
        return misfit(value, "value_dim at most %d", (int)CKV_LIMIT_VALUE_DIM);
    if (weight->tensor->shape[0] > CKV_LIMIT_HIDDEN)
        return misfit(weight, "hidden size at most %d", (int)CKV_LIMIT_HIDDEN);
    return true;
}

/* "layers.N.scale" of the metadata; 0 when there is none.  The C locale, which this
 * program never leaves, has the point that is wanted. */
static bool read_scale(const struct st_file *input, struct layer *layer)
{
    static const char plain[] = "0123456789.eE+-"; /* neither hexadecimal nor words */
    const char *text;
    char key[64], *end;
    double value;

    snprintf(key, sizeof key, "layers.%" PRId32 ".scale", layer->number);
    text = st_metadata(&input->table, key);
    layer->scale = 0.0f;
    if (text == NULL)
        return true;
    value = strtod(text, &end);
    if (text[strspn(text, plain)] == '\0' && text[0] != '+' && *end == '\0' && value >= 0x1p-40 && value <= 0x1p40) {
        layer->scale = strtof(text, NULL); /* rounded once */
        return true;
    }
    message_error("%s: __metadata__: %s: '%.200s', wanted a decimal number from 2^-40 to 2^40", input->mapping.path,
                  key, text);
    return false;
}

static bool read_layer(const struct st_file *input, struct checkpoint *model, struct layer *layer)
{
    static const char by[] = "this layer";
    struct found query, key, value, weight;

    if (!find(input, layer->number, "query", "[Hq,w,d]", by, &query) ||
        !find(input, layer->number, "key", "[Hkv,n,d]", by, &key) ||
        !find(input, layer->number, "value", "[Hkv,n,dv]", by, &value) ||
        !find_weight(input, model, layer->number, &weight))
        return false;
    if (!view(&query, 3, false, &layer->query) || !view(&key, 3, false, &layer->key) ||
        !view(&value, 3, false, &layer->value) || !view(&weight, 2, false, &layer->weight) ||
        !check_together(&query, &key, &value, &weight) || !check_limits(&query, &key, &value, &weight) ||
        !read_scale(input, layer))
        return false;
    layer->query_heads = (int32_t)layer->query.shape[0];
    layer->queries = layer->query.shape[1];
    layer->head_dim = (int32_t)layer->query.shape[2];
    layer->kv_heads = (int32_t)layer->key.shape[0];
    layer->tokens = layer->key.shape[1];
    layer->value_dim = (int32_t)layer->value.shape[2];
    layer->hidden = (int32_t)layer->weight.shape[0];
    return true;
}

bool layers_find(const struct st_file *input, struct checkpoint *model, const struct layer_choice *choice,
                 struct layer_list *list)
{
    static const char *const all[] = {"query", "key", "value", "o_proj.weight", NULL};
    static const char *const but_weight[] = {"query", "key", "value", NULL};

    if (!list_layers(input, model == NULL ? all : but_weight, choice, list))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!read_layer(input, model, &list->layers[i])) {
            layers_free(list);
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ a layer for select */

static bool read_scores(const struct st_file *input, struct layer *layer)
{
    static const char by[] = "this layer";
    struct found attention, norm;

    if (!find(input, layer->number, "attention", "[Hkv,n]", by, &attention) ||
        !find(input, layer->number, "norm", "[Hkv,n]", by, &norm) || !view(&attention, 2, true, &layer->attention) ||
        !view(&norm, 2, true, &layer->norm))
        return false;
    for (int i = 0; i < 2; i++) {
        if (norm.tensor->shape[i] != attention.tensor->shape[i])
            return misfit(&norm, "%" PRId64 " %s as in %s", attention.tensor->shape[i], i == 0 ? "heads" : "tokens",
                          attention.tensor->name);
    }
    if (attention.tensor->shape[1] > CKV_LIMIT_TOKENS)
        return misfit(&attention, "tokens at most %d", (int)CKV_LIMIT_TOKENS);
    layer->kv_heads = (int32_t)layer->attention.shape[0];
    layer->tokens = layer->attention.shape[1];
    return true;
}

bool layers_find_scores(const struct st_file *input, const struct layer_choice *choice, struct layer_list *list)
{
    static const char *const suffixes[] = {"attention", "norm", NULL};

    if (!list_layers(input, suffixes, choice, list))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!read_scores(input, &list->layers[i])) {
            layers_free(list);
            return false;
        }
    }
    return true;
}

void layers_free(struct layer_list *list)
{
    free(list->layers);
    memset(list, 0, sizeof *list);
}
