/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of CUDA, over its driver API, in each device's primary context. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "embedded.h"
#include "library.h"
#include "vendor/cuda.h"

#define ARGUMENTS 16

struct ckv_gpu_device {
    CUdevice id;
    int32_t index;
    CUcontext context;
    CUstream stream; /* waits for no other, not even for the stream NULL */
    char arch[64];
};

/* Written once, by initialise(). */
static struct {
    ckv_library_state library;
    ckv_cuda_functions cu;
    int32_t count;
    int version;
} loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const ckv_symbol symbols[] = {
#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) {#name, offsetof(ckv_cuda_functions, name), 0},
#include "vendor/cuda.def"
#undef FUNCTION
};

static const char *error(int code)
{
    const char *name = ckv_library_error(code);
    if (name != NULL)
        return name;
    if (code > 0 && loaded.cu.cuGetErrorName != NULL && loaded.cu.cuGetErrorName((CUresult)code, &name) == 0 &&
        name != NULL)
        return name;
    switch (code) { /* those of a library that can do nothing, not even that */
    case CUDA_ERROR_STUB_LIBRARY:
        return "CUDA_ERROR_STUB_LIBRARY";
    case CUDA_ERROR_NO_DEVICE:
        return "CUDA_ERROR_NO_DEVICE";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "CUDA_ERROR_SYSTEM_NOT_READY";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    case CUDA_ERROR_UNKNOWN:
        return "CUDA_ERROR_UNKNOWN";
    default:
        return "CUDA error without a name";
    }
}

/* ------------------------------------------------------------------ devices */

static int fails(const char *what, CUresult code)
{
    if (code == CUDA_SUCCESS)
        return 0;
    ckv_library_say(loaded.library.reason, sizeof loaded.library.reason, "%s: %s (%d)", what, error((int)code),
                    (int)code);
    return 1;
}

static void initialise(void)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    int count = 0;
    if (!ckv_library_begin(&loaded.library, "cuda", names, symbols, sizeof symbols / sizeof symbols[0], &loaded.cu) ||
        fails("cuInit", loaded.cu.cuInit(0)) || fails("cuDeviceGetCount", loaded.cu.cuDeviceGetCount(&count)) ||
        fails("cuDriverGetVersion", loaded.cu.cuDriverGetVersion(&loaded.version)))
        return;
    if (count <= 0)
        fails("cuDeviceGetCount", CUDA_ERROR_NO_DEVICE);
    loaded.count = count;
}

static const char *load(void)
{
    pthread_once(&once, initialise);
    return ckv_library_reason(&loaded.library);
}

static int32_t device_count(void)
{
    return load() == NULL ? loaded.count : 0;
}

static int attribute(CUdevice id, CUdevice_attribute what)
{
    int value = 0;
    return loaded.cu.cuDeviceGetAttribute(&value, what, id) == CUDA_SUCCESS ? value : 0;
}

