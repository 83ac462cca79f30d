/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the unit tests; see support.h. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *require(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "tests: out of memory\n");
        abort();
    }
    return memory;
}

/* ---------------------------------------------------------------- numbers */

uint32_t test_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float test_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint64_t test_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

int test_light(void)
{
    static int said;
    const char *light = getenv("CKV_TEST_LIGHT");
    if (light == NULL || strcmp(light, "1") != 0)
        return 0;
    if (!said) { /* written once, by whoever asks first: before a test starts threads */
        printf("# CKV_TEST_LIGHT=1: sweeps are reduced\n");
        said = 1;
    }
    return 1;
}

int test_share(int least, int some, int all)
{
    const char *full = getenv("CKV_TEST_FULL");
    if (test_light())
        return least;
    return full != NULL && strcmp(full, "1") == 0 ? all : some;
}

/* ---------------------------------------------------------------- memory */

#define RED_BYTE 0xa5
#define FILL_BYTE 0x5a

void test_buffer_new(test_buffer *buffer, size_t size, size_t offset)
{
    buffer->size = size;
    buffer->whole = size + offset + 64 + 2 * TEST_RED;
    buffer->memory = require(malloc(buffer->whole));
    buffer->copy = NULL;
    memset(buffer->memory, RED_BYTE, buffer->whole);
    buffer->data = buffer->memory + TEST_RED;
    buffer->data += (size_t)(-(uintptr_t)buffer->data & 63u) + offset;
    memset(buffer->data, FILL_BYTE, size);
}

void test_buffer_free(test_buffer *buffer)
{
    free(buffer->memory);
    free(buffer->copy);
    memset(buffer, 0, sizeof *buffer);
}

int test_buffer_intact(const test_buffer *buffer)
{
    const unsigned char *end = buffer->memory + buffer->whole;
    for (const unsigned char *p = buffer->memory; p < end; p++)
        if ((p < buffer->data || p >= buffer->data + buffer->size) && *p != RED_BYTE)
            return 0;
    return 1;
}

void test_buffer_remember(test_buffer *buffer)
{
    if (buffer->memory == NULL)
        return;
    if (buffer->copy == NULL)
        buffer->copy = require(malloc(buffer->whole));
    memcpy(buffer->copy, buffer->memory, buffer->whole);
}

int test_buffer_unchanged(const test_buffer *buffer)
{
    return buffer->memory == NULL || memcmp(buffer->copy, buffer->memory, buffer->whole) == 0;
}

/* ---------------------------------------------------------------- tensors */

void test_tensor_new(test_tensor *tensor, ckv_dtype dtype, int32_t rank, int64_t heads, int64_t tokens, int64_t width,
                     test_layout layout)
{
    const int64_t shape[3] = {heads, tokens, width};
    const struct arranged a = arrange((enum arrangement)layout, (int64_t)ckv_dtype_size(dtype), shape);
    memset(tensor, 0, sizeof *tensor);
    test_buffer_new(&tensor->buffer, (size_t)a.bytes, (size_t)a.offset);
    memset(tensor->buffer.data, 0, (size_t)a.bytes);
    ckv_tensor_init_3d(&tensor->cells, dtype, tensor->buffer.data + a.start, heads, tokens, width);
    for (int i = 0; i < 3; i++)
        tensor->cells.stride[i] = a.stride[i];
    tensor->view = tensor->cells;
    if (rank == 2) {
        ckv_tensor_init_2d(&tensor->view, dtype, tensor->cells.data, tokens, width);
        tensor->view.stride[0] = a.stride[1];
        tensor->view.stride[1] = a.stride[2];
    }
}

void test_tensor_free(test_tensor *tensor)
{
    test_buffer_free(&tensor->buffer);
    memset(tensor, 0, sizeof *tensor);
}

void *test_cell(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel)
{
    const ckv_tensor *c = &tensor->cells;
    return (char *)c->data + head * c->stride[0] + token * c->stride[1] + channel * c->stride[2];
}

