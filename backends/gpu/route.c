/* SPDX-License-Identifier: Apache-2.0 */
/* Which route of the norm a device takes; see route.h. */
#include "route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tunables.h"

static const char *const names[CKV_GPU_ROUTES] = {
    [CKV_GPU_INT] = "int",   [CKV_GPU_DOT4] = "dot4", [CKV_GPU_MMA] = "mma",
    [CKV_GPU_MFMA] = "mfma", [CKV_GPU_WMMA] = "wmma", [CKV_GPU_WMMA12] = "wmma",
};

const char *ckv_gpu_route_name(ckv_gpu_route route)
{
    return names[route];
}

/* 1: `arch`, up to the features after a colon, is in the list; as in dialect/hip.h. */
static int is_of(const char *arch, const char *const *list)
{
    size_t length = strcspn(arch, ":");
    for (; *list != NULL; list++)
        if (strlen(*list) == length && strncmp(arch, *list, length) == 0)
            return 1;
    return 0;
}

int ckv_gpu_has_route(const ckv_gpu_driver *driver, const ckv_gpu_device_info *info, ckv_gpu_route route)
{
    static const char *const cdna[] = {"gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", NULL};
    static const char *const rdna3[] = {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", NULL};
    static const char *const rdna4[] = {"gfx1200", "gfx1201", NULL};
    switch (route) {
    case CKV_GPU_MMA:
        return driver->target == CKV_GPU_CUDA && strncmp(info->arch, "sm_", 3) == 0 &&
               strtol(info->arch + 3, NULL, 10) >= 75;
    case CKV_GPU_MFMA:
        return driver->target == CKV_GPU_HIP && is_of(info->arch, cdna);
    case CKV_GPU_WMMA:
        return driver->target == CKV_GPU_HIP && is_of(info->arch, rdna3);
    case CKV_GPU_WMMA12:
        return driver->target == CKV_GPU_HIP && is_of(info->arch, rdna4);
    case CKV_GPU_ANY:
    case CKV_GPU_INT:
    case CKV_GPU_DOT4:
    case CKV_GPU_ROUTES:
        break;
    }
    return 1;
}

int ckv_gpu_choose_route(const ckv_gpu_driver *driver, const ckv_gpu_device_info *info, ckv_gpu_route *route, char *log,
                         size_t size)
{
    const char *wanted = getenv("CKV_GPU_NORM");
    char usable[64] = "";
    for (int r = CKV_GPU_INT; r < CKV_GPU_ROUTES; r++) {
        if (!ckv_gpu_has_route(driver, info, (ckv_gpu_route)r))
            continue;
        if (wanted != NULL && strcmp(wanted, names[r]) == 0) {
            *route = (ckv_gpu_route)r;
            return 1;
        }
        if (r != CKV_GPU_DOT4 || driver->target != CKV_GPU_OPENCL)
            *route = (ckv_gpu_route)r;
        snprintf(usable + strlen(usable), sizeof usable - strlen(usable), "%s%s", usable[0] == '\0' ? "" : ", ",
                 names[r]);
    }
    if (wanted == NULL || wanted[0] == '\0')
        return 1;
    snprintf(log, size, "CKV_GPU_NORM '%.40s': not on this device, wanted one of: %s", wanted, usable);
    return 0;
}

int32_t ckv_gpu_steps(int32_t value_dim)
{
    int32_t steps = (value_dim + 31) / 32;
    return steps <= 4 ? steps : steps <= 8 ? 8 : steps;
}

ckv_gpu_route ckv_gpu_route_of(ckv_gpu_route route, int32_t value_dim, int32_t value_bits)
{
    const int bytes = value_bits == 15; /* weights of 7 bits and a sign */
    const ckv_gpu_sizes any = {16, 1};
    if (route < CKV_GPU_MMA || (bytes && ckv_gpu_norm_kernel(route, ckv_gpu_steps(value_dim), any) >= 0))
        return route;
    return CKV_GPU_DOT4;
}

#define STEPS_MAX 8

/* Tiles of a wave: one where a route, or so many channels, has no kernel of two. */
static int32_t tiles_of(ckv_gpu_route route, int32_t steps, ckv_gpu_sizes sizes)
{
    return sizes.tiles == 2 && ((route == CKV_GPU_MMA && steps <= 4) || route == CKV_GPU_MFMA) ? 2 : 1;
}

int ckv_gpu_norm_kernel(ckv_gpu_route route, int32_t steps, ckv_gpu_sizes sizes)
{
#define KERNELS(r, x)                                                                                                  \
    [1] = CKV_GPU_ckv_norm_##r##_32##x, [2] = CKV_GPU_ckv_norm_##r##_64##x, [3] = CKV_GPU_ckv_norm_##r##_96##x,        \
    [4] = CKV_GPU_ckv_norm_##r##_128##x
    static const int kernels[2][CKV_GPU_ROUTES][STEPS_MAX + 1] = {
        {
            [CKV_GPU_MMA] = {KERNELS(mma, x1), [8] = CKV_GPU_ckv_norm_mma_256},
            [CKV_GPU_MFMA] = {KERNELS(mfma, x1), [8] = CKV_GPU_ckv_norm_mfma_256x1},
            [CKV_GPU_WMMA] = {KERNELS(wmma, )},
            [CKV_GPU_WMMA12] = {KERNELS(wmma12, ), [8] = CKV_GPU_ckv_norm_wmma12_256},
        },
        {
            [CKV_GPU_MMA] = {KERNELS(mma, )},
            [CKV_GPU_MFMA] = {KERNELS(mfma, ), [8] = CKV_GPU_ckv_norm_mfma_256},
        },
    };
#undef KERNELS
    int kernel;
    if (route == CKV_GPU_INT)
        return ckv_gpu_variant(CKV_GPU_ckv_norm_int_8, CKV_GPU_INT_ROWS, sizes.int_rows);
    if (route == CKV_GPU_DOT4)
        return steps == 1 ? CKV_GPU_ckv_norm_dot4 : CKV_GPU_ckv_norm_dot4_wide;
    if (steps > STEPS_MAX)
        return -1;
    kernel = kernels[tiles_of(route, steps, sizes) - 1][route][steps];
    return kernel == 0 ? -1 : kernel; /* 0 is no kernel of a route */
}

int64_t ckv_gpu_norm_rows(ckv_gpu_route route, int32_t steps, ckv_gpu_sizes sizes)
{
    const int32_t tiles = tiles_of(route, steps, sizes);
    switch (route) {
    case CKV_GPU_MMA:
        return MMA_ROWS(tiles);
    case CKV_GPU_MFMA:
    case CKV_GPU_WMMA:
    case CKV_GPU_WMMA12:
        return TILE_ROWS * tiles;
    case CKV_GPU_DOT4:
        return DOT4_ROWS;
    case CKV_GPU_ANY:
    case CKV_GPU_INT:
    case CKV_GPU_ROUTES:
        break;
    }
    return sizes.int_rows;
}
