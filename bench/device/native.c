/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the drivers' table lacks: a copy from device to device and, of CUDA, graphs.
 * CUDA and HIP name the calls differently and take the same arguments; OpenCL copies by
 * a kernel.  As an engine does, this works on a stream of its own.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

typedef uintptr_t address;
typedef int (*create_stream)(void **stream, unsigned flags);
typedef int (*on_stream)(void *stream);
typedef int (*copy_on_stream)(address to, address from, size_t bytes, void *stream);
typedef int (*begin_capture)(void *stream, int mode);
typedef int (*end_capture)(void *stream, void **graph);
typedef int (*count_nodes)(void *graph, void **nodes, size_t *count);
typedef int (*instantiate)(void **graph, void *from, unsigned long long flags);
typedef int (*launch_graph)(void *graph, void *stream);
typedef int (*on_graph)(void *graph);

struct native {
    const struct subject *subject;
    void *library, *stream, *graph;
    create_stream create;
    on_stream destroy, wait;
    copy_on_stream copy;
    begin_capture begin;
    end_capture end;
    count_nodes count;
    instantiate make;
    launch_graph launch;
    on_graph destroy_graph, destroy_made;

    ckv_gpu_memory block[2];
    size_t bytes;
    ckv_gpu_module *module; /* of OpenCL */
    ckv_gpu_kernel kernel;
};

/* The function under the name, by its bytes: ISO C has no cast from an object. */
static int find(struct native *native, const char *name, void *function)
{
    void *symbol = dlsym(native->library, name);
    memcpy(function, &symbol, sizeof symbol);
    if (symbol == NULL)
        fprintf(stderr, "ckv-device-bench: no %s in the driver's library\n", name);
    return symbol != NULL;
}

static int find_cuda(struct native *n)
{
    n->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return n->library != NULL && find(n, "cuStreamCreate", &n->create) && find(n, "cuStreamDestroy_v2", &n->destroy) &&
           find(n, "cuStreamSynchronize", &n->wait) && find(n, "cuMemcpyDtoDAsync_v2", &n->copy) &&
           find(n, "cuStreamBeginCapture_v2", &n->begin) && find(n, "cuStreamEndCapture", &n->end) &&
           find(n, "cuGraphGetNodes", &n->count) && find(n, "cuGraphInstantiateWithFlags", &n->make) &&
           find(n, "cuGraphLaunch", &n->launch) && find(n, "cuGraphDestroy", &n->destroy_graph) &&
           find(n, "cuGraphExecDestroy", &n->destroy_made);
}

static int find_hip(struct native *n)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && n->library == NULL; i++)
        n->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return n->library != NULL && find(n, "hipStreamCreateWithFlags", &n->create) &&
           find(n, "hipStreamDestroy", &n->destroy) && find(n, "hipStreamSynchronize", &n->wait) &&
           find(n, "hipMemcpyDtoDAsync", &n->copy);
}

#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING, hipStreamNonBlocking */

struct native *native_open(const struct subject *subject)
{
    ckv_gpu_target target = subject->gpu->driver->target;
    struct native *native = calloc(1, sizeof *native);
    int good = native != NULL, code = 0;
    if (native == NULL)
        return NULL;
    native->subject = subject;
    if (target != CKV_GPU_OPENCL)
        good = target == CKV_GPU_CUDA ? find_cuda(native) : find_hip(native);
    if (good && target != CKV_GPU_OPENCL)
        code = native->create(&native->stream, NON_BLOCKING);
    if (good && code == 0)
        return native;
    if (code != 0)
        failed(subject, "making a stream", code);
    else
        fprintf(stderr, "ckv-device-bench: the driver's library has no copy\n");
    native_close(native);
    return NULL;
}

void native_close(struct native *native)
{
    const ckv_gpu *gpu;
    if (native == NULL)
        return;
    gpu = native->subject->gpu;
    if (native->graph != NULL)
        native->destroy_made(native->graph);
    for (int i = 0; i < 2; i++)
        if (native->block[i].base != NULL)
            gpu->driver->release(gpu->device, native->block[i]);
    if (native->kernel != NULL)
        gpu->driver->release_kernel(gpu->device, native->kernel);
    if (native->module != NULL)
        gpu->driver->unload_module(gpu->device, native->module);
    if (native->stream != NULL)
        native->destroy(native->stream);
    free(native); /* the library stays: its devices are in use */
}

