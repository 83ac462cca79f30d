/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda.so.1, as far as the CUDA driver's table goes, over pretended devices. */
#include "backends/gpu/vendor/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) SIM_EXPORT result name arguments;
#define OPTIONAL(result, name, arguments) SIM_EXPORT result name arguments;
#include "backends/gpu/vendor/cuda.def"
#undef FUNCTION
#undef OPTIONAL

/* A thread's stack of current contexts; a context is its device. */
static _Thread_local const sim_device *stack[32];
static _Thread_local int depth;
static int initialised;

/* The device of the current context; without one `error` is set, unless it was. */
static const sim_device *current(int *error)
{
    const sim_device *device = depth > 0 ? stack[depth - 1] : NULL;
    if (*error == SIM_OK && (device == NULL || device->retained == 0)) {
        sim_complain("a call without a current context");
        *error = SIM_INVALID_CONTEXT;
    }
    sim_use(device);
    return device;
}

static void *pointer(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

static int check_stream(int error, const sim_device *device, CUstream stream)
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

CUresult cuInit(unsigned flags)
{
    int error = sim_enter("cuInit");
    if (error == SIM_OK && flags != 0)
        error = SIM_INVALID_VALUE;
    if (error == SIM_OK && sim_device_count(SIM_CUDA) == 0)
        error = SIM_NO_DEVICE;
    if (error == SIM_OK)
        initialised = 1;
    return (CUresult)sim_leave(error);
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    static _Thread_local char text[64];
    const char *bare = sim_error_name((int)code);
    snprintf(text, sizeof text, "CUDA_ERROR_%s", bare != NULL ? bare : "");
    *name = bare != NULL ? text : NULL;
    return bare != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version)
{
    const int error = sim_enter("cuDriverGetVersion");
    *version = 13000;
    return (CUresult)sim_leave(error);
}

CUresult cuDeviceGetCount(int *count)
{
    int error = sim_enter("cuDeviceGetCount");
    if (error == SIM_OK && !initialised)
        error = SIM_NOT_INITIALIZED;
    if (error == SIM_OK)
        *count = sim_device_count(SIM_CUDA);
    return (CUresult)sim_leave(error);
}

/* A CUdevice is the index and some more, so that who mixes the two up is found out. */
#define DEVICE_BASE 40

static sim_device *device_of(int *error, CUdevice device)
{
    sim_device *found = sim_device_at(SIM_CUDA, device - DEVICE_BASE);
    if (*error == SIM_OK && found == NULL)
        *error = SIM_INVALID_DEVICE;
    return found;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
    int error = sim_enter("cuDeviceGet");
    *device = index + DEVICE_BASE;
    device_of(&error, *device);
    return (CUresult)sim_leave(error);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    int error = sim_enter("cuDeviceGetName");
    const sim_device *d = device_of(&error, device);
    if (error == SIM_OK)
        snprintf(name, (size_t)size, "Pretended %s", d->arch);
    return (CUresult)sim_leave(error);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    int error = sim_enter("cuDeviceGetAttribute");
    const sim_device *d = device_of(&error, device);
    const int arch = error == SIM_OK ? atoi(d->arch + 3) : 0;
    if (error == SIM_OK)
        switch ((int)attribute) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = 1024;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            *value = 48 << 10;
            break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            *value = (int)d->lanes;
            break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            *value = 8;
            break;
        case CU_DEVICE_ATTRIBUTE_INTEGRATED:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = arch / 10;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = arch % 10;
            break;
        default:
            error = SIM_INVALID_VALUE;
        }
    return (CUresult)sim_leave(error);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    int error = sim_enter("cuDeviceTotalMem_v2");
    device_of(&error, device);
    *bytes = (size_t)sim_device_bytes();
    return (CUresult)sim_leave(error);
}

/* ---------------------------------------------------------------- contexts */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    int error = sim_enter("cuDevicePrimaryCtxRetain");
    sim_device *d = device_of(&error, device);
    *context = NULL;
    if (error == SIM_OK) {
        d->retained++;
        sim_use(d);
        *context = (CUcontext)(void *)d;
    }
    return (CUresult)sim_leave(error);
}

