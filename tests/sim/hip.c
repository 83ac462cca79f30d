/* SPDX-License-Identifier: Apache-2.0 */
/* libamdhip64.so, as far as the HIP driver's table goes, over pretended devices. */
#include "backends/gpu/vendor/hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) SIM_EXPORT result name arguments;
#define OPTIONAL(result, name, arguments) SIM_EXPORT result name arguments;
#include "backends/gpu/vendor/hip.def"
#undef FUNCTION
#undef OPTIONAL

SIM_EXPORT hipError_t hipGetLastError(void);

static _Thread_local int current_index;
static _Thread_local hipError_t last_error;

/* Ends a call; the thread's last error stays until it is asked for. */
static hipError_t leave(int error)
{
    if (error != SIM_OK)
        last_error = (hipError_t)error;
    return (hipError_t)sim_leave(error);
}

static const sim_device *current(int *error)
{
    const sim_device *device = sim_device_at(SIM_HIP, current_index);
    if (*error == SIM_OK && device == NULL)
        *error = SIM_NO_DEVICE;
    sim_use(device);
    return device;
}

static int check_stream(int error, const sim_device *device, hipStream_t stream)
{
    const sim_stream *s = (const void *)stream;
    if (error != SIM_OK || stream == NULL)
        return error;
    if (sim_is(SIM_STREAM, s) && s->device == device)
        return SIM_OK;
    sim_complain("a stream that is not of this device");
    return SIM_INVALID_HANDLE;
}

/* ---------------------------------------------------------------- devices */

hipError_t hipInit(unsigned flags)
{
    int error = sim_enter("hipInit");
    if (error == SIM_OK && flags != 0)
        error = SIM_INVALID_VALUE;
    if (error == SIM_OK && sim_device_count(SIM_HIP) == 0)
        error = SIM_NO_DEVICE;
    return leave(error);
}

const char *hipGetErrorName(hipError_t code)
{
    static _Thread_local char text[64];
    const char *bare = sim_error_name((int)code);
    snprintf(text, sizeof text, "hipError_%s", bare != NULL ? bare : "UNKNOWN");
    return text;
}

hipError_t hipGetLastError(void)
{
    const hipError_t error = last_error;
    last_error = hipSuccess;
    return error;
}

hipError_t hipDriverGetVersion(int *version)
{
    const int error = sim_enter("hipDriverGetVersion");
    *version = 60300000;
    return leave(error);
}

hipError_t hipGetDeviceCount(int *count)
{
    const int error = sim_enter("hipGetDeviceCount");
    *count = sim_device_count(SIM_HIP);
    return leave(error);
}

/* A hipDevice_t is the index and some more, so that who mixes the two up is found out. */
#define DEVICE_BASE 70

static sim_device *device_at(int *error, int index)
{
    sim_device *found = sim_device_at(SIM_HIP, index);
    if (*error == SIM_OK && found == NULL)
        *error = SIM_INVALID_DEVICE;
    return found;
}

hipError_t hipDeviceGet(hipDevice_t *device, int index)
{
    int error = sim_enter("hipDeviceGet");
    device_at(&error, index);
    *device = index + DEVICE_BASE;
    return leave(error);
}

hipError_t hipDeviceGetName(char *name, int size, hipDevice_t device)
{
    int error = sim_enter("hipDeviceGetName");
    const sim_device *d = device_at(&error, device - DEVICE_BASE);
    if (error == SIM_OK)
        snprintf(name, (size_t)size, "Pretended %s", d->arch);
    return leave(error);
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int index)
{
    int error = sim_enter("hipDeviceGetAttribute");
    const sim_device *d = device_at(&error, index);
    if (error == SIM_OK)
        switch ((int)attribute) {
        case hipDeviceAttributeIntegrated:
            *value = 0;
            break;
        case hipDeviceAttributeMaxThreadsPerBlock:
            *value = 1024;
            break;
        case hipDeviceAttributeMultiprocessorCount:
            *value = 8;
            break;
        case hipDeviceAttributeMaxSharedMemoryPerBlock:
            *value = 64 << 10;
            break;
        case hipDeviceAttributeWarpSize:
            *value = (int)d->lanes;
            break;
        default:
            error = SIM_INVALID_VALUE;
        }
    return leave(error);
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    int error = sim_enter("hipDeviceTotalMem");
    device_at(&error, device - DEVICE_BASE);
    *bytes = (size_t)sim_device_bytes();
    return leave(error);
}

