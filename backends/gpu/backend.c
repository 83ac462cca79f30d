/* SPDX-License-Identifier: Apache-2.0 */
/* What the backends "cuda", "hip" and "opencl" share: a device opened and closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/threads.h"
#include "gpu.h"
#include "lane.h"
#include "lib/status.h"
#include "table.h"
#include "tunables.h"

/* The kernels' names of ckv.h's numbers. */
_Static_assert(CKV_F32 == 1 && CKV_F16 == 2 && CKV_BF16 == 3, "DTYPE_* of kernels/number.h");
_Static_assert(CKV_NONFINITE_QUERY == 1 && CKV_NONFINITE_KEY == 2 && CKV_NONFINITE_VALUE == 4 &&
                   CKV_NONFINITE_ATTENTION == 16 && CKV_NONFINITE_NORM == 32 && CKV_BAD_SELECTION == 64,
               "BAD_* of kernels/number.h");
_Static_assert(CKV_POOL_MAX == 1 && CKV_POOL_AVERAGE == 2, "pools of kernels/score.h");
_Static_assert(CKV_KEPT_ALL == 0 && CKV_KEPT_FORCED == 1 && CKV_KEPT_STAGE1 == 2 && CKV_KEPT_STAGE2 == 3,
               "KEPT_* of kernels/select.h");
_Static_assert(sizeof(ckv_params) % 8 == 0 && sizeof(ckv_params) <= 1024, "OpenCL's least limit of arguments");

static void close_gpu(const ckv_context *context, ckv_gpu *gpu)
{
    const ckv_gpu_driver *driver = gpu->driver;
    void *saved;
    const int entered = gpu->device != NULL && driver->enter(gpu->device, &saved) == CKV_GPU_OK;
    ckv_gpu_close_lanes(gpu, entered);
    if (entered) {
        for (int i = 0; i < CKV_GPU_KERNELS; i++)
            if (gpu->kernels[i] != NULL)
                driver->release_kernel(gpu->device, gpu->kernels[i]);
        if (gpu->module != NULL)
            driver->unload_module(gpu->device, gpu->module);
        driver->leave(gpu->device, saved);
    }
    if (gpu->device != NULL)
        driver->close(gpu->device);
    ckv_context_release(context, gpu);
}

static const char *origin_name(ckv_gpu_origin origin)
{
    switch (origin) {
    case CKV_GPU_BUILT_AHEAD:
        return "built ahead";
    case CKV_GPU_FROM_CACHE:
        return "from the cache";
    case CKV_GPU_BUILT_NOW:
        break;
    }
    return "built now";
}

static int load(ckv_gpu *gpu, char *log, size_t size)
{
    const ckv_gpu_driver *driver = gpu->driver;
    int code = ckv_gpu_load_code(driver, gpu->device, &gpu->info, "", &gpu->module, &gpu->origin, log, size);
    if (code != CKV_GPU_OK)
        return 0;
    for (int i = 0; i < CKV_GPU_KERNELS; i++) {
        if (!ckv_gpu_has_route(driver, &gpu->info, ckv_gpu_kernel_list[i].route) || !ckv_gpu_kernel_fits(&gpu->info, i))
            continue;
        code = driver->find_kernel(gpu->device, gpu->module, ckv_gpu_kernel_list[i].name, &gpu->kernels[i]);
        if (code != CKV_GPU_OK) {
            gpu->kernels[i] = NULL;
            snprintf(log, size, "kernel %s: %s", ckv_gpu_kernel_list[i].name, driver->error(code));
            return 0;
        }
    }
    return ckv_gpu_probe(gpu, log, size);
}

/* 1: whatever the tunables' values, each stage has a kernel that the device can run. */
static int has_kernels(const ckv_context *context, char *log, size_t size)
{
    const ckv_gpu *gpu = ckv_gpu_of(context);
    static const int32_t needed[] = {CKV_GPU_SCORE_KEYS, CKV_GPU_ATTEND_KEYS, CKV_GPU_INT_ROWS, CKV_GPU_BOUND_ROWS};
    int good = gpu->kernels[CKV_GPU_ckv_select] != NULL;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        good &= ckv_gpu_tunable_model(context, NULL, needed[i]) != 0;
    if (!good)
        snprintf(log, size, "work-groups of %d items and %lld bytes of local memory are too small",
                 (int)gpu->info.max_group, (long long)gpu->info.local_bytes);
    return good;
}

