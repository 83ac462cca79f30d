/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of HIP, over its runtime, in each device's primary context. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "embedded.h"
#include "library.h"
#include "vendor/hip.h"

#define ARGUMENTS 16

struct ckv_gpu_device {
    int index;
    hipStream_t stream; /* waits for no other, not even for the stream NULL */
    char arch[64];
};

/* Written once, by initialise(). */
static struct {
    ckv_library_state library;
    ckv_hip_functions hip;
    int32_t count;
    int version;
} loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const ckv_symbol symbols[] = {
#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) {#name, offsetof(ckv_hip_functions, name), 0},
#define OPTIONAL(result, name, arguments) {#name, offsetof(ckv_hip_functions, name), 1},
#include "vendor/hip.def"
#undef FUNCTION
#undef OPTIONAL
};

static const char *error(int code)
{
    const char *name = ckv_library_error(code);
    if (name == NULL && code > 0 && loaded.hip.hipGetErrorName != NULL)
        name = loaded.hip.hipGetErrorName((hipError_t)code);
    return name == NULL ? "HIP error without a name" : name;
}

/* Also forgets the failure, which the runtime would show to the engine's own next
 * question after its last error. */
static int result(hipError_t code)
{
    if (code != hipSuccess)
        (void)loaded.hip.hipGetLastError();
    return (int)code;
}

/* ------------------------------------------------------------------ devices */

static int fails(const char *what, hipError_t code)
{
    if (result(code) == hipSuccess)
        return 0;
    ckv_library_say(loaded.library.reason, sizeof loaded.library.reason, "%s: %s (%d)", what, error((int)code),
                    (int)code);
    return 1;
}

static void initialise(void)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                        NULL};
    int count = 0;
    if (!ckv_library_begin(&loaded.library, "hip", names, symbols, sizeof symbols / sizeof symbols[0], &loaded.hip) ||
        fails("hipInit", loaded.hip.hipInit(0)) || fails("hipGetDeviceCount", loaded.hip.hipGetDeviceCount(&count)) ||
        fails("hipDriverGetVersion", loaded.hip.hipDriverGetVersion(&loaded.version)))
        return;
    if (count <= 0)
        fails("hipGetDeviceCount", hipErrorNoDevice);
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

static int attribute(int index, hipDeviceAttribute_t what)
{
    int value = 0;
    return result(loaded.hip.hipDeviceGetAttribute(&value, what, index)) == hipSuccess ? value : 0;
}

/*
 * "gfx942:sramecc+:xnack-".  Only the properties have it, a struct whose layout differs
 * from one release to the next; it is looked for behind the device's name, their first
 * 256 bytes, as no other text in them begins so.
 */
static void architecture(int index, char *text, size_t size)
{
    union {
        char bytes[8192];
        long long aligned;
    } properties;
    hipDeviceProp_t *all = (hipDeviceProp_t *)(void *)&properties;
    hipError_t code = hipErrorInvalidValue;
    memset(&properties, 0, sizeof properties);
    text[0] = '\0';
    if (loaded.hip.hipGetDevicePropertiesR0600 != NULL)
        code = loaded.hip.hipGetDevicePropertiesR0600(all, index);
    else if (loaded.hip.hipGetDeviceProperties != NULL)
        code = loaded.hip.hipGetDeviceProperties(all, index);
    if (result(code) != hipSuccess)
        return;
    for (size_t i = 256; i + 256 < sizeof properties; i++)
        if (memcmp(properties.bytes + i, "gfx", 3) == 0) {
            ckv_library_copy(text, size, properties.bytes + i);
            return;
        }
}

static int describe(int32_t index, ckv_gpu_device_info *info)
{
    hipDevice_t id;
    hipError_t code;
    size_t bytes = 0;
    if (index < 0 || index >= device_count())
        return hipErrorInvalidValue;
    memset(info, 0, sizeof *info);
    code = loaded.hip.hipDeviceGet(&id, index);
    if (code == hipSuccess)
        code = loaded.hip.hipDeviceGetName(info->name, (int)sizeof info->name, id);
    if (code == hipSuccess)
        code = loaded.hip.hipDeviceTotalMem(&bytes, id);
    if (result(code) != hipSuccess)
        return (int)code;
    ckv_library_copy(info->vendor, sizeof info->vendor, "AMD");
    architecture(index, info->arch, sizeof info->arch);
    ckv_library_say(info->driver, sizeof info->driver, "HIP %d", loaded.version);
    info->integrated = attribute(index, hipDeviceAttributeIntegrated) != 0;
    info->compute_units = attribute(index, hipDeviceAttributeMultiprocessorCount);
    info->lanes = attribute(index, hipDeviceAttributeWarpSize);
    info->max_group = attribute(index, hipDeviceAttributeMaxThreadsPerBlock);
    info->local_bytes = attribute(index, hipDeviceAttributeMaxSharedMemoryPerBlock);
    info->memory_bytes = (int64_t)bytes;
    return CKV_GPU_OK;
}

