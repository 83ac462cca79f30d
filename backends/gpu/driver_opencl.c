/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of OpenCL 1.2.  A device has one cl_context, ours or the engine's, in which
 * all its memory and code are; a stream is a command queue of that context.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "library.h"
#include "vendor/opencl.h"

#define DEVICES 64

struct ckv_gpu_device {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    int is_pocl;
    /* A kernel's arguments are set one by one, before the launch that reads them. */
    pthread_mutex_t launching;
};

typedef struct marker {
    cl_event event;
} marker;

/* Written once, by initialise(). */
static struct {
    ckv_library_state library;
    ckv_opencl_functions cl;
    int32_t count;
    struct {
        cl_device_id id;
        cl_platform_id platform;
    } devices[DEVICES];
} loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const ckv_symbol symbols[] = {
#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) {#name, offsetof(ckv_opencl_functions, name), 0},
#define OPTIONAL(result, name, arguments) {#name, offsetof(ckv_opencl_functions, name), 1},
#include "vendor/opencl.def"
#undef CONSTANT
};

static const char *error(int code)
{
    switch (code) {
#define CONSTANT(name, value)                                                                                          \
    case value:                                                                                                        \
        return #name;
#include "vendor/opencl_errors.def"
#undef CONSTANT
    default:
        return ckv_library_error(code) == NULL ? "OpenCL error without a name" : ckv_library_error(code);
    }
}

/* ------------------------------------------------------------------ devices */

static void device_text(cl_device_id id, cl_device_info what, char *text, size_t size)
{
    char raw[1024] = "";
    if (loaded.cl.clGetDeviceInfo(id, what, sizeof raw - 1, raw, NULL) != CL_SUCCESS)
        raw[0] = '\0';
    ckv_library_copy(text, size, raw);
}

/* Of a device; `otherwise` where it does not know. */
static int64_t device_number(cl_device_id id, cl_device_info what, int64_t otherwise)
{
    union {
        cl_ulong large;
        cl_uint small;
    } value = {0};
    size_t size = 0;
    if (loaded.cl.clGetDeviceInfo(id, what, sizeof value, &value, &size) != CL_SUCCESS)
        return otherwise;
    if (size == sizeof value.small)
        return (int64_t)value.small;
    return value.large > INT64_MAX ? INT64_MAX : (int64_t)value.large;
}

/* "OpenCL 1.2 ...": what an older one lacks cannot even be asked for, its functions are
 * missing from the tables behind the loader. */
static int is_1_2(const char *version)
{
    return strncmp(version, "OpenCL ", 7) == 0 && strcmp(version + 7, "1.2") >= 0;
}

static int usable(cl_device_id id)
{
    char version[128];
    device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    return is_1_2(version) && device_number(id, CL_DEVICE_AVAILABLE, 0) == CL_TRUE &&
           device_number(id, CL_DEVICE_COMPILER_AVAILABLE, 0) == CL_TRUE &&
           device_number(id, CL_DEVICE_ENDIAN_LITTLE, 0) == CL_TRUE;
}

static void list_devices(cl_platform_id platform, cl_device_type type)
{
    cl_device_id ids[DEVICES];
    cl_uint count = 0;
    if (loaded.cl.clGetDeviceIDs(platform, type, DEVICES, ids, &count) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < count && i < DEVICES && loaded.count < DEVICES; i++)
        if (usable(ids[i])) {
            loaded.devices[loaded.count].id = ids[i];
            loaded.devices[loaded.count++].platform = platform;
        }
}

static void initialise(void)
{
    static const char *const names[] = {"libOpenCL.so.1", NULL};
    static const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU};
    cl_platform_id platforms[DEVICES];
    cl_uint count = 0;
    cl_int code;
    if (!ckv_library_begin(&loaded.library, "opencl", names, symbols, sizeof symbols / sizeof symbols[0], &loaded.cl))
        return;
    code = loaded.cl.clGetPlatformIDs(DEVICES, platforms, &count);
    if (code != CL_SUCCESS) {
        ckv_library_say(loaded.library.reason, sizeof loaded.library.reason, "clGetPlatformIDs: %s (%d)", error(code),
                        (int)code);
        return;
    }
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (cl_uint i = 0; i < count && i < DEVICES; i++) {
            char version[128] = "";
            if (loaded.cl.clGetPlatformInfo(platforms[i], CL_PLATFORM_VERSION, sizeof version - 1, version, NULL) ==
                    CL_SUCCESS &&
                is_1_2(version))
                list_devices(platforms[i], types[t]);
        }
    if (loaded.count == 0)
        ckv_library_say(loaded.library.reason, sizeof loaded.library.reason,
                        "no device with OpenCL 1.2 and a compiler on %u platforms", (unsigned)count);
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

