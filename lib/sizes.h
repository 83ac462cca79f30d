/* SPDX-License-Identifier: Apache-2.0 */
/* Size arithmetic that reports overflow, and the limits of spec 2.3. */
#ifndef CKV_LIB_SIZES_H
#define CKV_LIB_SIZES_H

#include <stddef.h>
#include <stdint.h>

#define CKV_LIMIT_TOKENS ((int64_t)1 << 22)
#define CKV_LIMIT_HEAD_DIM (1 << 15)
#define CKV_LIMIT_VALUE_DIM 512
#define CKV_LIMIT_HIDDEN (1 << 15)
#define CKV_LIMIT_MEAN ((int64_t)1 << 17) /* window * group * pool width */
#define CKV_LIMIT_THREADS 1024
#define CKV_LIMIT_RATIO ((int64_t)1 << 40)

/* Every block of a workspace starts on such a boundary. */
#define CKV_WORKSPACE_ALIGNMENT ((size_t)64)

/* *total += a * b, all non-negative; 0 when it does not fit. */
static inline int ckv_add_product(size_t *total, size_t a, size_t b)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return 0;
    return !__builtin_add_overflow(*total, product, total);
}

/* The same, with the product padded to the workspace's alignment. */
static inline int ckv_add_block(size_t *total, size_t a, size_t b)
{
    size_t block = CKV_WORKSPACE_ALIGNMENT - 1;
    if (!ckv_add_product(&block, a, b))
        return 0;
    return !__builtin_add_overflow(*total, block & ~(CKV_WORKSPACE_ALIGNMENT - 1), total);
}

#endif