/* The runtime has a current device on each thread, not a stack of contexts. */
static int enter(ckv_gpu_device *device, void **saved)
{
    int before = 0;
    hipError_t code;
    *saved = NULL;
    if (ckv_library_forked(&loaded.library))
        return CKV_GPU_FORKED;
    code = loaded.hip.hipGetDevice(&before);
    *saved = (void *)(intptr_t)before;
    if (code == hipSuccess && before != device->index)
        code = loaded.hip.hipSetDevice(device->index);
    return result(code);
}

static void leave(ckv_gpu_device *device, void *saved)
{
    int before = (int)(intptr_t)saved;
    if (before != device->index)
        result(loaded.hip.hipSetDevice(before));
}

static int open_device(int32_t index, void *native, ckv_gpu_device **out)
{
    ckv_gpu_device *device;
    void *saved;
    int code;
    if (ckv_library_forked(&loaded.library) && loaded.count > 0)
        return CKV_GPU_FORKED;
    if (index < 0 || index >= device_count() || native != NULL)
        return hipErrorInvalidValue;
    device = calloc(1, sizeof *device);
    if (device == NULL)
        return CKV_GPU_FAILED;
    device->index = index;
    architecture(index, device->arch, sizeof device->arch);
    code = enter(device, &saved);
    if (code == CKV_GPU_OK) {
        code = result(loaded.hip.hipStreamCreateWithFlags(&device->stream, hipStreamNonBlocking));
        leave(device, saved);
    }
    if (code != CKV_GPU_OK) {
        free(device);
        return code;
    }
    *out = device;
    return CKV_GPU_OK;
}

static void close_device(ckv_gpu_device *device)
{
    void *saved;
    if (enter(device, &saved) == CKV_GPU_OK) {
        result(loaded.hip.hipStreamSynchronize(device->stream));
        result(loaded.hip.hipStreamDestroy(device->stream));
        leave(device, saved);
    }
    free(device);
}

/* ------------------------------------------------------------------ commands */

static void *address(ckv_gpu_memory memory)
{
    return (char *)memory.base + memory.offset;
}

static hipStream_t stream_of(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    return stream == NULL ? device->stream : stream;
}

static int allocate(ckv_gpu_device *device, size_t bytes, ckv_gpu_memory *memory)
{
    (void)device;
    memory->base = NULL;
    memory->offset = 0;
    return result(loaded.hip.hipMalloc(&memory->base, bytes == 0 ? 1 : bytes));
}

static void release(ckv_gpu_device *device, ckv_gpu_memory memory)
{
    (void)device;
    if (memory.base != NULL && !ckv_library_forked(&loaded.library))
        result(loaded.hip.hipFree(memory.base));
}

static int upload(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return CKV_GPU_OK;
    return result(
        loaded.hip.hipMemcpyAsync(address(to), from, bytes, hipMemcpyHostToDevice, stream_of(device, stream)));
}

static int download(ckv_gpu_device *device, ckv_gpu_stream stream, void *to, ckv_gpu_memory from, size_t bytes)
{
    if (bytes == 0)
        return CKV_GPU_OK;
    return result(
        loaded.hip.hipMemcpyAsync(to, address(from), bytes, hipMemcpyDeviceToHost, stream_of(device, stream)));
}

static int clear(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory memory, size_t bytes)
{
    if (bytes == 0)
        return CKV_GPU_OK;
    return result(loaded.hip.hipMemsetAsync(address(memory), 0, bytes, stream_of(device, stream)));
}

static int wait(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    return result(loaded.hip.hipStreamSynchronize(stream_of(device, stream)));
}

static int create_stream(ckv_gpu_device *device, ckv_gpu_stream *stream)
{
    hipStream_t made = NULL;
    hipError_t code = loaded.hip.hipStreamCreateWithFlags(&made, hipStreamNonBlocking);
    (void)device;
    *stream = made;
    return result(code);
}

static void release_stream(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    (void)device;
    if (stream == NULL || ckv_library_forked(&loaded.library))
        return;
    result(loaded.hip.hipStreamSynchronize(stream));
    result(loaded.hip.hipStreamDestroy(stream));
}

