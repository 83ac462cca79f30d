/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor views: construction, and every check on a view that a caller hands in. */
#include "tensor.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

size_t ckv_dtype_size(ckv_dtype dtype)
{
    switch (dtype) {
    case CKV_F32:
        return 4;
    case CKV_F16:
    case CKV_BF16:
        return 2;
    case CKV_BYTES:
        return 1;
    }
    return 0;
}

static void init_dense(ckv_tensor *tensor, ckv_dtype dtype, void *data, int32_t rank, const int64_t *shape)
{
    uint64_t stride = ckv_dtype_size(dtype); /* wraps on sizes that a later check refuses */
    if (tensor == NULL)
        return;
    memset(tensor, 0, sizeof *tensor);
    tensor->struct_size = sizeof *tensor;
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->data = data;
    for (int32_t i = rank - 1; i >= 0; i--) {
        tensor->shape[i] = shape[i];
        tensor->stride[i] = (int64_t)stride;
        stride *= (uint64_t)shape[i];
    }
}

void ckv_tensor_init_2d(ckv_tensor *tensor, ckv_dtype dtype, void *data, int64_t rows, int64_t columns)
{
    const int64_t shape[2] = {rows, columns};
    init_dense(tensor, dtype, data, 2, shape);
}

void ckv_tensor_init_3d(ckv_tensor *tensor, ckv_dtype dtype, void *data, int64_t heads, int64_t tokens, int64_t width)
{
    const int64_t shape[3] = {heads, tokens, width};
    init_dense(tensor, dtype, data, 3, shape);
}

/* "[8,100,64]" */
static const char *shape_text(char text[96], const int64_t *shape, int32_t rank, int at_least)
{
    size_t used = 0;
    for (int32_t i = 0; i < rank; i++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%s%lld", i == 0 ? "[" : ",", i == at_least ? ">=" : "",
                                 (long long)shape[i]);
    snprintf(text + used, 96 - used, "]");
    return text;
}

static const char *dtype_name(ckv_dtype dtype)
{
    switch (dtype) {
    case CKV_F32:
        return "F32";
    case CKV_F16:
        return "F16";
    case CKV_BF16:
        return "BF16";
    case CKV_BYTES:
        return "BYTES";
    }
    return "not a dtype";
}

/* "F32, F16 or BF16" */
static const char *dtypes_text(char text[32], int dtypes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int dtype = CKV_F32; dtype <= CKV_BYTES; dtype++) {
        int rest = dtypes >> dtype;
        if ((rest & 1) != 0)
            used += (size_t)snprintf(text + used, 32 - used, "%s%s",
                                     used == 0   ? ""
                                     : rest == 1 ? " or "
                                                 : ", ",
                                     dtype_name((ckv_dtype)dtype));
    }
    return text;
}

static ckv_status check_dtype(const ckv_tensor *view, const ckv_tensor_rule *rule)
{
    char want[32];
    if (ckv_dtype_size(view->dtype) != 0 && ((rule->dtypes >> view->dtype) & 1) != 0)
        return CKV_OK;
    return ckv_fail(CKV_ERROR_DTYPE, "%s: dtype %d (%s), wanted %s", rule->name, (int)view->dtype,
                    dtype_name(view->dtype), dtypes_text(want, rule->dtypes));
}

static ckv_status check_shape(const ckv_tensor *view, const ckv_tensor_rule *rule)
{
    char have[96], want[96];
    int fits = view->rank == rule->rank;
    if (view->rank < 1 || view->rank > CKV_MAX_RANK)
        return ckv_fail(CKV_ERROR_SHAPE, "%s: rank %d, wanted %d", rule->name, (int)view->rank, (int)rule->rank);
    for (int32_t i = 0; fits && i < rule->rank; i++)
        fits = i == rule->at_least ? view->shape[i] >= rule->shape[i] : view->shape[i] == rule->shape[i];
    if (fits)
        return CKV_OK;
    return ckv_fail(CKV_ERROR_SHAPE, "%s: shape %s, wanted %s", rule->name,
                    shape_text(have, view->shape, view->rank, -1),
                    shape_text(want, rule->shape, rule->rank, rule->at_least));
}