static int32_t clamp(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

static int is_pocl(cl_platform_id platform)
{
    char name[256] = "";
    return loaded.cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) == CL_SUCCESS &&
           strcmp(name, "Portable Computing Language") == 0;
}

static int describe(int32_t index, ckv_gpu_device_info *info)
{
    static const struct {
        const char *has, *vendor;
    } vendors[] = {{"NVIDIA", "NVIDIA"}, {"Advanced Micro Devices", "AMD"}, {"Intel", "Intel"}};
    char version[128], driver[128];
    cl_device_id id;
    if (index < 0 || index >= device_count())
        return CL_INVALID_DEVICE;
    id = loaded.devices[index].id;
    memset(info, 0, sizeof *info);
    device_text(id, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++)
        if (strstr(info->vendor, vendors[i].has) != NULL)
            ckv_library_copy(info->vendor, sizeof info->vendor, vendors[i].vendor);
    if (is_pocl(loaded.devices[index].platform))
        ckv_library_copy(info->vendor, sizeof info->vendor, "pocl");
    device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    device_text(id, CL_DRIVER_VERSION, driver, sizeof driver);
    ckv_library_say(info->driver, sizeof info->driver, "%.60s; %.60s", driver, version);
    info->integrated = device_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY, 0) == CL_TRUE;
    info->is_cpu = (device_number(id, CL_DEVICE_TYPE, 0) & CL_DEVICE_TYPE_CPU) != 0;
    info->compute_units = clamp(device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1));
    info->lanes = clamp(device_number(id, CL_DEVICE_WARP_SIZE_NV, device_number(id, CL_DEVICE_WAVEFRONT_WIDTH_AMD, 1)));
    info->max_group = clamp(device_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1));
    info->local_bytes = device_number(id, CL_DEVICE_LOCAL_MEM_SIZE, 0);
    info->memory_bytes = device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
    return CKV_GPU_OK;
}

/* An engine's context serves if the device is one of its. */
static int has_device(cl_context context, cl_device_id id)
{
    cl_device_id ids[DEVICES];
    size_t size = 0;
    if (loaded.cl.clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, &size) != CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < size / sizeof ids[0]; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

static int open_context(ckv_gpu_device *device, const cl_platform_id platform, void *native)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_int code = CL_SUCCESS;
    if (native != NULL) {
        if (!has_device(native, device->id))
            return CL_INVALID_CONTEXT;
        device->context = native;
        code = loaded.cl.clRetainContext(native);
    } else {
        device->context = loaded.cl.clCreateContext(properties, 1, &device->id, NULL, NULL, &code);
    }
    if (code != CL_SUCCESS)
        return code;
    device->queue = loaded.cl.clCreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code != CL_SUCCESS)
        loaded.cl.clReleaseContext(device->context);
    return code;
}

static int open_device(int32_t index, void *native, ckv_gpu_device **out)
{
    ckv_gpu_device *device;
    int code;
    if (ckv_library_forked(&loaded.library) && loaded.count > 0)
        return CKV_GPU_FORKED;
    if (index < 0 || index >= device_count())
        return CL_INVALID_DEVICE;
    device = calloc(1, sizeof *device);
    if (device == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    device->id = loaded.devices[index].id;
    device->is_pocl = is_pocl(loaded.devices[index].platform);
    code = open_context(device, loaded.devices[index].platform, native);
    if (code != CL_SUCCESS) {
        free(device);
        return code;
    }
    pthread_mutex_init(&device->launching, NULL);
    *out = device;
    return CKV_GPU_OK;
}

static void close_device(ckv_gpu_device *device)
{
    if (ckv_library_forked(&loaded.library))
        return;
    loaded.cl.clFinish(device->queue);
    loaded.cl.clReleaseCommandQueue(device->queue);
    loaded.cl.clReleaseContext(device->context);
    pthread_mutex_destroy(&device->launching);
    free(device);
}

static int enter(ckv_gpu_device *device, void **saved)
{
    (void)device;
    *saved = NULL;
    return ckv_library_forked(&loaded.library) ? CKV_GPU_FORKED : CKV_GPU_OK;
}

static void leave(ckv_gpu_device *device, void *saved)
{
    (void)device;
    (void)saved;
}

/* ------------------------------------------------------------------ commands */

static int allocate(ckv_gpu_device *device, size_t bytes, ckv_gpu_memory *memory)
{
    cl_int code;
    memory->offset = 0;
    memory->base = loaded.cl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes == 0 ? 1 : bytes, NULL, &code);
    return code;
}