/* CKV_GPU_NORM says the route of every projection, as the environment's. */
static void read_route(ckv_context *context)
{
    const char *wanted = getenv("CKV_GPU_NORM");
    if (wanted == NULL || wanted[0] == '\0')
        return;
    context->given.value[CKV_GPU_NORM_ROUTE] = ckv_gpu_value_for(ckv_gpu_of(context)->route);
    context->given.source[CKV_GPU_NORM_ROUTE] = CKV_SOURCE_ENVIRONMENT;
}

ckv_status ckv_gpu_open(ckv_context *context, const ckv_gpu_driver *driver)
{
    char log[400] = "";
    void *saved;
    ckv_gpu *gpu = ckv_context_allocate(context, sizeof *gpu, "context");
    int code, good, routed = 1;
    if (gpu == NULL)
        return CKV_ERROR_NO_MEMORY;
    gpu->driver = driver;
    gpu->lanes = ckv_gpu_open_lanes();
    if (gpu->lanes == NULL) {
        ckv_context_release(context, gpu);
        return ckv_fail(CKV_ERROR_NO_MEMORY, "context: could not allocate its lanes");
    }
    code = driver->describe(context->device, &gpu->info);
    if (code == CKV_GPU_OK)
        code = driver->open(context->device, context->native_context, &gpu->device);
    if (code != CKV_GPU_OK) {
        gpu->device = NULL;
        close_gpu(context, gpu);
        return ckv_fail(CKV_ERROR_UNAVAILABLE, "opening the device failed: %s", driver->error(code));
    }
    code = driver->enter(gpu->device, &saved);
    if (code == CKV_GPU_OK)
        routed = ckv_gpu_choose_route(driver, &gpu->info, &gpu->route, log, sizeof log);
    good = code == CKV_GPU_OK && routed && load(gpu, log, sizeof log);
    context->backend_state = gpu;
    good = good && has_kernels(context, log, sizeof log);
    if (code == CKV_GPU_OK)
        driver->leave(gpu->device, saved);
    else
        snprintf(log, sizeof log, "making the device current failed: %s", driver->error(code));
    if (!good) {
        context->backend_state = NULL;
        close_gpu(context, gpu);
        return ckv_fail(routed ? CKV_ERROR_UNAVAILABLE : CKV_ERROR_INVALID_ARGUMENT, "%s", log);
    }
    snprintf(gpu->variant, sizeof gpu->variant, "%s, %s", ckv_gpu_route_name(gpu->route), origin_name(gpu->origin));
    read_route(context);
    if (context->threads == 0) /* that quantise a projection */
        context->threads = ckv_cpu_default_threads();
    return CKV_OK;
}

void ckv_gpu_close(ckv_context *context)
{
    close_gpu(context, (ckv_gpu *)(uintptr_t)context->backend_state);
}

const char *ckv_gpu_context_name(const ckv_context *context)
{
    return ckv_gpu_of(context)->info.name;
}

const char *ckv_gpu_context_variant(const ckv_context *context)
{
    return ckv_gpu_of(context)->variant;
}

size_t ckv_gpu_workspace(const ckv_plan *plan)
{
    ckv_params params;
    return ckv_gpu_lay_out(plan, &params);
}

/* ------------------------------------------------------------------ devices */

int ckv_gpu_rank(const ckv_gpu_device_info *info)
{
    if (info->is_cpu) /* the "cpu" backend serves that better */
        return CKV_RANK_NEVER;
    return info->integrated ? CKV_RANK_INTEGRATED : CKV_RANK_DISCRETE;
}

void ckv_gpu_find(const ckv_gpu_driver *driver, ckv_gpu_devices *all)
{
    const char *absence = driver->load();
    all->absence = absence == NULL ? "no device" : absence;
    all->count = absence == NULL ? driver->device_count() : 0;
    if (all->count > CKV_GPU_DEVICES_MAX)
        all->count = CKV_GPU_DEVICES_MAX;
    for (int32_t i = 0; i < all->count; i++) {
        int code = driver->describe(i, &all->info[i]);
        if (code != CKV_GPU_OK)
            snprintf(all->reason[i], sizeof all->reason[i], "asking its properties failed: %s", driver->error(code));
    }
}