/* What frees does so even where it is told to fail, as a driver whose device is gone. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    int error = sim_enter("cuDevicePrimaryCtxRelease_v2"), found = SIM_OK;
    sim_device *d = device_of(&found, device);
    if (found != SIM_OK || d->retained == 0) {
        sim_complain("a context is released more often than retained");
        return (CUresult)sim_leave(SIM_INVALID_CONTEXT);
    }
    sim_wait_all();
    if (--d->retained == 0)
        sim_check_leaks(d);
    return (CUresult)sim_leave(error);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    int error = sim_enter("cuCtxPushCurrent_v2");
    if (error == SIM_OK && (context == NULL || depth == 32))
        error = SIM_INVALID_CONTEXT;
    if (error == SIM_OK)
        stack[depth++] = (const sim_device *)(void *)context;
    return (CUresult)sim_leave(error);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    int error = sim_enter("cuCtxPopCurrent_v2");
    if (depth == 0) {
        sim_complain("a context is popped that was not pushed");
        return (CUresult)sim_leave(SIM_INVALID_CONTEXT);
    }
    *context = (CUcontext)(uintptr_t)stack[--depth];
    return (CUresult)sim_leave(error);
}

/* ---------------------------------------------------------------- memory */

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    int error = sim_enter("cuMemAlloc_v2");
    const sim_device *d = current(&error);
    void *made = NULL;
    if (error == SIM_OK)
        error = sim_capturing() ? SIM_NOT_IN_CAPTURE : sim_allocate(d, bytes, &made);
    *memory = (CUdeviceptr)(uintptr_t)made;
    return (CUresult)sim_leave(error);
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
    int error = sim_enter("cuMemFree_v2"), found = SIM_OK;
    current(&found);
    if (sim_capturing())
        return (CUresult)sim_leave(SIM_NOT_IN_CAPTURE);
    const int freed = sim_free(pointer(memory));
    return (CUresult)sim_leave(error != SIM_OK ? error : freed);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    int error = sim_enter("cuMemHostAlloc");
    const sim_device *d = current(&error);
    *memory = NULL;
    if (error == SIM_OK && flags != 0)
        error = SIM_INVALID_VALUE;
    if (error == SIM_OK)
        error = sim_capturing() ? SIM_NOT_IN_CAPTURE : sim_lock_host(d, bytes, memory);
    return (CUresult)sim_leave(error);
}

CUresult cuMemFreeHost(void *memory)
{
    int error = sim_enter("cuMemFreeHost"), found = SIM_OK;
    current(&found);
    const int freed = sim_unlock_host(memory);
    return (CUresult)sim_leave(error != SIM_OK ? error : freed);
}

static int enqueue(int error, CUstream stream, const sim_work *work)
{
    const sim_device *d = current(&error);
    error = check_stream(error, d, stream);
    return error == SIM_OK ? sim_enqueue(d, (sim_stream *)(void *)stream, work) : error;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    const int error = sim_enter("cuMemcpyHtoDAsync_v2");
    const sim_work work = {.command = SIM_UPLOAD, .to = pointer(to), .from = from, .bytes = bytes};
    return (CUresult)sim_leave(enqueue(error, stream, &work));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const int error = sim_enter("cuMemcpyDtoHAsync_v2");
    const sim_work work = {.command = SIM_DOWNLOAD, .to = to, .from = pointer(from), .bytes = bytes};
    return (CUresult)sim_leave(enqueue(error, stream, &work));
}

CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t bytes, CUstream stream)
{
    const int error = sim_enter("cuMemsetD8Async");
    const sim_work work = {.command = SIM_FILL, .to = pointer(memory), .bytes = bytes, .value = value};
    return (CUresult)sim_leave(enqueue(error, stream, &work));
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr memory)
{
    int error = sim_enter("cuPointerGetAttribute");
    const sim_device *owner = sim_owner(pointer(memory));
    if (error == SIM_OK && (owner == NULL || owner->platform != SIM_CUDA))
        error = SIM_INVALID_VALUE;
    if (error == SIM_OK)
        switch ((int)attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)value = 2; /* a device's */
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned *)value = 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)value = owner->index;
            break;
        default:
            error = SIM_INVALID_VALUE;
        }
    return (CUresult)sim_leave(error);
}

