/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the unit tests share: seeded numbers, memory between red zones, tensors in
 * any layout, and whole problems.  Free of cmocka, so that a program without it can
 * use the same problems; what cannot go on (no memory) ends the program.
 */
#ifndef CKV_TESTS_SUPPORT_H
#define CKV_TESTS_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

#include <ckv/ckv.h>

#include "tools/arrange.h"
#include "tools/draw.h"

/* ---------------------------------------------------------------- numbers */

/* Those of the command. */
typedef struct draw test_random;
#define test_seed draw_seed
#define test_next draw_next
#define test_between draw_between
#define test_element draw_element

uint32_t test_bits(float x);
float test_float(uint32_t bits);

/* FNV-1a, 64 bits; starts from test_hash_start. */
#define test_hash_start UINT64_C(0xcbf29ce484222325)
uint64_t test_hash(uint64_t hash, const void *data, size_t size);

/* 1 when CKV_TEST_LIGHT=1 asks for less; the first time it says so. */
int test_light(void);

/* How much of a sweep that takes minutes: `least` when CKV_TEST_LIGHT=1 asks for less, `all`
 * when CKV_TEST_FULL=1 asks for all, else `some`. */
int test_share(int least, int some, int all);

/* ---------------------------------------------------------------- memory */

#define TEST_RED 64

/* `size` bytes at `data`, filled with a pattern, between two red zones. */
typedef struct test_buffer {
    unsigned char *memory, *data, *copy;
    size_t size, whole;
} test_buffer;

/* `data` is `offset` bytes past a multiple of 64. */
void test_buffer_new(test_buffer *buffer, size_t size, size_t offset);
void test_buffer_free(test_buffer *buffer);
int test_buffer_intact(const test_buffer *buffer); /* the red zones are as they were */
void test_buffer_remember(test_buffer *buffer);
int test_buffer_unchanged(const test_buffer *buffer); /* since remembered; red zones too */

/* ---------------------------------------------------------------- tensors */

typedef enum test_layout {
    TEST_DENSE = ARRANGE_DENSE,
    TEST_TOKENS_FIRST = ARRANGE_TOKENS_FIRST,
    TEST_TRANSPOSED = ARRANGE_TRANSPOSED,
    TEST_REVERSED = ARRANGE_REVERSED,
    TEST_ODD = ARRANGE_ODD,
    TEST_LAYOUTS
} test_layout;

typedef struct test_tensor {
    ckv_tensor view;  /* what the library is given */
    ckv_tensor cells; /* the same memory, always [heads, tokens, width] */
    test_buffer buffer;
} test_tensor;

/* Zeroed; rank 2 drops the heads, which must be 1 then. */
void test_tensor_new(test_tensor *tensor, ckv_dtype dtype, int32_t rank, int64_t heads, int64_t tokens, int64_t width,
                     test_layout layout);
void test_tensor_free(test_tensor *tensor);
void *test_cell(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel);
void test_put_bits(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel, uint32_t bits);
uint32_t test_get_bits(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel);
/* `x` must be exact in the dtype, and normal. */
void test_put(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel, float x);
double test_get(const test_tensor *tensor, int64_t head, int64_t token, int64_t channel);
void test_fill(const test_tensor *tensor, float x);
void test_randomize(const test_tensor *tensor, test_random *random, int low, int high);
void test_copy(const test_tensor *to, const test_tensor *from);

/* ---------------------------------------------------------------- contexts */

/* With options that say no more than that. */
ckv_status test_create(const char *backend, const char *device, ckv_context **context);

/* What a context chose, "cuda:0"; until the next call. */
const char *test_chosen(const ckv_context *context);

/* ---------------------------------------------------------------- problems */

enum { TEST_QUERY, TEST_KEY, TEST_VALUE, TEST_WEIGHT, TEST_TENSORS };

/* One layer: sizes, policy, tensors, handles, outputs.  What a size of 0 leaves
 * without use is not made. */
typedef struct test_problem {
    ckv_shape shape;
    ckv_policy policy;
    ckv_dtype dtype[TEST_TENSORS];
    test_layout layout[TEST_TENSORS];
    int low[TEST_TENSORS], high[TEST_TENSORS]; /* exponents of random elements */
    ckv_context_options options;               /* backend CKV_TEST_BACKEND, else "ref"; threads CKV_TEST_THREADS */

    test_tensor tensor[TEST_TENSORS];
    ckv_context *context;
    ckv_projection *projection;
    ckv_plan *plan;
    ckv_plan_info info;

    test_tensor attention, norm; /* F32, rank 2: [1, Hkv, n] in cells */
    test_buffer workspace, positions, offsets, stages;
    ckv_selection selection;
    ckv_run run;
} test_problem;

/* Sets the sizes and the defaults; the caller may then change any of the first block. */
void test_problem_init(test_problem *p, int32_t kv_heads, int32_t group, int64_t tokens, int64_t queries,
                       int32_t head_dim, int32_t value_dim, int32_t hidden);
/* A plan for ckv_select and ckv_compact alone. */
void test_problem_init_select(test_problem *p, int32_t kv_heads, int64_t tokens, int64_t budget);
/* Makes the tensors, zeroed. */
void test_problem_build(test_problem *p);
void test_problem_randomize(test_problem *p, uint64_t seed);
/* Makes handles and outputs from the tensors as they are; CKV_OK unless a handle is refused. */
ckv_status test_problem_open(test_problem *p);
void test_problem_close(test_problem *p);

ckv_status test_score(test_problem *p);
ckv_status test_norm(test_problem *p);
ckv_status test_select(test_problem *p);
ckv_status test_stages(test_problem *p); /* the three in turn; flags of all */
ckv_status test_evict(test_problem *p);

float test_attention(const test_problem *p, int64_t head, int64_t token);
float test_norm_at(const test_problem *p, int64_t head, int64_t token);
const int32_t *test_positions(const test_problem *p);
const int32_t *test_offsets(const test_problem *p);
const uint8_t *test_stage_codes(const test_problem *p);
uint64_t test_hash_attention(const test_problem *p);
uint64_t test_hash_norm(const test_problem *p);
uint64_t test_hash_selection(const test_problem *p);

void test_remember(test_problem *p); /* every byte of the caller's */
int test_all_unchanged(const test_problem *p);
int test_inputs_unchanged(const test_problem *p);
int test_all_intact(const test_problem *p); /* red zones */

/* 1 if head `head` keeps exactly these `count` positions. */
int test_keeps(const test_problem *p, int64_t head, int64_t count, const int32_t *positions);
#define TEST_KEEPS(p, head, ...)                                                                                       \
    test_keeps(p, head, (int64_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),                           \
               (const int32_t[]){__VA_ARGS__})

#endif