static void release(ckv_gpu_device *device, ckv_gpu_memory memory)
{
    (void)device;
    if (memory.base != NULL && !ckv_library_forked(&loaded.library))
        loaded.cl.clReleaseMemObject(memory.base);
}

static cl_command_queue queue_of(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    return stream == NULL ? device->queue : stream;
}

/* Commands of an out-of-order queue are ordered by a barrier before and after each. */
static int fence(ckv_gpu_device *device, cl_command_queue queue)
{
    cl_command_queue_properties properties = 0;
    cl_int code;
    if (queue == device->queue)
        return CL_SUCCESS;
    code = loaded.cl.clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code == CL_SUCCESS && (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
        code = loaded.cl.clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL);
    return code;
}

static int upload(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory to, const void *from, size_t bytes)
{
    cl_command_queue queue = queue_of(device, stream);
    cl_int code = bytes == 0 ? CL_SUCCESS : fence(device, queue);
    if (bytes == 0 || code != CL_SUCCESS)
        return code;
    code = loaded.cl.clEnqueueWriteBuffer(queue, to.base, CL_FALSE, (size_t)to.offset, bytes, from, 0, NULL, NULL);
    return code == CL_SUCCESS ? fence(device, queue) : code;
}

static int download(ckv_gpu_device *device, ckv_gpu_stream stream, void *to, ckv_gpu_memory from, size_t bytes)
{
    cl_command_queue queue = queue_of(device, stream);
    cl_int code = bytes == 0 ? CL_SUCCESS : fence(device, queue);
    if (bytes == 0 || code != CL_SUCCESS)
        return code;
    code = loaded.cl.clEnqueueReadBuffer(queue, from.base, CL_FALSE, (size_t)from.offset, bytes, to, 0, NULL, NULL);
    return code == CL_SUCCESS ? fence(device, queue) : code;
}

static int clear(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory memory, size_t bytes)
{
    static const unsigned char zero = 0;
    cl_command_queue queue = queue_of(device, stream);
    cl_int code = bytes == 0 ? CL_SUCCESS : fence(device, queue);
    if (bytes == 0 || code != CL_SUCCESS)
        return code;
    code = loaded.cl.clEnqueueFillBuffer(queue, memory.base, &zero, 1, (size_t)memory.offset, bytes, 0, NULL, NULL);
    return code == CL_SUCCESS ? fence(device, queue) : code;
}

static int wait(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    return loaded.cl.clFinish(queue_of(device, stream));
}

static int create_stream(ckv_gpu_device *device, ckv_gpu_stream *stream)
{
    cl_int code;
    *stream = loaded.cl.clCreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
    return code;
}

static void release_stream(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    (void)device;
    if (stream == NULL || ckv_library_forked(&loaded.library))
        return;
    loaded.cl.clFinish(stream);
    loaded.cl.clReleaseCommandQueue(stream);
}

/* OpenCL has no memory that it promises to copy from faster: a write that does not block
 * is all there is to ask for. */
static int allocate_host(ckv_gpu_device *device, size_t bytes, void **memory)
{
    (void)device;
    *memory = malloc(bytes);
    return *memory == NULL ? CL_OUT_OF_HOST_MEMORY : CKV_GPU_OK;
}