void test_put_bits(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel, uint32_t bits)
{
    uint16_t half = (uint16_t)bits;
    if (tensor->cells.dtype == CKV_F32)
        memcpy(test_cell(tensor, head, token, channel), &bits, sizeof bits);
    else
        memcpy(test_cell(tensor, head, token, channel), &half, sizeof half);
}

uint32_t test_get_bits(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel)
{
    uint32_t bits = 0;
    uint16_t half = 0;
    if (tensor->cells.dtype == CKV_F32) {
        memcpy(&bits, test_cell(tensor, head, token, channel), sizeof bits);
        return bits;
    }
    memcpy(&half, test_cell(tensor, head, token, channel), sizeof half);
    return half;
}

void test_put(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel, float x)
{
    uint32_t bits = test_bits(x);
    if (tensor->cells.dtype == CKV_BF16)
        bits >>= 16;
    else if (tensor->cells.dtype == CKV_F16 && x == 0.0f)
        bits >>= 16;
    else if (tensor->cells.dtype == CKV_F16)
        bits = ((bits >> 31) << 15) | (((bits >> 23 & 0xffu) - 112u) << 10) | ((bits >> 13) & 0x3ffu);
    test_put_bits(tensor, head, token, channel, bits);
    if (test_get(tensor, head, token, channel) != (double)x) {
        fprintf(stderr, "tests: %g is not exact in its dtype\n", (double)x);
        abort();
    }
}

/* By the formats' definition rather than by moving bits as the library does. */
double test_get(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel)
{
    uint32_t bits = test_get_bits(tensor, head, token, channel);
    if (tensor->cells.dtype == CKV_F16) {
        int field = (int)(bits >> 10 & 31u);
        double magnitude =
            field == 0 ? ldexp((double)(bits & 0x3ffu), -24) : ldexp((double)(bits & 0x3ffu) + 1024.0, field - 25);
        if (field == 31)
            magnitude = (bits & 0x3ffu) != 0 ? (double)NAN : (double)INFINITY;
        return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
    }
    return (double)test_float(tensor->cells.dtype == CKV_BF16 ? bits << 16 : bits);
}

void test_fill(const test_tensor *tensor, float x)
{
    const int64_t *shape = tensor->cells.shape;
    for (int64_t h = 0; h < shape[0]; h++)
        for (int64_t i = 0; i < shape[1]; i++)
            for (int64_t c = 0; c < shape[2]; c++)
                test_put(tensor, h, i, c, x);
}

void test_randomize(const test_tensor *tensor, test_random *random, int low, int high)
{
    const int64_t *shape = tensor->cells.shape;
    for (int64_t h = 0; h < shape[0]; h++)
        for (int64_t i = 0; i < shape[1]; i++)
            for (int64_t c = 0; c < shape[2]; c++)
                test_put_bits(tensor, h, i, c, test_element(random, tensor->cells.dtype, low, high));
}

void test_copy(const test_tensor *to, const test_tensor *from)
{
    const int64_t *shape = from->cells.shape;
    for (int64_t h = 0; h < shape[0]; h++)
        for (int64_t i = 0; i < shape[1]; i++)
            for (int64_t c = 0; c < shape[2]; c++)
                memcpy(test_cell(to, h, i, c), test_cell(from, h, i, c), ckv_dtype_size(from->cells.dtype));
}

/* ---------------------------------------------------------------- contexts */

ckv_status test_create(const char *backend, const char *device, ckv_context **context)
{
    ckv_context_options options;
    ckv_context_options_init(&options);
    options.backend = backend;
    options.device = device;
    return ckv_context_create(&options, context);
}

const char *test_chosen(const ckv_context *context)
{
    static char text[200];
    text[0] = '\0';
    for (int32_t i = 0; i < ckv_device_count(context); i++) {
        ckv_device_info info = {.struct_size = sizeof info};
        if (ckv_device_query(context, i, &info) == CKV_OK && info.selected)
            snprintf(text, sizeof text, "%s:%d", info.backend, (int)info.device);
    }
    return text;
}

