/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda of which one thing is broken, for tests/drivers.sh:
 *   INIT    what cuInit returns, 0 if not set
 *   RETAIN  what opening the one device returns
 *   COUNT   devices, 1 if not set
 * FAKE_CUDA_LOADED in the environment names a file that is made when this is loaded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/vendor/cuda.h"

#ifndef INIT
#define INIT CUDA_SUCCESS
#endif
#ifndef RETAIN
#define RETAIN CUDA_SUCCESS
#endif
#ifndef COUNT
#define COUNT 1
#endif

__attribute__((constructor)) static void loaded(void)
{
    const char *path = getenv("FAKE_CUDA_LOADED");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file != NULL)
        fclose(file);
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    return INIT;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    *name = code == 46 ? "CUDA_ERROR_DEVICE_UNAVAILABLE" : NULL;
    return code == 46 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = COUNT;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
    *device = index;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    snprintf(name, (size_t)size, "Fake %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = 1 << 30;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_INTEGRATED ? 0 : 9;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = NULL;
    return RETAIN;
}
