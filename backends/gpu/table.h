/* SPDX-License-Identifier: Apache-2.0 */
/* A backend's table over one driver; backend_NAME.c makes each. */
#ifndef CKV_BACKENDS_GPU_TABLE_H
#define CKV_BACKENDS_GPU_TABLE_H

#include <pthread.h>

#include "gpu.h"
#include "tunables.h"

#define CKV_GPU_DEVICES_MAX 32 /* more are not offered */

/* A driver's devices as they were when they were first asked for; never changed after. */
typedef struct ckv_gpu_devices {
    const char *absence; /* why there are none, "" */
    int32_t count;
    ckv_gpu_device_info info[CKV_GPU_DEVICES_MAX];
    char reason[CKV_GPU_DEVICES_MAX][128];
} ckv_gpu_devices;

void ckv_gpu_find(const ckv_gpu_driver *driver, ckv_gpu_devices *all);
int ckv_gpu_rank(const ckv_gpu_device_info *info);

ckv_status ckv_gpu_open(ckv_context *context, const ckv_gpu_driver *driver);
void ckv_gpu_close(ckv_context *context);
const char *ckv_gpu_context_name(const ckv_context *context);
const char *ckv_gpu_context_variant(const ckv_context *context);
size_t ckv_gpu_workspace(const ckv_plan *plan);

#define CKV_GPU_BACKEND(target)                                                                                        \
    static ckv_gpu_devices target##_devices;                                                                           \
    static pthread_once_t target##_once = PTHREAD_ONCE_INIT;                                                           \
    static void target##_find(void)                                                                                    \
    {                                                                                                                  \
        ckv_gpu_find(&ckv_gpu_##target, &target##_devices);                                                            \
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
        return ckv_gpu_rank(&target##_devices.info[device]);                                                           \
    }                                                                                                                  \
    static ckv_status target##_open(ckv_context *context)                                                              \
    {                                                                                                                  \
        return ckv_gpu_open(context, &ckv_gpu_##target);                                                               \
    }                                                                                                                  \
    const ckv_backend ckv_backend_##target = {                                                                         \
        .name = #target,                                                                                               \
        .device_count = target##_count,                                                                                \
        .absence = target##_absence,                                                                                   \
        .device_name = target##_name,                                                                                  \
        .device_reason = target##_reason,                                                                              \
        .device_rank = target##_rank,                                                                                  \
        .context_device_name = ckv_gpu_context_name,                                                                   \
        .context_variant = ckv_gpu_context_variant,                                                                    \
        .open_device = target##_open,                                                                                  \
        .close_device = ckv_gpu_close,                                                                                 \
        .tunables = ckv_gpu_tunables,                                                                                  \
        .tunable_count = CKV_GPU_TUNABLES,                                                                             \
        .tunable_allowed = ckv_gpu_tunable_allowed,                                                                    \
        .tunable_model = ckv_gpu_tunable_model,                                                                        \
        .estimate = ckv_gpu_estimate,                                                                                  \
        .identify = ckv_gpu_identify,                                                                                  \
        .workspace_size = ckv_gpu_workspace,                                                                           \
        .device = &ckv_gpu_stages,                                                                                     \
    };

#endif