/* ---------------------------------------------------------------- problems */

void test_problem_init(test_problem *p, int32_t kv_heads, int32_t group, int64_t tokens, int64_t queries,
                       int32_t head_dim, int32_t value_dim, int32_t hidden)
{
    const char *backend = getenv("CKV_TEST_BACKEND"), *threads = getenv("CKV_TEST_THREADS");
    memset(p, 0, sizeof *p);
    ckv_context_options_init(&p->options);
    p->options.backend = backend == NULL ? "ref" : backend;
    p->options.threads = threads == NULL ? 0 : atoi(threads);
    ckv_shape_init(&p->shape);
    p->shape.kv_heads = kv_heads;
    p->shape.query_heads = kv_heads * group;
    p->shape.tokens = tokens;
    p->shape.queries = queries;
    p->shape.head_dim = head_dim;
    p->shape.value_dim = value_dim;
    p->shape.hidden = hidden;
    ckv_policy_init(&p->policy);
    for (int t = 0; t < TEST_TENSORS; t++) {
        p->dtype[t] = CKV_F32;
        p->low[t] = -4;
        p->high[t] = 0;
    }
}

void test_problem_init_select(test_problem *p, int32_t kv_heads, int64_t tokens, int64_t budget)
{
    test_problem_init(p, kv_heads, 0, tokens, 0, 0, 0, 0);
    p->policy.budget = budget;
    p->policy.window = 0;
}

static int has_projection(const test_problem *p)
{
    return p->shape.query_heads > 0 && p->shape.value_dim > 0 && p->shape.hidden > 0;
}

void test_problem_build(test_problem *p)
{
    const ckv_shape *s = &p->shape;
    if (s->query_heads > 0 && s->queries > 0 && s->head_dim > 0)
        test_tensor_new(&p->tensor[TEST_QUERY], p->dtype[TEST_QUERY], 3, s->query_heads, s->queries, s->head_dim,
                        p->layout[TEST_QUERY]);
    if (s->head_dim > 0)
        test_tensor_new(&p->tensor[TEST_KEY], p->dtype[TEST_KEY], 3, s->kv_heads, s->tokens, s->head_dim,
                        p->layout[TEST_KEY]);
    if (s->value_dim > 0)
        test_tensor_new(&p->tensor[TEST_VALUE], p->dtype[TEST_VALUE], 3, s->kv_heads, s->tokens, s->value_dim,
                        p->layout[TEST_VALUE]);
    if (has_projection(p))
        test_tensor_new(&p->tensor[TEST_WEIGHT], p->dtype[TEST_WEIGHT], 2, 1, s->hidden,
                        (int64_t)s->query_heads * s->value_dim, p->layout[TEST_WEIGHT]);
}

void test_problem_randomize(test_problem *p, uint64_t seed)
{
    test_random random = test_seed(seed);
    for (int t = 0; t < TEST_TENSORS; t++)
        if (p->tensor[t].cells.data != NULL)
            test_randomize(&p->tensor[t], &random, p->low[t], p->high[t]);
}

/* A GPU that no context holds is closed, and opening it anew takes a good part of a
 * second: with CKV_TEST_HOLD one context holds it until the program ends.  (Tests that
 * count what is left have it unset.) */
static ckv_context *holder;

static void let_go(void)
{
    ckv_context_destroy(holder);
}

static void hold_device(const ckv_context_options *options, const ckv_plan_info *info)
{
    ckv_context_options plain;
    if (holder != NULL || !info->device_memory || getenv("CKV_TEST_HOLD") == NULL)
        return;
    ckv_context_options_init(&plain);
    plain.backend = options->backend;
    if (ckv_context_create(&plain, &holder) == CKV_OK)
        atexit(let_go);
}

