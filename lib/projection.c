/* SPDX-License-Identifier: Apache-2.0 */
/* Quantising W_O once per layer (spec 5.1): int8 weights after equilibrating
 * channels by powers of two, and one power of two per output. */
#include "projection.h"

#include <stddef.h>
#include <string.h>

#include "numeric.h"
#include "sizes.h"
#include "status.h"
#include "tensor.h"

#define SHIFT_MAX 16
#define NO_EXPONENT INT32_MIN

static float weight_at(const ckv_tensor *weight, int64_t output, int64_t column)
{
    return ckv_sanitize(ckv_load_f32(ckv_at(weight, output, column, 0), weight->dtype));
}

static uint32_t nonfinite_flags(const ckv_tensor *weight)
{
    for (int64_t j = 0; j < weight->shape[0]; j++)
        for (int64_t c = 0; c < weight->shape[1]; c++)
            if (ckv_is_nonfinite_bits(ckv_load_bits(ckv_at(weight, j, c, 0), weight->dtype)))
                return CKV_NONFINITE_WEIGHT;
    return 0;
}

/* E_k: frexp exponent of the channel's greatest magnitude over all outputs.
 * `greatest` [dv] is scratch, zeroed here. */
static void find_exponents(const ckv_projection *p, const ckv_tensor *weight, int64_t head, int32_t *greatest)
{
    memset(greatest, 0, (size_t)p->value_dim * sizeof *greatest);
    for (int32_t j = 0; j < p->hidden; j++)
        for (int32_t k = 0; k < p->value_dim; k++) {
            float w = weight_at(weight, j, head * p->value_dim + k);
            int32_t magnitude = (int32_t)(ckv_bits(w) & ~CKV_SIGN_BIT);
            if (magnitude > greatest[k])
                greatest[k] = magnitude;
        }
    for (int32_t k = 0; k < p->value_dim; k++)
        p->exponents[head * p->value_dim + k] =
            greatest[k] == 0 ? CKV_CHANNEL_DROPPED : (int16_t)ckv_exponent(ckv_float((uint32_t)greatest[k]));
}

/* W'_kj = W_kj * 2^-E_k, +-0 for a dropped channel. */
static float equilibrated(const ckv_projection *p, const ckv_tensor *weight, int64_t head, int32_t k, int32_t j)
{
    int exponent = p->exponents[head * p->value_dim + k];
    if (exponent == CKV_CHANNEL_DROPPED)
        return 0.0f;
    return ckv_scale(weight_at(weight, j, head * p->value_dim + k), -exponent);
}

/* F_j before the clamp: the least integer with rne(max_k |W'_kj| * 2^-F) <= 127. */
static int32_t output_exponent(const ckv_projection *p, const ckv_tensor *weight, int64_t head, int32_t j)
{
    float greatest = 0.0f;
    for (int32_t k = 0; k < p->value_dim; k++) {
        float w = equilibrated(p, weight, head, k, j);
        float magnitude = ckv_float(ckv_bits(w) & ~CKV_SIGN_BIT);
        if (magnitude > greatest)
            greatest = magnitude;
    }
    if (greatest == 0.0f)
        return NO_EXPONENT;
    /* greatest is in [2^(e-1), 2^e): times 2^(7-e) it is in [64, 128). */
    int32_t tight = ckv_exponent(greatest) - 7;
    return ckv_rne(greatest, -tight) <= 127 ? tight : tight + 1;
}

/* `raw` [D] is scratch.  Two passes: Fmin is known only after all outputs. */
static void find_shifts(const ckv_projection *p, const ckv_tensor *weight, int64_t head, int32_t *raw)
{
    int32_t top = NO_EXPONENT, base;
    for (int32_t j = 0; j < p->hidden; j++) {
        raw[j] = output_exponent(p, weight, head, j);
        if (raw[j] > top)
            top = raw[j];
    }
    if (top == NO_EXPONENT)
        top = 0; /* a head of zeros: its weights, shifts and base are 0 */
    base = top;
    for (int32_t j = 0; j < p->hidden; j++) {
        if (raw[j] == NO_EXPONENT || raw[j] < top - SHIFT_MAX)
            raw[j] = top - SHIFT_MAX;
        if (raw[j] < base)
            base = raw[j];
    }
    p->bases[head] = (int16_t)base;
    for (int32_t j = 0; j < p->hidden; j++)
        p->shifts[head * p->hidden + j] = (uint8_t)(raw[j] - base);
}

static void quantize(const ckv_projection *p, const ckv_tensor *weight, int64_t head)
{
    int8_t *rows = p->weights + head * p->value_dim * p->hidden;
    for (int32_t j = 0; j < p->hidden; j++) {
        int f = p->bases[head] + p->shifts[head * p->hidden + j];
        for (int32_t k = 0; k < p->value_dim; k++)
            rows[(int64_t)k * p->hidden + j] = (int8_t)ckv_rne(equilibrated(p, weight, head, k, j), -f);
    }
}

