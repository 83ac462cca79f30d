/* SPDX-License-Identifier: Apache-2.0 */
/* Quantising W_O once per layer (spec 5.1): small integers after equilibrating
 * channels by powers of two, and one power of two per output. */
#include "projection.h"

#include <stddef.h>

#include "backend.h"
#include "numeric.h"
#include "sizes.h"
#include "status.h"
#include "tensor.h"

#define SHIFT_MAX 16
#define NO_EXPONENT INT32_MIN
#define OUTPUTS 32 /* transposed at a time: their weights stay in the first cache */

/* One query head's slice of W_O, sanitised: [D][dv], so that the passes below read
 * the caller's tensor once. */
typedef struct slice {
    const ckv_projection *projection;
    int64_t head;
    float *weights;
    int32_t *tops; /* [D]: c_j, later F_j */
} slice;

/* Returns 1 if some weight was NaN or infinite. */
static int load(const slice *s, const ckv_tensor *weight)
{
    const ckv_projection *p = s->projection;
    int bad = 0;
    for (int32_t j = 0; j < p->hidden; j++) {
        const char *from = ckv_at(weight, j, s->head * p->value_dim, 0);
        float *to = s->weights + (int64_t)j * p->value_dim;
        for (int32_t k = 0; k < p->value_dim; k++, from += weight->stride[1]) {
            uint32_t u = ckv_load_bits(from, weight->dtype);
            bad |= ckv_is_nonfinite_bits(u);
            to[k] = ckv_float(ckv_sanitize_bits(u));
        }
    }
    return bad;
}

/* c_j, NO_EXPONENT for an output that is zero in every channel. */
static void find_tops(const slice *s)
{
    const ckv_projection *p = s->projection;
    for (int32_t j = 0; j < p->hidden; j++) {
        const float *w = s->weights + (int64_t)j * p->value_dim;
        s->tops[j] = NO_EXPONENT;
        for (int32_t k = 0; k < p->value_dim; k++)
            if (w[k] != 0.0f && ckv_exponent(w[k]) > s->tops[j])
                s->tops[j] = ckv_exponent(w[k]);
    }
}

/* E_k: the greatest of exponent(W_kj) - c_j, which is the exponent of the greatest
 * |W_kj| * 2^-c_j. */
static void find_exponents(const slice *s)
{
    const ckv_projection *p = s->projection;
    int16_t *exponents = p->exponents + s->head * p->value_dim;
    for (int32_t k = 0; k < p->value_dim; k++)
        exponents[k] = CKV_CHANNEL_DROPPED;
    for (int32_t j = 0; j < p->hidden; j++) {
        const float *w = s->weights + (int64_t)j * p->value_dim;
        for (int32_t k = 0; k < p->value_dim; k++)
            if (w[k] != 0.0f && ckv_exponent(w[k]) - s->tops[j] > exponents[k])
                exponents[k] = (int16_t)(ckv_exponent(w[k]) - s->tops[j]);
    }
}

/* W'_kj = W_kj * 2^-E_k in place of W_kj; a dropped channel is +0 already. */
static void equilibrate(const slice *s)
{
    const ckv_projection *p = s->projection;
    const int16_t *exponents = p->exponents + s->head * p->value_dim;
    for (int32_t j = 0; j < p->hidden; j++) {
        float *w = s->weights + (int64_t)j * p->value_dim;
        for (int32_t k = 0; k < p->value_dim; k++)
            w[k] = ckv_scale(w[k], -exponents[k]);
    }
}

/* F_j before the clamp: the least integer with rne(max_k |W'_kj| * 2^-F) < 2^B. */
static int32_t output_exponent(const slice *s, int32_t j)
{
    const ckv_projection *p = s->projection;
    const float *w = s->weights + (int64_t)j * p->value_dim;
    float greatest = 0.0f;
    for (int32_t k = 0; k < p->value_dim; k++) {
        float magnitude = ckv_float(ckv_bits(w[k]) & ~CKV_SIGN_BIT);
        if (magnitude > greatest)
            greatest = magnitude;
    }
    if (greatest == 0.0f)
        return NO_EXPONENT;
    /* greatest is in [2^(e-1), 2^e): times 2^(B-e) it is in [2^(B-1), 2^B). */
    int32_t tight = ckv_exponent(greatest) - p->weight_bits;
    return ckv_rne(greatest, -tight) < (int64_t)1 << p->weight_bits ? tight : tight + 1;
}

/* Two passes: Fmin is known only after all outputs. */
static void find_shifts(const slice *s)
{
    const ckv_projection *p = s->projection;
    int32_t top = NO_EXPONENT, base, *f = s->tops;
    for (int32_t j = 0; j < p->hidden; j++) {
        f[j] = output_exponent(s, j);
        if (f[j] > top)
            top = f[j];
    }
    if (top == NO_EXPONENT)
        top = 0; /* a head of zeros: its weights and shifts are 0, and so are its norms */
    base = top;
    for (int32_t j = 0; j < p->hidden; j++) {
        if (f[j] == NO_EXPONENT || f[j] < top - SHIFT_MAX)
            f[j] = top - SHIFT_MAX;
        if (f[j] < base)
            base = f[j];
    }
    p->bases[s->head] = (int16_t)base;
    for (int32_t j = 0; j < p->hidden; j++)
        p->shifts[s->head * p->hidden + j] = (uint8_t)(f[j] - base);
}