ckv_status test_problem_open(test_problem *p)
{
    const ckv_shape *s = &p->shape;
    ckv_status status = ckv_context_create(&p->options, &p->context);
    if (status == CKV_OK && has_projection(p))
        status = ckv_projection_create(p->context, &p->tensor[TEST_WEIGHT].view, s->query_heads, s->value_dim,
                                       &p->projection);
    if (status == CKV_OK)
        status = ckv_plan_create(p->context, s, &p->policy, &p->plan);
    p->info.struct_size = sizeof p->info;
    if (status == CKV_OK)
        status = ckv_plan_query(p->plan, &p->info);
    if (status != CKV_OK)
        return status;
    hold_device(&p->options, &p->info);
    test_tensor_new(&p->attention, CKV_F32, 2, 1, s->kv_heads, s->tokens, TEST_DENSE);
    test_tensor_new(&p->norm, CKV_F32, 2, 1, s->kv_heads, s->tokens, TEST_DENSE);
    test_buffer_new(&p->workspace, p->info.workspace, 4);
    test_buffer_new(&p->positions, (size_t)p->info.positions * sizeof(int32_t), 0);
    test_buffer_new(&p->offsets, ((size_t)s->kv_heads + 1) * sizeof(int32_t), 0);
    test_buffer_new(&p->stages, (size_t)p->info.positions, 0);
    ckv_selection_init(&p->selection, (int32_t *)(void *)p->positions.data, p->info.positions,
                       (int32_t *)(void *)p->offsets.data);
    p->selection.stages = p->stages.data;
    ckv_run_init(&p->run, p->workspace.data, p->workspace.size);
    return CKV_OK;
}

void test_problem_close(test_problem *p)
{
    ckv_plan_destroy(p->plan);
    ckv_projection_destroy(p->projection);
    ckv_context_destroy(p->context);
    for (int t = 0; t < TEST_TENSORS; t++)
        test_tensor_free(&p->tensor[t]);
    test_tensor_free(&p->attention);
    test_tensor_free(&p->norm);
    test_buffer_free(&p->workspace);
    test_buffer_free(&p->positions);
    test_buffer_free(&p->offsets);
    test_buffer_free(&p->stages);
    p->plan = NULL;
    p->projection = NULL;
    p->context = NULL;
}

ckv_status test_score(test_problem *p)
{
    return ckv_score(p->plan, &p->tensor[TEST_QUERY].view, &p->tensor[TEST_KEY].view, &p->attention.view, &p->run);
}

ckv_status test_norm(test_problem *p)
{
    return ckv_norm(p->plan, &p->tensor[TEST_VALUE].view, p->projection, &p->norm.view, &p->run);
}

ckv_status test_select(test_problem *p)
{
    return ckv_select(p->plan, &p->attention.view, &p->norm.view, &p->selection, &p->run);
}

ckv_status test_stages(test_problem *p)
{
    uint32_t flags = 0;
    ckv_status status = test_score(p);
    flags |= p->run.flags;
    if (status == CKV_OK)
        status = test_norm(p);
    flags |= p->run.flags;
    if (status == CKV_OK)
        status = test_select(p);
    p->run.flags |= flags;
    return status;
}

ckv_status test_evict(test_problem *p)
{
    return ckv_evict(p->plan, &p->tensor[TEST_QUERY].view, &p->tensor[TEST_KEY].view, &p->tensor[TEST_VALUE].view,
                     p->projection, &p->selection, &p->run);
}

float test_attention(const test_problem *p, int64_t head, int64_t token)
{
    return test_float(test_get_bits(&p->attention, 0, head, token));
}

float test_norm_at(const test_problem *p, int64_t head, int64_t token)
{
    return test_float(test_get_bits(&p->norm, 0, head, token));
}

const int32_t *test_positions(const test_problem *p)
{
    return p->selection.positions;
}

const int32_t *test_offsets(const test_problem *p)
{
    return p->selection.offsets;
}

