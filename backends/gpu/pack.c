/* SPDX-License-Identifier: Apache-2.0 */
/* The projection on its way to device memory; see pack.h. */
#include "pack.h"
#include "tunables.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/gram.h"

#include "lib/sizes.h"
#include "lib/status.h"

typedef struct packing {
    int (*lay_out)(const ckv_projection *p, ckv_gpu_projection *to, size_t *total);
    void (*fill)(const ckv_projection *p, const ckv_gpu_projection *to, char *image);
} packing;

static const packing packings[CKV_GPU_ROUTES] = {
    [CKV_GPU_INT] = {ckv_gpu_lay_out_columns, ckv_gpu_fill_columns},
    [CKV_GPU_DOT4] = {ckv_gpu_lay_out_words, ckv_gpu_fill_words},
    [CKV_GPU_MMA] = {ckv_gpu_lay_out_panels, ckv_gpu_fill_panels},
    [CKV_GPU_MFMA] = {ckv_gpu_lay_out_panels, ckv_gpu_fill_panels},
    [CKV_GPU_WMMA] = {ckv_gpu_lay_out_panels, ckv_gpu_fill_panels},
    [CKV_GPU_WMMA12] = {ckv_gpu_lay_out_panels, ckv_gpu_fill_panels},
};

static int lay_out(const ckv_projection *p, ckv_gpu_projection *to)
{
    size_t heads = (size_t)p->query_heads, dv = (size_t)p->value_dim, total = 0;
    int fits = 1;
    to->route = ckv_gpu_route_of(ckv_gpu_route_for(ckv_gpu_of(p->context), p->parameters.value[CKV_GPU_NORM_ROUTE]),
                                 p->value_dim, p->value_bits);
    to->exponents = 0;
    fits &= ckv_add_block(&total, heads * dv, sizeof(int16_t));
    to->bases = (int64_t)total;
    fits &= ckv_add_block(&total, heads, sizeof(int16_t));
    fits &= packings[to->route].lay_out(p, to, &total);
    to->squares = (int64_t)total;
    fits &= ckv_add_block(&total, heads * dv, dv * sizeof(float));
    to->sizes = (int64_t)total;
    fits &= ckv_add_block(&total, heads, 2 * sizeof(float));
    to->size = (int64_t)total;
    return fits && total < (size_t)1 << 62;
}

/* The device's bytes, on the host. */
static void fill(const ckv_projection *p, const ckv_gpu_projection *to, char *image)
{
    size_t heads = (size_t)p->query_heads, dv = (size_t)p->value_dim;
    memset(image, 0, (size_t)to->size);
    memcpy(image + to->exponents, p->exponents, heads * dv * sizeof(int16_t));
    memcpy(image + to->bases, p->bases, heads * sizeof(int16_t));
    packings[to->route].fill(p, to, image);
}

/* The Gram matrices and sums that bounds are made of (kernels/bound.h), the sums rounded
 * up, with the half unit that rounding q_k adds and what it doubles to where R grows. */
static ckv_status fill_bounds(const ckv_projection *p, const ckv_gpu_projection *to, char *image)
{
    size_t dim = (size_t)p->value_dim, size = ckv_cpu_gram_size(p);
    float *squares = (float *)(void *)(image + to->squares), *sizes = (float *)(void *)(image + to->sizes);
    int exponent = (p->weight_bits == 7) - p->value_bits - 1;
    void *memory = size == 0 ? NULL : ckv_context_allocate(p->context, size, "projection");
    ckv_status status = memory == NULL ? CKV_ERROR_NO_MEMORY : ckv_cpu_gram_make(p->context, p, memory);
    if (status == CKV_OK) {
        ckv_cpu_gram gram = ckv_cpu_gram_open(p, memory);
        for (size_t head = 0; head < (size_t)p->query_heads; head++) {
            const double *from = gram.squares + head * gram.triangle;
            for (size_t k = 0; k < dim; k++)
                for (size_t l = 0; l <= k; l++) {
                    float square = (float)*from++;
                    squares[(head * dim + k) * dim + l] = square;
                    squares[(head * dim + l) * dim + k] = square;
                }
            sizes[head * 2] = (float)gram.outputs[head] * (1.0f + 0x1p-22f);
            sizes[head * 2 + 1] = (float)ldexp(gram.weights[head], exponent) * (1.0f + 0x1p-22f);
        }
    }
    if (memory != NULL)
        ckv_context_release(p->context, memory);
    return status;
}

static ckv_status upload(const ckv_gpu *gpu, ckv_gpu_projection *to, const char *image)
{
    const ckv_gpu_driver *driver = gpu->driver;
    void *saved;
    const char *doing = "making the device current";
    int code = driver->enter(gpu->device, &saved);
    if (code == CKV_GPU_OK) {
        doing = "allocating the projection";
        code = driver->allocate(gpu->device, (size_t)to->size, &to->memory);
        if (code == CKV_GPU_OK) {
            doing = "copying the projection";
            code = driver->upload(gpu->device, NULL, to->memory, image, (size_t)to->size);
            if (code == CKV_GPU_OK)
                code = driver->wait(gpu->device, NULL);
            if (code != CKV_GPU_OK)
                driver->release(gpu->device, to->memory);
        }
        driver->leave(gpu->device, saved);
    }
    if (code == CKV_GPU_OK)
        return CKV_OK;
    memset(&to->memory, 0, sizeof to->memory);
    return ckv_fail(CKV_ERROR_DEVICE, "%s '%s': %s (%lld bytes) failed: %s", driver->name, gpu->info.name, doing,
                    (long long)to->size, driver->error(code));
}

ckv_status ckv_gpu_open_projection(ckv_projection *p)
{
    const ckv_context *context = p->context;
    ckv_gpu_projection *packed;
    ckv_status status;
    char *image;
    packed = ckv_context_allocate(context, sizeof *packed, "projection");
    if (packed == NULL)
        return CKV_ERROR_NO_MEMORY;
    p->packed = packed;
    if (!lay_out(p, packed))
        return ckv_fail(CKV_ERROR_OVERFLOW,
                        "weight: %d query heads, value_dim %d, hidden %d need more memory than can be addressed",
                        (int)p->query_heads, (int)p->value_dim, (int)p->hidden);
    image = ckv_context_allocate(context, (size_t)packed->size, "projection");
    if (image == NULL)
        return CKV_ERROR_NO_MEMORY;
    fill(p, packed, image);
    status = fill_bounds(p, packed, image);
    if (status == CKV_OK)
        status = upload(ckv_gpu_of(context), packed, image);
    ckv_context_release(context, image);
    if (status != CKV_OK)
        return status;
    ckv_context_release(context, p->weights);
    p->weights = NULL;
    return CKV_OK;
}

void ckv_gpu_close_projection(ckv_projection *p)
{
    const ckv_gpu *gpu = ckv_gpu_of(p->context);
    ckv_gpu_projection *packed = p->packed;
    void *saved;
    if (packed == NULL || packed->memory.base == NULL)
        return;
    if (gpu->driver->enter(gpu->device, &saved) == CKV_GPU_OK) {
        gpu->driver->release(gpu->device, packed->memory);
        gpu->driver->leave(gpu->device, saved);
    }
}