static int allocate_host(ckv_gpu_device *device, size_t bytes, void **memory)
{
    (void)device;
    *memory = NULL;
    return result(loaded.hip.hipHostMalloc(memory, bytes, 0));
}

static void release_host(ckv_gpu_device *device, void *memory)
{
    (void)device;
    if (memory != NULL && !ckv_library_forked(&loaded.library))
        result(loaded.hip.hipHostFree(memory));
}

static int launch_kernel(ckv_gpu_device *device, ckv_gpu_stream stream, const ckv_gpu_launch *launch)
{
    void *buffers[ARGUMENTS], *values[ARGUMENTS];
    const uint32_t *groups = launch->groups, *size = launch->group_size;
    if (launch->count > ARGUMENTS)
        return CKV_GPU_FAILED;
    for (int i = 0; i < launch->count; i++) {
        const ckv_gpu_argument *argument = &launch->arguments[i];
        buffers[i] = (void *)(uintptr_t)argument->value;
        values[i] = argument->size == 0 ? (void *)&buffers[i] : (void *)(uintptr_t)argument->value;
    }
    return result(loaded.hip.hipModuleLaunchKernel(launch->kernel, groups[0], groups[1], groups[2], size[0], size[1],
                                                   size[2], 0, stream_of(device, stream), values, NULL));
}

/* ------------------------------------------------------------------ code */

static int load_module(ckv_gpu_device *device, const ckv_gpu_image *image, const char *options, ckv_gpu_module **module,
                       void **built, size_t *built_size, char *log, size_t log_size)
{
    hipModule_t made = NULL;
    int code;
    *built = NULL;
    *built_size = 0;
    if (image->is_source && !ckv_gpu_build_hip(image->data, device->arch, options, built, built_size, log, log_size))
        return CKV_GPU_FAILED;
    code = result(loaded.hip.hipModuleLoadData(&made, image->is_source ? *built : image->data));
    if (code != CKV_GPU_OK) {
        ckv_library_say(log, log_size, "hipModuleLoadData: %s (%d)", error(code), code);
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
        result(loaded.hip.hipModuleUnload((hipModule_t)module));
}

static int find_kernel(ckv_gpu_device *device, ckv_gpu_module *module, const char *name, ckv_gpu_kernel *kernel)
{
    hipFunction_t found = NULL;
    hipError_t code = loaded.hip.hipModuleGetFunction(&found, (hipModule_t)module, name);
    (void)device;
    *kernel = found;
    return result(code);
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
    hipEvent_t made = NULL;
    hipError_t code = loaded.hip.hipEventCreate(&made);
    (void)device;
    *event = made;
    return result(code);
}

static void release_event(ckv_gpu_device *device, ckv_gpu_event event)
{
    (void)device;
    if (event != NULL && !ckv_library_forked(&loaded.library))
        result(loaded.hip.hipEventDestroy(event));
}

static int record(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event)
{
    return result(loaded.hip.hipEventRecord(event, stream_of(device, stream)));
}

static int follow(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event)
{
    return result(loaded.hip.hipStreamWaitEvent(stream_of(device, stream), event, 0));
}

static int wait_event(ckv_gpu_device *device, ckv_gpu_event event)
{
    (void)device;
    return result(loaded.hip.hipEventSynchronize(event));
}

static int elapsed(ckv_gpu_device *device, ckv_gpu_event start, ckv_gpu_event end, float *milliseconds)
{
    hipError_t code = loaded.hip.hipEventSynchronize(start);
    (void)device;
    if (code == hipSuccess)
        code = loaded.hip.hipEventSynchronize(end);
    if (code == hipSuccess)
        code = loaded.hip.hipEventElapsedTime(milliseconds, start, end);
    return result(code);
}

/* Memory that the device has, or the host's where it is pinned or managed. */
static int owns(ckv_gpu_device *device, const void *base)
{
    hipDeviceptr_t memory = (hipDeviceptr_t)(uintptr_t)base;
    int ordinal = -1;
    void *host = NULL;
    if (base == NULL ||
        result(loaded.hip.hipPointerGetAttribute(&ordinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory)) != hipSuccess)
        return 0;
    return ordinal == device->index ||
           (result(loaded.hip.hipPointerGetAttribute(&host, HIP_POINTER_ATTRIBUTE_HOST_POINTER, memory)) ==
                hipSuccess &&
            host != NULL);
}

static const ckv_gpu_embedded embedded = {ckv_gpu_text_hip, &ckv_gpu_text_hip_size, ckv_gpu_images_hip};

const ckv_gpu_driver ckv_gpu_hip = {
    .name = "hip",
    .target = CKV_GPU_HIP,
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
