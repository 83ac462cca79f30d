/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of problems that share one best configuration.  A stage's bucket has the sizes
 * that its time depends on; the others are 0.  Dtypes are none of them.
 */
#ifndef CKV_LIB_BUCKET_H
#define CKV_LIB_BUCKET_H

#include "tuning.h"

/* Readable names of the sizes, in entries of tuning files. */
typedef enum ckv_bucket_size {
    CKV_BUCKET_TOKENS, /* the next power of two */
    CKV_BUCKET_WINDOW, /* the same */
    CKV_BUCKET_QUERY_HEADS,
    CKV_BUCKET_KV_HEADS,
    CKV_BUCKET_GROUP,
    CKV_BUCKET_HEAD_DIM,
    CKV_BUCKET_VALUE_DIM,
    CKV_BUCKET_HIDDEN,
    CKV_BUCKET_SIZES
} ckv_bucket_size;

typedef struct ckv_bucket {
    int32_t size[CKV_BUCKET_SIZES];
} ckv_bucket;

extern const char *const ckv_bucket_names[CKV_BUCKET_SIZES];

/* Of a stage's tunables of that scope; an unknown stage has every size. */
void ckv_bucket_of(const ckv_problem *problem, const char *stage, ckv_tuning_scope scope, ckv_bucket *bucket);

int ckv_bucket_equal(const ckv_bucket *a, const ckv_bucket *b);

/* 0 for equal ones; powers of two between each size, added up. */
double ckv_bucket_distance(const ckv_bucket *a, const ckv_bucket *b);

#endif
