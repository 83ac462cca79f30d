/* SPDX-License-Identifier: Apache-2.0 */
/* The backends "cuda", "hip" and "opencl": one program, three drivers. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/threads.h"
#include "gpu.h"
#include "lane.h"
#include "lib/status.h"

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

static int load(ckv_gpu *gpu, char *log, size_t size)
{
    const ckv_gpu_driver *driver = gpu->driver;
    int code = ckv_gpu_load_code(driver, gpu->device, &gpu->info, "", &gpu->module, &gpu->origin, log, size);
    if (code != CKV_GPU_OK)
        return 0;
    for (int i = 0; i < CKV_GPU_KERNELS; i++) {
        if (!ckv_gpu_has_route(driver, &gpu->info, ckv_gpu_kernel_list[i].route))
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

static ckv_status open_gpu(ckv_context *context, const ckv_gpu_driver *driver)
{
    char log[400] = "";
    void *saved;
    ckv_gpu *gpu = ckv_context_allocate(context, sizeof *gpu, "context");
    int code, good;
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
    good = code == CKV_GPU_OK && ckv_gpu_choose_route(driver, &gpu->info, &gpu->route, log, sizeof log) &&
           load(gpu, log, sizeof log);
    if (code == CKV_GPU_OK)
        driver->leave(gpu->device, saved);
    else
        snprintf(log, sizeof log, "making the device current failed: %s", driver->error(code));
    if (!good) {
        close_gpu(context, gpu);
        return ckv_fail(CKV_ERROR_UNAVAILABLE, "%s", log);
    }
    context->backend_state = gpu;
    if (context->threads == 0) /* that quantise a projection */
        context->threads = ckv_cpu_default_threads();
    return CKV_OK;
}

static void close_device(ckv_context *context)
{
    close_gpu(context, (ckv_gpu *)(uintptr_t)context->backend_state);
}

static const char *context_device_name(const ckv_context *context)
{
    return ckv_gpu_of(context)->info.name;
}

static size_t workspace_size(const ckv_plan *plan)
{
    ckv_params params;
    return ckv_gpu_lay_out(plan, &params);
}

/* ------------------------------------------------------------------ the three tables */

#define DEVICES_MAX 32 /* more are not offered */

static int rank_of(const ckv_gpu_device_info *info)
{
    if (info->is_cpu) /* the "cpu" backend serves that better */
        return CKV_RANK_NEVER;
    return info->integrated ? CKV_RANK_INTEGRATED : CKV_RANK_DISCRETE;
}

/* A driver's devices as they were when they were first asked for; never changed after. */
typedef struct devices {
    const char *absence; /* why there are none, "" */
    int32_t count;
    ckv_gpu_device_info info[DEVICES_MAX];
    char reason[DEVICES_MAX][128];
} devices;

static void find_devices(const ckv_gpu_driver *driver, devices *all)
{
    const char *absence = driver->load();
    all->absence = absence == NULL ? "no device" : absence;
    all->count = absence == NULL ? driver->device_count() : 0;
    if (all->count > DEVICES_MAX)
        all->count = DEVICES_MAX;
    for (int32_t i = 0; i < all->count; i++) {
        int code = driver->describe(i, &all->info[i]);
        if (code != CKV_GPU_OK)
            snprintf(all->reason[i], sizeof all->reason[i], "asking its properties failed: %s", driver->error(code));
    }
}

#define BACKEND(target)                                                                                                \
    static devices target##_devices;                                                                                   \
    static pthread_once_t target##_once = PTHREAD_ONCE_INIT;                                                           \
    static void target##_find(void)                                                                                    \
    {                                                                                                                  \
        find_devices(&ckv_gpu_##target, &target##_devices);                                                            \
    }                                                                                                                  \
    static int32_t target##_count(void)                                                                                \
    {                                                                                                                  \
        pthread_once(&target##_once, target##_find);                                                                   \
        return target##_devices.count;                                                                                 \
    }                                                                                                                  \
    static const char *target##_absence(void)                                                                          \
    {                                                                                                                  \
        pthread_once(&target##_once, target##_find);                                                                   \
        return target##_devices.absence;                                                                               \
    }                                                                                                                  \
    static const char *target##_name(int32_t device)                                                                   \
    {                                                                                                                  \
        return target##_devices.info[device].name;                                                                     \
    }                                                                                                                  \
    static const char *target##_reason(int32_t device)                                                                 \
    {                                                                                                                  \
        const char *gone = ckv_gpu_##target.load(); /* in a forked process */                                          \
        return gone != NULL ? gone : target##_devices.reason[device];                                                  \
    }                                                                                                                  \
    static int target##_rank(int32_t device)                                                                           \
    {                                                                                                                  \
        return rank_of(&target##_devices.info[device]);                                                                \
    }                                                                                                                  \
    static ckv_status target##_open(ckv_context *context)                                                              \
    {                                                                                                                  \
        return open_gpu(context, &ckv_gpu_##target);                                                                   \
    }                                                                                                                  \
    const ckv_backend ckv_backend_##target = {                                                                         \
        .name = #target,                                                                                               \
        .device_count = target##_count,                                                                                \
        .absence = target##_absence,                                                                                   \
        .device_name = target##_name,                                                                                  \
        .device_reason = target##_reason,                                                                              \
        .device_rank = target##_rank,                                                                                  \
        .context_device_name = context_device_name,                                                                    \
        .open_device = target##_open,                                                                                  \
        .close_device = close_device,                                                                                  \
        .workspace_size = workspace_size,                                                                              \
        .device = &ckv_gpu_stages,                                                                                     \
    };

BACKEND(cuda)
BACKEND(hip)
BACKEND(opencl)