/* One block of memory: the handle, then its arrays, then scratch for building. */
typedef struct layout {
    size_t exponents, weights, shifts, bases, scratch, total;
} layout;

static int lay_out(layout *l, int32_t query_heads, int32_t value_dim, int32_t hidden)
{
    size_t heads = (size_t)query_heads, channels = (size_t)value_dim, outputs = (size_t)hidden;
    size_t at = 0, columns = 0, cells = 0, fits = 1;
    fits &= (size_t)ckv_add_product(&columns, heads, channels);
    fits &= (size_t)ckv_add_product(&cells, columns, outputs);
    fits &= (size_t)ckv_add_block(&at, 1, sizeof(ckv_projection));
    l->exponents = at;
    fits &= (size_t)ckv_add_block(&at, columns, sizeof(int16_t));
    l->weights = at;
    fits &= (size_t)ckv_add_block(&at, cells, sizeof(int8_t));
    l->shifts = at;
    fits &= (size_t)ckv_add_block(&at, heads * outputs, sizeof(uint8_t));
    l->bases = at;
    fits &= (size_t)ckv_add_block(&at, heads, sizeof(int16_t));
    l->scratch = at;
    fits &= (size_t)ckv_add_block(&at, outputs > channels ? outputs : channels, sizeof(int32_t));
    l->total = at;
    return fits == 1;
}

static ckv_status check(const ckv_context *context, const ckv_tensor *given, int32_t query_heads, int32_t value_dim,
                        ckv_tensor *weight)
{
    ckv_tensor_rule rule = {"weight", 2, {1, 0}, 0, CKV_DTYPES_FLOAT, 0};
    ckv_status status;
    if (context == NULL)
        return ckv_fail_null("context");
    if (query_heads < 1)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "query_heads: %d, wanted at least 1", (int)query_heads);
    if (value_dim < 1)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "value_dim: %d, wanted at least 1", (int)value_dim);
    if (value_dim > CKV_LIMIT_VALUE_DIM)
        return ckv_fail(CKV_ERROR_LIMIT, "value_dim: %d, wanted at most %d", (int)value_dim, CKV_LIMIT_VALUE_DIM);
    rule.shape[1] = (int64_t)query_heads * value_dim;
    status = ckv_tensor_read(weight, given, &rule);
    if (status == CKV_OK && weight->shape[0] > CKV_LIMIT_HIDDEN)
        return ckv_fail(CKV_ERROR_LIMIT, "weight: %lld rows (hidden size), wanted at most %d", (long long)weight->shape[0],
                        CKV_LIMIT_HIDDEN);
    return status;
}

ckv_status ckv_projection_create(const ckv_context *context, const ckv_tensor *given, int32_t query_heads,
                                 int32_t value_dim, ckv_projection **out)
{
    ckv_tensor weight;
    ckv_projection *p;
    ckv_status status;
    layout l;
    if (out == NULL)
        return ckv_fail_null("projection");
    *out = NULL;
    status = check(context, given, query_heads, value_dim, &weight);
    if (status != CKV_OK)
        return status;
    if (!lay_out(&l, query_heads, value_dim, (int32_t)weight.shape[0]))
        return ckv_fail(CKV_ERROR_OVERFLOW, "weight: shape [%lld,%lld] needs more memory than can be addressed",
                        (long long)weight.shape[0], (long long)weight.shape[1]);
    p = ckv_context_allocate(context, l.total, "projection");
    if (p == NULL)
        return CKV_ERROR_NO_MEMORY;
    p->context = context;
    p->query_heads = query_heads;
    p->value_dim = value_dim;
    p->hidden = (int32_t)weight.shape[0];
    p->exponents = (int16_t *)(void *)((char *)p + l.exponents);
    p->weights = (int8_t *)((char *)p + l.weights);
    p->shifts = (uint8_t *)((char *)p + l.shifts);
    p->bases = (int16_t *)(void *)((char *)p + l.bases);
    p->flags = nonfinite_flags(&weight);
    for (int64_t head = 0; head < query_heads; head++) {
        int32_t *scratch = (int32_t *)(void *)((char *)p + l.scratch);
        find_exponents(p, &weight, head, scratch);
        find_shifts(p, &weight, head, scratch);
        quantize(p, &weight, head);
    }
    *out = p;
    return CKV_OK;
}

void ckv_projection_destroy(ckv_projection *projection)
{
    if (projection != NULL)
        ckv_context_release(projection->context, projection);
}

uint32_t ckv_projection_flags(const ckv_projection *projection)
{
    return projection == NULL ? 0 : projection->flags;
}