static void architecture(CUdevice id, char *text, size_t size)
{
    ckv_library_say(text, size, "sm_%d%d", attribute(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                    attribute(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

static int describe(int32_t index, ckv_gpu_device_info *info)
{
    CUdevice id;
    CUresult code;
    size_t bytes = 0;
    if (index < 0 || index >= device_count())
        return CUDA_ERROR_INVALID_VALUE;
    memset(info, 0, sizeof *info);
    code = loaded.cu.cuDeviceGet(&id, index);
    if (code == CUDA_SUCCESS)
        code = loaded.cu.cuDeviceGetName(info->name, (int)sizeof info->name, id);
    if (code == CUDA_SUCCESS)
        code = loaded.cu.cuDeviceTotalMem_v2(&bytes, id);
    if (code != CUDA_SUCCESS)
        return (int)code;
    ckv_library_copy(info->vendor, sizeof info->vendor, "NVIDIA");
    architecture(id, info->arch, sizeof info->arch);
    ckv_library_say(info->driver, sizeof info->driver, "CUDA %d.%d", loaded.version / 1000, loaded.version % 1000 / 10);
    info->integrated = attribute(id, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
    info->compute_units = attribute(id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info->lanes = attribute(id, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    info->max_group = attribute(id, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    info->local_bytes = attribute(id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    info->memory_bytes = (int64_t)bytes;
    return CKV_GPU_OK;
}

static int enter(ckv_gpu_device *device, void **saved)
{
    *saved = NULL;
    if (ckv_library_forked(&loaded.library))
        return CKV_GPU_FORKED;
    return (int)loaded.cu.cuCtxPushCurrent_v2(device->context);
}

static void leave(ckv_gpu_device *device, void *saved)
{
    CUcontext popped;
    (void)device;
    (void)saved; /* the context's own stack has it */
    loaded.cu.cuCtxPopCurrent_v2(&popped);
}

static CUresult open_context(ckv_gpu_device *device)
{
    CUresult code = loaded.cu.cuDevicePrimaryCtxRetain(&device->context, device->id);
    if (code != CUDA_SUCCESS)
        return code;
    code = loaded.cu.cuCtxPushCurrent_v2(device->context);
    if (code == CUDA_SUCCESS) {
        code = loaded.cu.cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING);
        leave(device, NULL);
    }
    if (code != CUDA_SUCCESS)
        loaded.cu.cuDevicePrimaryCtxRelease_v2(device->id);
    return code;
}

static int open_device(int32_t index, void *native, ckv_gpu_device **out)
{
    ckv_gpu_device *device;
    CUresult code;
    if (ckv_library_forked(&loaded.library) && loaded.count > 0)
        return CKV_GPU_FORKED;
    if (index < 0 || index >= device_count() || native != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    device = calloc(1, sizeof *device);
    if (device == NULL)
        return CKV_GPU_FAILED;
    device->index = index;
    code = loaded.cu.cuDeviceGet(&device->id, index);
    if (code == CUDA_SUCCESS) {
        architecture(device->id, device->arch, sizeof device->arch);
        code = open_context(device);
    }
    if (code != CUDA_SUCCESS) {
        free(device);
        return (int)code;
    }
    *out = device;
    return CKV_GPU_OK;
}

static void close_device(ckv_gpu_device *device)
{
    void *saved;
    if (enter(device, &saved) == CKV_GPU_OK) {
        loaded.cu.cuStreamSynchronize(device->stream);
        loaded.cu.cuStreamDestroy_v2(device->stream);
        leave(device, saved);
    }
    if (!ckv_library_forked(&loaded.library))
        loaded.cu.cuDevicePrimaryCtxRelease_v2(device->id);
    free(device);
}

/* ------------------------------------------------------------------ commands */

static CUdeviceptr address(ckv_gpu_memory memory)
{
    return (CUdeviceptr)(uintptr_t)memory.base + (CUdeviceptr)memory.offset;
}

static CUstream stream_of(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    return stream == NULL ? device->stream : stream;
}

static int allocate(ckv_gpu_device *device, size_t bytes, ckv_gpu_memory *memory)
{
    CUdeviceptr made = 0;
    CUresult code = loaded.cu.cuMemAlloc_v2(&made, bytes == 0 ? 1 : bytes);
    (void)device;
    memory->base = (void *)(uintptr_t)made;
    memory->offset = 0;
    return (int)code;
}

static void release(ckv_gpu_device *device, ckv_gpu_memory memory)
{
    (void)device;
    if (memory.base != NULL && !ckv_library_forked(&loaded.library))
        loaded.cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)memory.base);
}

static int upload(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return CKV_GPU_OK;
    return (int)loaded.cu.cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream_of(device, stream));
}

static int download(ckv_gpu_device *device, ckv_gpu_stream stream, void *to, ckv_gpu_memory from, size_t bytes)
{
    if (bytes == 0)
        return CKV_GPU_OK;
    return (int)loaded.cu.cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream_of(device, stream));
}

static int clear(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory memory, size_t bytes)
{
    if (bytes == 0)
        return CKV_GPU_OK;
    return (int)loaded.cu.cuMemsetD8Async(address(memory), 0, bytes, stream_of(device, stream));
}

static int wait(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    return (int)loaded.cu.cuStreamSynchronize(stream_of(device, stream));
}

static int create_stream(ckv_gpu_device *device, ckv_gpu_stream *stream)
{
    CUstream made = NULL;
    CUresult code = loaded.cu.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
    (void)device;
    *stream = made;
    return (int)code;
}

static void release_stream(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    (void)device;
    if (stream == NULL || ckv_library_forked(&loaded.library))
        return;
    loaded.cu.cuStreamSynchronize(stream);
    loaded.cu.cuStreamDestroy_v2(stream);
}

static int allocate_host(ckv_gpu_device *device, size_t bytes, void **memory)
{
    (void)device;
    *memory = NULL;
    return (int)loaded.cu.cuMemHostAlloc(memory, bytes, 0);
}

static void release_host(ckv_gpu_device *device, void *memory)
{
    (void)device;
    if (memory != NULL && !ckv_library_forked(&loaded.library))
        loaded.cu.cuMemFreeHost(memory);
}

static int launch_kernel(ckv_gpu_device *device, ckv_gpu_stream stream, const ckv_gpu_launch *launch)
{
    CUdeviceptr buffers[ARGUMENTS];
    void *values[ARGUMENTS];
    const uint32_t *groups = launch->groups, *size = launch->group_size;
    if (launch->count > ARGUMENTS)
        return CKV_GPU_FAILED;
    for (int i = 0; i < launch->count; i++) {
        const ckv_gpu_argument *argument = &launch->arguments[i];
        buffers[i] = (CUdeviceptr)(uintptr_t)argument->value;
        values[i] = argument->size == 0 ? (void *)&buffers[i] : (void *)(uintptr_t)argument->value;
    }
    return (int)loaded.cu.cuLaunchKernel(launch->kernel, groups[0], groups[1], groups[2], size[0], size[1], size[2], 0,
                                         stream_of(device, stream), values, NULL);
}

/* ------------------------------------------------------------------ code */

static int load_image(const void *image, CUmodule *module, char *log, size_t log_size)
{
    char text[2048] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {text, (void *)(uintptr_t)(sizeof text - 1)};
    CUresult code = loaded.cu.cuModuleLoadDataEx(module, image, 2, options, values);
    if (code != CUDA_SUCCESS)
        ckv_library_say(log, log_size, "cuModuleLoadDataEx: %s (%d) %s", error((int)code), (int)code, text);
    return (int)code;
}

static int load_module(ckv_gpu_device *device, const ckv_gpu_image *image, const char *options, ckv_gpu_module **module,
                       void **built, size_t *built_size, char *log, size_t log_size)
{
    CUmodule made = NULL;
    int code;
    *built = NULL;
    *built_size = 0;
    if (image->is_source &&
        !ckv_gpu_build_cuda(image->data, device->arch, options, loaded.version, built, built_size, log, log_size))
        return CKV_GPU_FAILED;
    code = load_image(image->is_source ? *built : image->data, &made, log, log_size);
    if (code != CKV_GPU_OK) {
        free(*built);
        *built = NULL;
        return code;
    }
    *module = (ckv_gpu_module *)made;
    return CKV_GPU_OK;
}

static void unload_module(ckv_gpu_device *device, ckv_gpu_module *module)
{
    (void)device;
    if (module != NULL && !ckv_library_forked(&loaded.library))
        loaded.cu.cuModuleUnload((CUmodule)module);
}

static int find_kernel(ckv_gpu_device *device, ckv_gpu_module *module, const char *name, ckv_gpu_kernel *kernel)
{
    CUfunction found = NULL;
    CUresult code = loaded.cu.cuModuleGetFunction(&found, (CUmodule)module, name);
    (void)device;
    *kernel = found;
    return (int)code;
}

/* A kernel is its module's. */
static void release_kernel(ckv_gpu_device *device, ckv_gpu_kernel kernel)
{
    (void)device;
    (void)kernel;
}

/* ------------------------------------------------------------------ events */

static int create_event(ckv_gpu_device *device, ckv_gpu_event *event)
{
    CUevent made = NULL;
    CUresult code = loaded.cu.cuEventCreate(&made, CU_EVENT_DEFAULT);
    (void)device;
    *event = made;
    return (int)code;
}

static void release_event(ckv_gpu_device *device, ckv_gpu_event event)
{
    (void)device;
    if (event != NULL && !ckv_library_forked(&loaded.library))
        loaded.cu.cuEventDestroy_v2(event);
}

static int record(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event)
{
    return (int)loaded.cu.cuEventRecord(event, stream_of(device, stream));
}

static int follow(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event)
{
    return (int)loaded.cu.cuStreamWaitEvent(stream_of(device, stream), event, 0);
}

static int wait_event(ckv_gpu_device *device, ckv_gpu_event event)
{
    (void)device;
    return (int)loaded.cu.cuEventSynchronize(event);
}

static int elapsed(ckv_gpu_device *device, ckv_gpu_event start, ckv_gpu_event end, float *milliseconds)
{
    CUresult code = loaded.cu.cuEventSynchronize(start);
    (void)device;
    if (code == CUDA_SUCCESS)
        code = loaded.cu.cuEventSynchronize(end);
    if (code == CUDA_SUCCESS)
        code = loaded.cu.cuEventElapsedTime(milliseconds, start, end);
    return (int)code;
}

/* Memory of the device, managed memory, or the host's where it is pinned. */
static int owns(ckv_gpu_device *device, const void *base)
{
    const CUdeviceptr memory = (CUdeviceptr)(uintptr_t)base;
    int ordinal = -1;
    unsigned type = 0, managed = 0;
    if (base == NULL ||
        loaded.cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory) != CUDA_SUCCESS)
        return 0;
    if (type == CU_MEMORYTYPE_HOST)
        return 1;
    if (loaded.cu.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory) == CUDA_SUCCESS &&
        (managed & 1) != 0)
        return 1;
    return loaded.cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory) == CUDA_SUCCESS &&
           ordinal == device->index;
}

static const ckv_gpu_embedded embedded = {ckv_gpu_text_cuda, &ckv_gpu_text_cuda_size, ckv_gpu_images_cuda};

const ckv_gpu_driver ckv_gpu_cuda = {
    .name = "cuda",
    .target = CKV_GPU_CUDA,
    .embedded = &embedded,
    .load = load,
    .error = error,
    .device_count = device_count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .enter = enter,
    .leave = leave,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .clear = clear,
    .wait = wait,
    .create_stream = create_stream,
    .release_stream = release_stream,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .load_module = load_module,
    .unload_module = unload_module,
    .find_kernel = find_kernel,
    .release_kernel = release_kernel,
    .launch = launch_kernel,
    .create_event = create_event,
    .release_event = release_event,
    .record = record,
    .follow = follow,
    .wait_event = wait_event,
    .elapsed = elapsed,
    .owns = owns,
};