/* The layout of ROCm 6: 1472 bytes, the architecture's name 1160 bytes from the start. */
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int index)
{
    int error = sim_enter("hipGetDevicePropertiesR0600");
    const sim_device *d = device_at(&error, index);
    char *bytes = (char *)properties;
    if (error == SIM_OK) {
        memset(bytes, 0, 1472);
        snprintf(bytes, 256, "Pretended %s", d->arch);
        snprintf(bytes + 1160, 256, "%s", d->arch);
    }
    return leave(error);
}

/* That of ROCm 5: 792 bytes, the name at 396. */
hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int index)
{
    int error = sim_enter("hipGetDeviceProperties");
    const sim_device *d = device_at(&error, index);
    char *bytes = (char *)properties;
    if (error == SIM_OK) {
        memset(bytes, 0, 792);
        snprintf(bytes, 256, "Pretended %s", d->arch);
        snprintf(bytes + 396, 256, "%s", d->arch);
    }
    return leave(error);
}

hipError_t hipGetDevice(int *index)
{
    const int error = sim_enter("hipGetDevice");
    *index = current_index;
    return leave(error);
}

hipError_t hipSetDevice(int index)
{
    int error = sim_enter("hipSetDevice");
    device_at(&error, index);
    if (error == SIM_OK)
        current_index = index;
    return leave(error);
}

/* ---------------------------------------------------------------- memory */

hipError_t hipMalloc(void **memory, size_t bytes)
{
    int error = sim_enter("hipMalloc");
    const sim_device *d = current(&error);
    *memory = NULL;
    if (error == SIM_OK)
        error = sim_capturing() ? SIM_NOT_IN_CAPTURE : sim_allocate(d, bytes, memory);
    return leave(error);
}

/* What frees does so even where it is told to fail. */
hipError_t hipFree(void *memory)
{
    const int error = sim_enter("hipFree");
    if (sim_capturing())
        return leave(SIM_NOT_IN_CAPTURE);
    const int freed = sim_free(memory);
    return leave(error != SIM_OK ? error : freed);
}

hipError_t hipHostMalloc(void **memory, size_t bytes, unsigned flags)
{
    int error = sim_enter("hipHostMalloc");
    const sim_device *d = current(&error);
    *memory = NULL;
    if (error == SIM_OK && flags != 0)
        error = SIM_INVALID_VALUE;
    if (error == SIM_OK)
        error = sim_capturing() ? SIM_NOT_IN_CAPTURE : sim_lock_host(d, bytes, memory);
    return leave(error);
}

hipError_t hipHostFree(void *memory)
{
    const int error = sim_enter("hipHostFree"), freed = sim_unlock_host(memory);
    return leave(error != SIM_OK ? error : freed);
}

static int enqueue(int error, hipStream_t stream, const sim_work *work)
{
    const sim_device *d = current(&error);
    error = check_stream(error, d, stream);
    return error == SIM_OK ? sim_enqueue(d, (sim_stream *)(void *)stream, work) : error;
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream)
{
    int error = sim_enter("hipMemcpyAsync");
    const sim_work work = {
        .command = kind == hipMemcpyHostToDevice ? SIM_UPLOAD : SIM_DOWNLOAD, .to = to, .from = from, .bytes = bytes};
    if (error == SIM_OK && kind != hipMemcpyHostToDevice && kind != hipMemcpyDeviceToHost)
        error = SIM_INVALID_VALUE;
    return leave(enqueue(error, stream, &work));
}

hipError_t hipMemsetAsync(void *memory, int value, size_t bytes, hipStream_t stream)
{
    const int error = sim_enter("hipMemsetAsync");
    const sim_work work = {.command = SIM_FILL, .to = memory, .bytes = bytes, .value = value};
    return leave(enqueue(error, stream, &work));
}

hipError_t hipPointerGetAttribute(void *value, hipPointer_attribute attribute, hipDeviceptr_t memory)
{
    int error = sim_enter("hipPointerGetAttribute");
    const sim_device *owner = sim_owner(memory);
    if (error == SIM_OK && (owner == NULL || owner->platform != SIM_HIP))
        error = SIM_INVALID_VALUE;
    if (error == SIM_OK)
        switch ((int)attribute) {
        case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
            *(void **)value = NULL;
            break;
        case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)value = owner->index;
            break;
        default:
            *(unsigned *)value = 2; /* the memory type of a device's; not managed is 0 */
            if (attribute != 2)
                *(unsigned *)value = 0;
        }
    return leave(error);
}