void *native_stream(const struct native *native)
{
    return native->stream;
}

/* ------------------------------------------------------------------ the copy */

#define GROUP 64
#define UNIT 16 /* bytes a work-item */

static const char copy_text[] = "__kernel void copy_units(__global const uint4 *from, __global uint4 *to)\n"
                                "{ to[get_global_id(0)] = from[get_global_id(0)]; }\n";

static int prepare_kernel(struct native *native)
{
    const ckv_gpu *gpu = native->subject->gpu;
    ckv_gpu_image image = {copy_text, sizeof copy_text - 1, 1};
    void *built = NULL;
    size_t size = 0;
    char log[400] = "";
    int code = gpu->driver->load_module(gpu->device, &image, "", &native->module, &built, &size, log, sizeof log);
    free(built);
    if (code == CKV_GPU_OK)
        code = gpu->driver->find_kernel(gpu->device, native->module, "copy_units", &native->kernel);
    if (code != CKV_GPU_OK)
        fprintf(stderr, "ckv-device-bench: %s\n", log);
    return code;
}

int native_prepare_copy(struct native *native, size_t bytes)
{
    const ckv_gpu *gpu = native->subject->gpu;
    int code = CKV_GPU_OK;
    native->bytes = bytes;
    for (int i = 0; i < 2 && code == CKV_GPU_OK; i++) {
        code = gpu->driver->allocate(gpu->device, bytes, &native->block[i]);
        if (code == CKV_GPU_OK)
            code = gpu->driver->clear(gpu->device, NULL, native->block[i], bytes);
    }
    if (code == CKV_GPU_OK)
        code = gpu->driver->wait(gpu->device, NULL);
    if (code == CKV_GPU_OK && native->library == NULL)
        code = prepare_kernel(native);
    return code == CKV_GPU_OK ? 1 : failed(native->subject, "preparing a copy", code);
}

int native_copy(void *argument)
{
    struct native *native = argument;
    const ckv_gpu *gpu = native->subject->gpu;
    int code;
    if (native->library != NULL) {
        code = native->copy((address)native->block[1].base, (address)native->block[0].base, native->bytes,
                            native->subject->run.stream);
    } else {
        ckv_gpu_argument arguments[2] = {{native->block[0].base, 0}, {native->block[1].base, 0}};
        ckv_gpu_launch launch = {.kernel = native->kernel,
                                 .groups = {(uint32_t)(native->bytes / (GROUP * UNIT)), 1, 1},
                                 .group_size = {GROUP, 1, 1},
                                 .arguments = arguments,
                                 .count = 2};
        code = gpu->driver->launch(gpu->device, NULL, &launch);
    }
    return code == 0 ? 1 : failed(native->subject, "copying on the device", code);
}

/* ------------------------------------------------------------------ graphs */

int native_has_graphs(const struct native *native)
{
    return native->begin != NULL;
}

int native_capture(struct native *native, call_function call, void *argument, size_t *nodes)
{
    void *graph = NULL;
    int code = native->begin(native->stream, 0), recorded; /* 0: of all modes the strictest */
    if (code != 0)
        return failed(native->subject, "starting a capture", code);
    recorded = call(argument);
    code = native->end(native->stream, &graph);
    if (code != 0 || !recorded)
        return recorded ? failed(native->subject, "capturing", code) : 0;
    code = native->count(graph, NULL, nodes);
    if (code == 0)
        code = native->make(&native->graph, graph, 0);
    native->destroy_graph(graph);
    return code == 0 ? 1 : failed(native->subject, "making a graph", code);
}

int native_replay(void *argument)
{
    struct native *native = argument;
    int code = native->launch(native->graph, native->stream);
    return code == 0 ? 1 : failed(native->subject, "replaying a graph", code);
}
