/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that a device must pass before it is used, and the same on the host. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/ref/ref.h"
#include "gpu.h"
#include "lib/numeric.h"

#define SCALE 1.000244140625f /* 1 + 2^-12: its square needs 25 bits */
#define STEP 0x1.000002p-3f
#define TAKEN_OFF 1.00048828125f /* 1 + 2^-11, its square rounded */

static uint32_t dot4(uint32_t a, uint32_t b, uint32_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += (uint32_t)((int32_t)(int8_t)(uint8_t)(a >> i) * (int32_t)(int8_t)(uint8_t)(b >> i));
    return c;
}

static uint32_t leading_zeros(uint32_t u)
{
    return u == 0 ? 32u : (uint32_t)__builtin_clz(u);
}

/* What item `id` must write (kernels/probe.h). */
static void expect(uint32_t id, uint32_t word[PROBE_WORDS])
{
    float step = (float)id * STEP, x = SCALE + step, product = x * x, down = -x * (float)id;
    int64_t big = (int64_t)(id * UINT64_C(0x123456789abcdef)) >> 3;
    uint32_t other = (id + 17) % PROBE_GROUP;
    word[0] = ckv_bits(product - TAKEN_OFF);
    word[1] = ckv_bits(fmaf(x, x, -product));
    word[2] = ckv_bits(down < -60.0f ? 0.0f : down > -0x1p-26f ? 1.0f : ckv_ref_exp(down));
    word[3] = ckv_bits(ckv_inverse(((int64_t)1 << 40) + (big < 0 ? 0 : big)));
    word[4] = ckv_bits((float)big);
    word[5] = dot4(id * 0x01fe7f80u, (id + 1) * 0x80ff0103u, id);
    word[6] = other * other;
    word[7] = ckv_f16_to_f32_bits((uint16_t)(id * 1031u)) ^ leading_zeros(id);
}

static int run(const ckv_gpu *gpu, uint32_t *got, const char **doing)
{
    const ckv_gpu_driver *driver = gpu->driver;
    ckv_params p = {.scale = SCALE, .epsilon = STEP, .bound_slack = TAKEN_OFF};
    ckv_gpu_argument arguments[2];
    ckv_gpu_launch launch = {.kernel = gpu->kernels[CKV_GPU_ckv_probe],
                             .groups = {1, 1, 1},
                             .group_size = {PROBE_GROUP, 1, 1},
                             .arguments = arguments,
                             .count = 2};
    ckv_gpu_memory memory;
    size_t size = PROBE_GROUP * PROBE_WORDS * sizeof *got;
    int code;
    *doing = "allocating";
    code = driver->allocate(gpu->device, size, &memory);
    if (code != CKV_GPU_OK)
        return code;
    arguments[0] = (ckv_gpu_argument){memory.base, 0};
    arguments[1] = (ckv_gpu_argument){&p, sizeof p};
    *doing = "launching";
    code = driver->launch(gpu->device, NULL, &launch);
    if (code == CKV_GPU_OK) {
        *doing = "reading back";
        code = driver->download(gpu->device, NULL, got, memory, size);
    }
    if (code == CKV_GPU_OK)
        code = driver->wait(gpu->device, NULL);
    driver->release(gpu->device, memory);
    return code;
}

int ckv_gpu_probe(const ckv_gpu *gpu, char *reason, size_t size)
{
    static const char *const subjects[PROBE_WORDS] = {"contraction",      "fma",           "the exponential",
                                                      "integer division", "i64 to f32",    "byte products",
                                                      "shared memory",    "bit operations"};
    uint32_t got[PROBE_GROUP * PROBE_WORDS], want[PROBE_WORDS];
    const char *doing;
    int code;
    memset(got, 0, sizeof got);
    code = run(gpu, got, &doing);
    if (code != CKV_GPU_OK) {
        snprintf(reason, size, "probe kernel: %s failed: %s", doing, gpu->driver->error(code));
        return 0;
    }
    for (uint32_t id = 0; id < PROBE_GROUP; id++) {
        expect(id, want);
        for (int i = 0; i < PROBE_WORDS; i++)
            if (got[id * PROBE_WORDS + (uint32_t)i] != want[i]) {
                snprintf(reason, size, "probe kernel: wrong in %s (item %u: %08x, wanted %08x)", subjects[i],
                         (unsigned)id, (unsigned)got[id * PROBE_WORDS + (uint32_t)i], (unsigned)want[i]);
                return 0;
            }
    }
    return 1;
}