/* ---------------------------------------------------------------- streams */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    int error = sim_enter("cuStreamCreate");
    const sim_device *d = current(&error);
    *stream = NULL;
    if (error == SIM_OK)
        *stream = (CUstream)(void *)sim_new_stream(d, flags != CU_STREAM_NON_BLOCKING);
    return (CUresult)sim_leave(error);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    const int error = sim_enter("cuStreamDestroy_v2");
    sim_stream *s = (void *)stream;
    if (!sim_is(SIM_STREAM, s)) {
        sim_complain("a stream is destroyed that is none");
        return (CUresult)sim_leave(SIM_INVALID_HANDLE);
    }
    sim_wait_stream(s->device, s);
    sim_delete(SIM_STREAM, s);
    return (CUresult)sim_leave(error);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    int error = sim_enter("cuStreamSynchronize");
    const sim_device *d = current(&error);
    error = check_stream(error, d, stream);
    if (error == SIM_OK)
        error = sim_wait_stream(d, (const void *)stream);
    return (CUresult)sim_leave(error);
}

/* ---------------------------------------------------------------- modules */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    int error = sim_enter("cuModuleLoadDataEx");
    const sim_device *d = current(&error);
    void *made = NULL;
    if (error == SIM_OK)
        error = sim_load_module(d, image, &made);
    for (unsigned i = 0; error != SIM_OK && i < count; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            strcpy(values[i], "pretended: image refused");
    *module = made;
    return (CUresult)sim_leave(error);
}

CUresult cuModuleUnload(CUmodule module)
{
    const int error = sim_enter("cuModuleUnload");
    int found = SIM_OK;
    current(&found);
    const int done = sim_unload_module(module);
    return (CUresult)sim_leave(error != SIM_OK ? error : done);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    int error = sim_enter("cuModuleGetFunction");
    void *found = NULL;
    current(&error);
    if (error == SIM_OK)
        error = sim_find_function(module, name, &found);
    *function = found;
    return (CUresult)sim_leave(error);
}

CUresult cuLaunchKernel(CUfunction function, unsigned groups_x, unsigned groups_y, unsigned groups_z, unsigned size_x,
                        unsigned size_y, unsigned size_z, unsigned local_bytes, CUstream stream, void **arguments,
                        void **extra)
{
    int error = sim_enter("cuLaunchKernel");
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
    return (CUresult)sim_leave(error);
}

/* ---------------------------------------------------------------- events */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    int error = sim_enter("cuEventCreate");
    (void)flags;
    *event = NULL;
    current(&error);
    if (error == SIM_OK)
        *event = (CUevent)(void *)sim_new_event();
    return (CUresult)sim_leave(error);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    const int error = sim_enter("cuEventDestroy_v2");
    if (!sim_is(SIM_EVENT, event)) {
        sim_complain("an event is destroyed that is none");
        return (CUresult)sim_leave(SIM_INVALID_HANDLE);
    }
    sim_wait_event((const sim_event *)(void *)event);
    sim_delete(SIM_EVENT, event);
    return (CUresult)sim_leave(error);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    int error = sim_enter("cuEventRecord");
    const sim_work work = {.command = SIM_RECORD, .event = (sim_event *)(void *)event};
    if (error == SIM_OK && !sim_is(SIM_EVENT, event))
        error = SIM_INVALID_HANDLE;
    return (CUresult)sim_leave(enqueue(error, stream, &work));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    int error = sim_enter("cuStreamWaitEvent");
    const sim_work work = {.command = SIM_FOLLOW, .event = (sim_event *)(void *)event};
    if (error == SIM_OK && (!sim_is(SIM_EVENT, event) || flags != 0))
        error = SIM_INVALID_HANDLE;
    return (CUresult)sim_leave(enqueue(error, stream, &work));
}

CUresult cuEventSynchronize(CUevent event)
{
    int error = sim_enter("cuEventSynchronize");
    if (error == SIM_OK)
        error = sim_is(SIM_EVENT, event) ? sim_wait_event((const sim_event *)(void *)event) : SIM_INVALID_HANDLE;
    return (CUresult)sim_leave(error);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    int error = sim_enter("cuEventElapsedTime");
    const sim_event *a = (const void *)start, *b = (const void *)end;
    if (error == SIM_OK && (!sim_is(SIM_EVENT, a) || !sim_is(SIM_EVENT, b) || !a->recorded || !b->recorded))
        error = SIM_INVALID_HANDLE;
    if (error == SIM_OK && (a->pending > 0 || b->pending > 0))
        error = SIM_NOT_READY;
    if (error == SIM_OK)
        *milliseconds = (float)(b->time - a->time);
    return (CUresult)sim_leave(error);
}