/* ---------------------------------------------------------------- streams */

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    int error = sim_enter("hipStreamCreateWithFlags");
    const sim_device *d = current(&error);
    *stream = NULL;
    if (error == SIM_OK)
        *stream = (hipStream_t)(void *)sim_new_stream(d, flags != hipStreamNonBlocking);
    return leave(error);
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    const int error = sim_enter("hipStreamDestroy");
    sim_stream *s = (void *)stream;
    if (!sim_is(SIM_STREAM, s)) {
        sim_complain("a stream is destroyed that is none");
        return leave(SIM_INVALID_HANDLE);
    }
    sim_wait_stream(s->device, s);
    sim_delete(SIM_STREAM, s);
    return leave(error);
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    int error = sim_enter("hipStreamSynchronize");
    const sim_device *d = current(&error);
    error = check_stream(error, d, stream);
    if (error == SIM_OK)
        error = sim_wait_stream(d, (const void *)stream);
    return leave(error);
}

/* ---------------------------------------------------------------- modules */

hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    int error = sim_enter("hipModuleLoadData");
    const sim_device *d = current(&error);
    void *made = NULL;
    if (error == SIM_OK)
        error = sim_load_module(d, image, &made);
    *module = made;
    return leave(error);
}

hipError_t hipModuleUnload(hipModule_t module)
{
    const int error = sim_enter("hipModuleUnload"), done = sim_unload_module(module);
    return leave(error != SIM_OK ? error : done);
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
    int error = sim_enter("hipModuleGetFunction");
    void *found = NULL;
    if (error == SIM_OK)
        error = sim_find_function(module, name, &found);
    *function = found;
    return leave(error);
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned groups_x, unsigned groups_y, unsigned groups_z,
                                 unsigned size_x, unsigned size_y, unsigned size_z, unsigned local_bytes,
                                 hipStream_t stream, void **arguments, void **extra)
{
    int error = sim_enter("hipModuleLaunchKernel");
    const uint32_t groups[3] = {groups_x, groups_y, groups_z}, size[3] = {size_x, size_y, size_z};
    sim_work work = {.command = SIM_LAUNCH};
    const sim_device *d = current(&error);
    error = check_stream(error, d, stream);
    if (error == SIM_OK && (extra != NULL || local_bytes != 0))
        error = SIM_INVALID_VALUE;
    if (error == SIM_OK)
        error = sim_prepare_call(d, function, groups, size, arguments, &work.call);
    if (error == SIM_OK)
        error = sim_enqueue(d, (sim_stream *)(void *)stream, &work);
    return leave(error);
}

/* ---------------------------------------------------------------- events */

hipError_t hipEventCreate(hipEvent_t *event)
{
    const int error = sim_enter("hipEventCreate");
    *event = error == SIM_OK ? (hipEvent_t)(void *)sim_new_event() : NULL;
    return leave(error);
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    const int error = sim_enter("hipEventDestroy");
    if (!sim_is(SIM_EVENT, event)) {
        sim_complain("an event is destroyed that is none");
        return leave(SIM_INVALID_HANDLE);
    }
    sim_wait_event((const sim_event *)(void *)event);
    sim_delete(SIM_EVENT, event);
    return leave(error);
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    int error = sim_enter("hipEventRecord");
    const sim_work work = {.command = SIM_RECORD, .event = (sim_event *)(void *)event};
    if (error == SIM_OK && !sim_is(SIM_EVENT, event))
        error = SIM_INVALID_HANDLE;
    return leave(enqueue(error, stream, &work));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    int error = sim_enter("hipStreamWaitEvent");
    const sim_work work = {.command = SIM_FOLLOW, .event = (sim_event *)(void *)event};
    if (error == SIM_OK && (!sim_is(SIM_EVENT, event) || flags != 0))
        error = SIM_INVALID_HANDLE;
    return leave(enqueue(error, stream, &work));
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    int error = sim_enter("hipEventSynchronize");
    if (error == SIM_OK)
        error = sim_is(SIM_EVENT, event) ? sim_wait_event((const sim_event *)(void *)event) : SIM_INVALID_HANDLE;
    return leave(error);
}

hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t end)
{
    int error = sim_enter("hipEventElapsedTime");
    const sim_event *a = (const void *)start, *b = (const void *)end;
    if (error == SIM_OK && (!sim_is(SIM_EVENT, a) || !sim_is(SIM_EVENT, b) || !a->recorded || !b->recorded))
        error = SIM_INVALID_HANDLE;
    if (error == SIM_OK && (a->pending > 0 || b->pending > 0))
        error = SIM_NOT_READY;
    if (error == SIM_OK)
        *milliseconds = (float)(b->time - a->time);
    return leave(error);
}
