/* SPDX-License-Identifier: Apache-2.0 */
/* Which route of the norm a device takes; see route.h. */
#include "route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

static const char *const names[CKV_GPU_ROUTES] = {
    [CKV_GPU_INT] = "int",
    [CKV_GPU_MMA] = "mma",
};

/* sm_75 and later. */
static int has_mma(const ckv_gpu_driver *driver, const char *arch)
{
    return driver->target == CKV_GPU_CUDA && strncmp(arch, "sm_", 3) == 0 && strtol(arch + 3, NULL, 10) >= 75;
}

int ckv_gpu_has_route(const ckv_gpu_driver *driver, const ckv_gpu_device_info *info, ckv_gpu_route route)
{
    switch (route) {
    case CKV_GPU_MMA:
        return has_mma(driver, info->arch);
    case CKV_GPU_ANY:
    case CKV_GPU_INT:
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
        *route = (ckv_gpu_route)r;
        if (wanted != NULL && strcmp(wanted, names[r]) == 0)
            return 1;
        snprintf(usable + strlen(usable), sizeof usable - strlen(usable), "%s%s", usable[0] == '\0' ? "" : ", ",
                 names[r]);
    }
    if (wanted == NULL || wanted[0] == '\0')
        return 1;
    snprintf(log, size, "CKV_GPU_NORM is '%s'; this device has: %s", wanted, usable);
    return 0;
}

int32_t ckv_gpu_steps(int32_t value_dim)
{
    int32_t steps = (value_dim + 31) / 32;
    return steps <= 4 ? steps : 8;
}

ckv_gpu_route ckv_gpu_route_of(ckv_gpu_route route, int32_t value_dim, int32_t value_bits)
{
    const int fits = value_dim <= 256 && value_bits == 15;
    return fits || route < CKV_GPU_MMA ? route : CKV_GPU_INT;
}

int ckv_gpu_norm_kernel(ckv_gpu_route route, int32_t steps)
{
    static const int mma[] = {[1] = CKV_GPU_ckv_norm_mma_32,
                              [2] = CKV_GPU_ckv_norm_mma_64,
                              [3] = CKV_GPU_ckv_norm_mma_96,
                              [4] = CKV_GPU_ckv_norm_mma_128,
                              [8] = CKV_GPU_ckv_norm_mma_256};
    switch (route) {
    case CKV_GPU_MMA:
        return mma[steps];
    case CKV_GPU_ANY:
    case CKV_GPU_INT:
    case CKV_GPU_ROUTES:
        break;
    }
    return CKV_GPU_ckv_norm_int;
}