static void release_host(ckv_gpu_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static int set_arguments(const ckv_gpu_launch *launch)
{
    for (int i = 0; i < launch->count; i++) {
        const ckv_gpu_argument *argument = &launch->arguments[i];
        cl_mem buffer = argument->size == 0 ? (cl_mem)(uintptr_t)argument->value : NULL;
        cl_int code =
            loaded.cl.clSetKernelArg(launch->kernel, (cl_uint)i, argument->size == 0 ? sizeof buffer : argument->size,
                                     argument->size == 0 ? (const void *)&buffer : argument->value);
        if (code != CL_SUCCESS)
            return code;
    }
    return CL_SUCCESS;
}

static int launch_kernel(ckv_gpu_device *device, ckv_gpu_stream stream, const ckv_gpu_launch *launch)
{
    cl_command_queue queue = queue_of(device, stream);
    size_t global[3], local[3];
    cl_int code = fence(device, queue);
    if (code != CL_SUCCESS)
        return code;
    for (int i = 0; i < 3; i++) {
        local[i] = launch->group_size[i];
        global[i] = local[i] * launch->groups[i];
    }
    pthread_mutex_lock(&device->launching);
    code = set_arguments(launch);
    if (code == CL_SUCCESS)
        code = loaded.cl.clEnqueueNDRangeKernel(queue, launch->kernel, 3, NULL, global, local, 0, NULL, NULL);
    pthread_mutex_unlock(&device->launching);
    return code == CL_SUCCESS ? fence(device, queue) : code;
}

/* ------------------------------------------------------------------ events */

/* An event is of no command yet: OpenCL makes one with the command. */
static int create_event(ckv_gpu_device *device, ckv_gpu_event *event)
{
    (void)device;
    *event = calloc(1, sizeof(marker));
    return *event == NULL ? CL_OUT_OF_HOST_MEMORY : CKV_GPU_OK;
}

static void release_event(ckv_gpu_device *device, ckv_gpu_event event)
{
    marker *mark = event;
    (void)device;
    if (mark != NULL && mark->event != NULL && !ckv_library_forked(&loaded.library))
        loaded.cl.clReleaseEvent(mark->event);
    free(mark);
}

static int record(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event)
{
    marker *mark = event;
    cl_event made = NULL;
    cl_int code = loaded.cl.clEnqueueMarkerWithWaitList(queue_of(device, stream), 0, NULL, &made);
    if (code != CL_SUCCESS)
        return code;
    if (mark->event != NULL)
        loaded.cl.clReleaseEvent(mark->event);
    mark->event = made;
    /* Another queue may only wait for what was handed to the device. */
    return loaded.cl.clFlush(queue_of(device, stream));
}

static int follow(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event)
{
    const marker *mark = event;
    if (mark->event == NULL)
        return CL_INVALID_EVENT;
    return loaded.cl.clEnqueueBarrierWithWaitList(queue_of(device, stream), 1, &mark->event, NULL);
}

static int wait_event(ckv_gpu_device *device, ckv_gpu_event event)
{
    const marker *mark = event;
    (void)device;
    return mark->event == NULL ? CL_INVALID_EVENT : loaded.cl.clWaitForEvents(1, &mark->event);
}

static int elapsed(ckv_gpu_device *device, ckv_gpu_event start, ckv_gpu_event end, float *milliseconds)
{
    const cl_event events[2] = {((const marker *)start)->event, ((const marker *)end)->event};
    cl_ulong times[2] = {0, 0};
    cl_int code = CL_INVALID_EVENT;
    (void)device;
    if (events[0] != NULL && events[1] != NULL)
        code = loaded.cl.clWaitForEvents(2, events);
    for (int i = 0; i < 2 && code == CL_SUCCESS; i++)
        code = loaded.cl.clGetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_END, sizeof times[i], &times[i], NULL);
    if (code == CL_SUCCESS)
        *milliseconds = (float)((double)(int64_t)(times[1] - times[0]) * 1e-6);
    return code;
}

static int owns(ckv_gpu_device *device, const void *base)
{
    cl_context context = NULL;
    return base != NULL &&
           loaded.cl.clGetMemObjectInfo((cl_mem)(uintptr_t)base, CL_MEM_CONTEXT, sizeof context, &context, NULL) ==
               CL_SUCCESS &&
           context == device->context;
}

