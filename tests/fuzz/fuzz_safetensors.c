/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of safetensors files over any bytes: whatever it accepts, every byte
 * of every tensor lies within the input, and every view of a layer within its tensor.
 */
#include "tools/layers.h"
#include "tools/message.h"
#include "tools/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In place of tools/message.c: what is refused is refused in silence. */
void message_error(const char *format, ...)
{
    (void)format;
}

void message_warning(const char *format, ...)
{
    (void)format;
}

static void require(int holds)
{
    if (!holds)
        abort();
}

/* Reads, so that a sanitizer sees what lies outside. */
static void touch(const unsigned char *bytes, uint64_t count)
{
    static volatile unsigned char sink;
    unsigned char sum = 0;

    for (uint64_t i = 0; i < count; i++)
        sum = (unsigned char)(sum ^ bytes[i]);
    sink = sum;
    (void)sink;
}

static void check_tensors(const struct st_table *table, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct st_tensor *tensor = &table->tensors[i];
        char shape[64];

        require(tensor->begin <= tensor->end);
        require(tensor->data >= data && tensor->end - tensor->begin <= (uint64_t)(data + size - tensor->data));
        touch(tensor->data, tensor->end - tensor->begin);
        require(st_find(table, tensor->name) == tensor);
        st_shape_text(tensor, shape, sizeof shape);
        require(strlen(shape) < sizeof shape);
    }
}

static void check_view(const ckv_tensor *view)
{
    if (view->data != NULL)
        touch(view->data, layers_bytes(view));
}

static void check_layers(const struct layer_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct layer *layer = &list->layers[i];

        require(i == 0 || list->layers[i - 1].number < layer->number);
        require(layer->kv_heads > 0 && layer->tokens > 0);
        require(layer->scale == 0.0f || (layer->scale >= 0x1p-40f && layer->scale <= 0x1p40f));
        check_view(&layer->query);
        check_view(&layer->key);
        check_view(&layer->value);
        check_view(&layer->weight);
        check_view(&layer->attention);
        check_view(&layer->norm);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct layer_choice every = {NULL, 0};
    static char path[] = "input";
    struct st_file file;
    struct st_error error;
    struct layer_list list;

    memset(&file, 0, sizeof file);
    memset(&error, 0, sizeof error);
    file.mapping.path = path;
    if (!st_parse(data, size, &file.table, &error)) {
        require(error.text[0] != '\0' && file.table.tensors == NULL && file.table.metadata == NULL);
        return 0;
    }
    check_tensors(&file.table, data, size);
    if (layers_find(&file, NULL, &every, &list)) {
        check_layers(&list);
        layers_free(&list);
    }
    if (layers_find_scores(&file, &every, &list)) {
        check_layers(&list);
        layers_free(&list);
    }
    st_free(&file.table);
    return 0;
}