static void quantize(const slice *s)
{
    const ckv_projection *p = s->projection;
    int16_t *rows = p->weights + s->head * p->value_dim * p->hidden;
    for (int32_t first = 0; first < p->hidden; first += OUTPUTS) {
        int32_t last = p->hidden - first < OUTPUTS ? p->hidden : first + OUTPUTS;
        for (int32_t k = 0; k < p->value_dim; k++)
            for (int32_t j = first; j < last; j++)
                rows[(int64_t)k * p->hidden + j] =
                    (int16_t)ckv_rne(s->weights[(int64_t)j * p->value_dim + k], -s->tops[j]);
    }
}

static void quantize_all(ckv_projection *p, const ckv_tensor *weight, float *weights, int32_t *tops)
{
    for (int64_t head = 0; head < p->query_heads; head++) {
        slice s = {p, head, weights, tops};
        if (load(&s, weight))
            p->flags = CKV_NONFINITE_WEIGHT;
        find_tops(&s);
        find_exponents(&s);
        equilibrate(&s);
        find_shifts(&s);
        quantize(&s);
    }
}

/* One block of memory: the handle, then its small arrays.  One for the weights, which
 * a backend may replace.  One for building only: a slice's weights, then its exponents. */
typedef struct layout {
    size_t exponents, shifts, bases, total;
    size_t weights;
    size_t tops, scratch;
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
    l->shifts = at;
    fits &= (size_t)ckv_add_block(&at, heads * outputs, sizeof(uint8_t));
    l->bases = at;
    fits &= (size_t)ckv_add_block(&at, heads, sizeof(int16_t));
    l->total = at;
    l->weights = 0;
    fits &= (size_t)ckv_add_block(&l->weights, cells, sizeof(int16_t));
    at = 0;
    fits &= (size_t)ckv_add_block(&at, channels * outputs, sizeof(float));
    l->tops = at;
    fits &= (size_t)ckv_add_block(&at, outputs, sizeof(int32_t));
    l->scratch = at;
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
        return ckv_fail(CKV_ERROR_LIMIT, "weight: %lld rows (hidden size), wanted at most %d",
                        (long long)weight->shape[0], CKV_LIMIT_HIDDEN);
    return status;
}

static void settle_parameters(ckv_projection *p)
{
    const ckv_problem problem = {.query_heads = p->query_heads, .value_dim = p->value_dim, .hidden = p->hidden};
    p->parameters = p->context->parameters;
    ckv_tuning_settle(p->context, CKV_TUNE_PROJECTION, &problem, &p->parameters);
}

/* Lets the backend lay the weights out for its kernels; then they are kept once. */
static ckv_status pack(ckv_projection *p)
{
    const ckv_context *context = p->context;
    ckv_status status;
    size_t size;
    if (context->backend->device != NULL)
        return context->backend->device->open_projection(p);
    if (context->backend->projection_pack == NULL)
        return CKV_OK;
    size = context->backend->projection_size(context, p);
    if (size == 0)
        return ckv_fail(CKV_ERROR_OVERFLOW,
                        "weight: %d query heads, value_dim %d, hidden %d need more memory than can be "
                        "addressed",
                        (int)p->query_heads, (int)p->value_dim, (int)p->hidden);
    p->packed = ckv_context_allocate(context, size, "projection");
    if (p->packed == NULL)
        return CKV_ERROR_NO_MEMORY;
    status = context->backend->projection_pack(context, p, p->packed);
    if (status != CKV_OK)
        return status;
    ckv_context_release(context, p->weights);
    p->weights = NULL;
    return CKV_OK;
}

ckv_status ckv_projection_create(const ckv_context *context, const ckv_tensor *given, int32_t query_heads,
                                 int32_t value_dim, ckv_projection **out)
{
    ckv_tensor weight;
    ckv_projection *p;
    char *scratch;
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
    p->weights = ckv_context_allocate(context, l.weights, "projection");
    scratch = p->weights == NULL ? NULL : ckv_context_allocate(context, l.scratch, "projection");
    if (scratch == NULL) {
        ckv_projection_destroy(p);
        return CKV_ERROR_NO_MEMORY;
    }
    p->query_heads = query_heads;
    p->value_dim = value_dim;
    p->hidden = (int32_t)weight.shape[0];
    p->weight_bits = p->hidden < CKV_WIDE_BELOW ? 10 : 7;
    p->value_bits = 22 - p->weight_bits;
    p->exponents = (int16_t *)(void *)((char *)p + l.exponents);
    p->shifts = (uint8_t *)((char *)p + l.shifts);
    p->bases = (int16_t *)(void *)((char *)p + l.bases);
    quantize_all(p, &weight, (float *)(void *)scratch, (int32_t *)(void *)(scratch + l.tops));
    ckv_context_release(context, scratch);
    settle_parameters(p);
    status = pack(p);
    if (status != CKV_OK) {
        ckv_projection_destroy(p);
        return status;
    }
    *out = p;
    return CKV_OK;
}

void ckv_projection_destroy(ckv_projection *projection)
{
    if (projection == NULL)
        return;
    if (projection->context->backend->device != NULL)
        projection->context->backend->device->close_projection(projection);
    if (projection->packed != NULL)
        ckv_context_release(projection->context, projection->packed);
    if (projection->weights != NULL)
        ckv_context_release(projection->context, projection->weights);
    ckv_context_release(projection->context, projection);
}

uint32_t ckv_projection_flags(const ckv_projection *projection)
{
    return projection == NULL ? 0 : projection->flags;
}