/* A queue of the device, in the context that its memory and code are in. */
static int takes(ckv_gpu_device *device, ckv_gpu_stream stream)
{
    cl_context context = NULL;
    cl_device_id id = NULL;
    return stream == NULL ||
           (loaded.cl.clGetCommandQueueInfo(stream, CL_QUEUE_CONTEXT, sizeof context, &context, NULL) == CL_SUCCESS &&
            loaded.cl.clGetCommandQueueInfo(stream, CL_QUEUE_DEVICE, sizeof id, &id, NULL) == CL_SUCCESS &&
            context == device->context && id == device->id);
}

/* ------------------------------------------------------------------ code */

static void build_log(ckv_gpu_device *device, cl_program program, int code, char *log, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    if (loaded.cl.clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &length) == CL_SUCCESS)
        text = calloc(length + 1, 1);
    if (text != NULL)
        loaded.cl.clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, length, text, NULL);
    ckv_library_say(log, size, "clBuildProgram: %s (%d): %s", error(code), code, text == NULL ? "no log" : text);
    free(text);
}

/* The program's binary for this device, one of perhaps several of an engine's context. */
static void take_binary(ckv_gpu_device *device, cl_program program, void **built, size_t *built_size)
{
    cl_device_id ids[DEVICES];
    size_t sizes[DEVICES] = {0}, bytes = 0;
    unsigned char *binaries[DEVICES] = {NULL};
    if (loaded.cl.clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof ids, ids, &bytes) != CL_SUCCESS ||
        loaded.cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS)
        return;
    for (size_t i = 0; i < bytes / sizeof ids[0]; i++)
        if (ids[i] == device->id && sizes[i] > 0) {
            binaries[i] = malloc(sizes[i]);
            *built = binaries[i];
            *built_size = sizes[i];
            break;
        }
    if (*built != NULL &&
        loaded.cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, bytes, binaries, NULL) != CL_SUCCESS) {
        free(*built);
        *built = NULL;
    }
}

static int load_module(ckv_gpu_device *device, const ckv_gpu_image *image, const char *options, ckv_gpu_module **module,
                       void **built, size_t *built_size, char *log, size_t log_size)
{
    char all[1024];
    const char *text = image->data;
    const unsigned char *bytes = image->data;
    cl_program program;
    cl_int code;
    *built = NULL;
    *built_size = 0;
    ckv_library_say(all, sizeof all, "-cl-std=CL1.2 %s", options);
    program = image->is_source ? loaded.cl.clCreateProgramWithSource(device->context, 1, &text, &image->size, &code)
                               : loaded.cl.clCreateProgramWithBinary(device->context, 1, &device->id, &image->size,
                                                                     &bytes, NULL, &code);
    if (code != CL_SUCCESS) {
        ckv_library_say(log, log_size, "clCreateProgram: %s (%d)", error(code), (int)code);
        return code;
    }
    code = loaded.cl.clBuildProgram(program, 1, &device->id, all, NULL, NULL);
    if (code != CL_SUCCESS) {
        build_log(device, program, code, log, log_size);
        loaded.cl.clReleaseProgram(program);
        return code;
    }
    /* PoCL has a cache of its own.  A binary of its makes it compile each kernel for groups
     * of any size, where 3.1 crashes on some that it runs well. */
    if (image->is_source && !device->is_pocl)
        take_binary(device, program, built, built_size);
    *module = (ckv_gpu_module *)program;
    return CKV_GPU_OK;
}

static void unload_module(ckv_gpu_device *device, ckv_gpu_module *module)
{
    (void)device;
    if (module != NULL && !ckv_library_forked(&loaded.library))
        loaded.cl.clReleaseProgram((cl_program)module);
}

static int find_kernel(ckv_gpu_device *device, ckv_gpu_module *module, const char *name, ckv_gpu_kernel *kernel)
{
    cl_int code;
    (void)device;
    *kernel = loaded.cl.clCreateKernel((cl_program)module, name, &code);
    return code;
}

static void release_kernel(ckv_gpu_device *device, ckv_gpu_kernel kernel)
{
    (void)device;
    if (kernel != NULL && !ckv_library_forked(&loaded.library))
        loaded.cl.clReleaseKernel(kernel);
}

static const ckv_gpu_embedded embedded = {ckv_gpu_text_opencl, &ckv_gpu_text_opencl_size, NULL};

const ckv_gpu_driver ckv_gpu_opencl = {
    .name = "opencl",
    .target = CKV_GPU_OPENCL,
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
    .takes = takes,
};
