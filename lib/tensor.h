/* SPDX-License-Identifier: Apache-2.0 */
/* Checked tensor views. */
#ifndef CKV_LIB_TENSOR_H
#define CKV_LIB_TENSOR_H

#include <ckv/ckv.h>

/* What an argument must look like. */
typedef struct ckv_tensor_rule {
    const char *name;
    int32_t rank;
    int64_t shape[CKV_MAX_RANK];
    int at_least;  /* index of an extent that may be greater than wanted, or -1 */
    int dtypes;    /* bit (1 << dtype) for each that is taken */
    int is_output; /* elements must not overlap each other */
} ckv_tensor_rule;

#define CKV_DTYPES_FLOAT ((1 << CKV_F32) | (1 << CKV_F16) | (1 << CKV_BF16))
#define CKV_DTYPES_F32 (1 << CKV_F32)
#define CKV_DTYPES_ANY (CKV_DTYPES_FLOAT | (1 << CKV_BYTES))

/* Copies the caller's view into `view` after checking it against `rule`. */
ckv_status ckv_tensor_read(ckv_tensor *view, const ckv_tensor *given, const ckv_tensor_rule *rule);

/* The addresses of the lowest byte and of the one past the highest, equal for a view
 * without elements; 0 when they do not fit an address. */
int ckv_tensor_range(const ckv_tensor *view, uintptr_t *first, uintptr_t *last);

/* 1 if no two elements share a byte, by a rule that is sufficient and that every
 * layout a cache is kept in fulfils. */
int ckv_tensor_elements_apart(const ckv_tensor *view);

/* 1 if the byte ranges that the two views span share a byte. */
int ckv_tensors_overlap(const ckv_tensor *a, const ckv_tensor *b);

/* Address of element (i, j, k) of a checked view; unused indices are 0. */
static inline void *ckv_at(const ckv_tensor *view, int64_t i, int64_t j, int64_t k)
{
    return (unsigned char *)view->data + (i * view->stride[0] + j * view->stride[1] + k * view->stride[2]);
}

#endif