const uint8_t *test_stage_codes(const test_problem *p)
{
    return p->selection.stages;
}

/* Element by element and byte by byte, so that the machine's byte order is no matter. */
static uint64_t hash_word(uint64_t hash, uint32_t word)
{
    const unsigned char bytes[4] = {(unsigned char)word, (unsigned char)(word >> 8), (unsigned char)(word >> 16),
                                    (unsigned char)(word >> 24)};
    return test_hash(hash, bytes, sizeof bytes);
}

static uint64_t hash_scores(const test_problem *p, const test_tensor *scores)
{
    uint64_t hash = test_hash_start;
    for (int64_t h = 0; h < p->shape.kv_heads; h++)
        for (int64_t i = 0; i < p->shape.tokens; i++)
            hash = hash_word(hash, test_get_bits(scores, 0, h, i));
    return hash;
}

uint64_t test_hash_attention(const test_problem *p)
{
    return hash_scores(p, &p->attention);
}

uint64_t test_hash_norm(const test_problem *p)
{
    return hash_scores(p, &p->norm);
}

uint64_t test_hash_selection(const test_problem *p)
{
    uint64_t hash = test_hash_start;
    for (int64_t h = 0; h <= p->shape.kv_heads; h++)
        hash = hash_word(hash, (uint32_t)test_offsets(p)[h]);
    for (int64_t i = 0; i < p->info.positions; i++)
        hash = hash_word(hash_word(hash, (uint32_t)test_positions(p)[i]), test_stage_codes(p)[i]);
    return hash;
}

#define BUFFERS (TEST_TENSORS + 6)

static void list_buffers(const test_problem *p, const test_buffer *list[BUFFERS])
{
    int at = 0;
    for (int t = 0; t < TEST_TENSORS; t++)
        list[at++] = &p->tensor[t].buffer;
    list[at++] = &p->attention.buffer;
    list[at++] = &p->norm.buffer;
    list[at++] = &p->workspace;
    list[at++] = &p->positions;
    list[at++] = &p->offsets;
    list[at++] = &p->stages;
}

void test_remember(test_problem *p)
{
    for (int t = 0; t < TEST_TENSORS; t++)
        test_buffer_remember(&p->tensor[t].buffer);
    test_buffer_remember(&p->attention.buffer);
    test_buffer_remember(&p->norm.buffer);
    test_buffer_remember(&p->workspace);
    test_buffer_remember(&p->positions);
    test_buffer_remember(&p->offsets);
    test_buffer_remember(&p->stages);
}

int test_all_unchanged(const test_problem *p)
{
    const test_buffer *list[BUFFERS];
    list_buffers(p, list);
    for (int i = 0; i < BUFFERS; i++)
        if (!test_buffer_unchanged(list[i]))
            return 0;
    return 1;
}

int test_inputs_unchanged(const test_problem *p)
{
    for (int t = 0; t < TEST_TENSORS; t++)
        if (!test_buffer_unchanged(&p->tensor[t].buffer))
            return 0;
    return 1;
}

int test_all_intact(const test_problem *p)
{
    const test_buffer *list[BUFFERS];
    list_buffers(p, list);
    for (int i = 0; i < BUFFERS; i++)
        if (list[i]->memory != NULL && !test_buffer_intact(list[i]))
            return 0;
    return 1;
}

int test_keeps(const test_problem *p, int64_t head, int64_t count, const int32_t *positions)
{
    const int32_t *offsets = test_offsets(p);
    int fits = offsets[head + 1] - offsets[head] == count;
    for (int64_t i = 0; fits && i < count; i++)
        fits = test_positions(p)[offsets[head] + i] == positions[i];
    if (!fits) {
        printf("# head %lld keeps", (long long)head);
        for (int32_t i = offsets[head]; i < offsets[head + 1]; i++)
            printf(" %d", (int)test_positions(p)[i]);
        printf("\n");
    }
    return fits;
}