/* The offsets of the lowest byte and of the one past the highest; 0 on overflow. */
static int span(const ckv_tensor *view, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = (int64_t)ckv_dtype_size(view->dtype);
    for (int32_t i = 0; i < view->rank; i++) {
        int64_t reach;
        if (view->shape[i] == 0) {
            *low = *high = 0;
            return 1;
        }
        if (__builtin_mul_overflow(view->shape[i] - 1, view->stride[i], &reach))
            return 0;
        if (__builtin_add_overflow(reach < 0 ? *low : *high, reach, reach < 0 ? low : high))
            return 0;
    }
    return *low >= -(INT64_MAX / 4) && *high <= INT64_MAX / 4;
}

int ckv_tensor_range(const ckv_tensor *view, uintptr_t *first, uintptr_t *last)
{
    int64_t low = 0, high = 0;
    uintptr_t at = (uintptr_t)view->data;
    if (!span(view, &low, &high))
        return 0;
    if ((uint64_t)-low > at || (uint64_t)high > UINTPTR_MAX - at)
        return 0;
    *first = at - (uintptr_t)-low;
    *last = at + (uintptr_t)high;
    return 1;
}

/* Taken from the finest stride to the coarsest, each dimension must step over all
 * that the finer ones span. */
int ckv_tensor_elements_apart(const ckv_tensor *view)
{
    int64_t covered = (int64_t)ckv_dtype_size(view->dtype);
    unsigned taken = 0;
    for (int32_t i = 0; i < view->rank; i++)
        if (view->shape[i] == 0)
            return 1;
    for (int32_t step = 0; step < view->rank; step++) {
        int32_t next = 0;
        int64_t best = INT64_MAX;
        for (int32_t i = 0; i < view->rank; i++) {
            int64_t stride = view->stride[i] < 0 ? -view->stride[i] : view->stride[i];
            if (((taken >> i) & 1u) == 0u && stride < best) {
                best = stride;
                next = i;
            }
        }
        taken |= 1u << next;
        if (view->shape[next] <= 1)
            continue;
        if (best < covered)
            return 0;
        covered += best * (view->shape[next] - 1);
    }
    return 1;
}

ckv_status ckv_tensor_read(ckv_tensor *view, const ckv_tensor *given, const ckv_tensor_rule *rule)
{
    uintptr_t first, last;
    ckv_status status;
    memset(view, 0, sizeof *view);
    status = ckv_struct_read(view, sizeof *view, offsetof(ckv_tensor, data) + sizeof view->data, given, rule->name);
    if (status != CKV_OK)
        return status;
    if (view->data == NULL && view->buffer == NULL)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: data NULL, wanted a pointer", rule->name);
    status = check_dtype(view, rule);
    if (status != CKV_OK)
        return status;
    status = check_shape(view, rule);
    if (status != CKV_OK)
        return status;
    for (int32_t i = 0; i < CKV_MAX_RANK; i++)
        if (i >= view->rank || view->shape[i] == 1)
            view->stride[i] = 0; /* never stepped over: whatever stands there is no matter */
    if (!ckv_tensor_range(view, &first, &last))
        return ckv_fail(CKV_ERROR_STRIDE, "%s: strides [%lld,%lld,%lld] reach past the address space", rule->name,
                        (long long)view->stride[0], (long long)view->stride[1], (long long)view->stride[2]);
    if (rule->is_output && !ckv_tensor_elements_apart(view))
        return ckv_fail(CKV_ERROR_STRIDE,
                        "%s: strides [%lld,%lld,%lld] make elements overlap, wanted an output without", rule->name,
                        (long long)view->stride[0], (long long)view->stride[1], (long long)view->stride[2]);
    return CKV_OK;
}

int ckv_tensors_overlap(const ckv_tensor *a, const ckv_tensor *b)
{
    uintptr_t a_first = 0, a_last = 0, b_first = 0, b_last = 0;
    if (!ckv_tensor_range(a, &a_first, &a_last) || !ckv_tensor_range(b, &b_first, &b_last))
        return 1;
    return a->buffer == b->buffer && a_first < a_last && b_first < b_last && a_first < b_last && b_first < a_last;
}
