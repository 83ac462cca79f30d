/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drivers' operations on each device that this machine has, with a kernel of the
 * test's own and one of the library's.  CKV_TEST_DRIVER=opencl takes one driver alone.
 */
#define _POSIX_C_SOURCE 200809L
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/gpu/code.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/route.h"

static const ckv_gpu_driver *const drivers[] = {&ckv_gpu_cuda, &ckv_gpu_hip, &ckv_gpu_opencl};
#define DRIVERS 3

/* out[i] = in[i] * scale + i, a group of 64 along dimension 0, rows along dimension 1. */
#define BODY                                                                                                           \
    "i = (unsigned)(X * 64 + L) + (unsigned)Y * p.width;\n"                                                            \
    "if (X * 64 + L < (int)p.width) out[i] = (in ? in[i] : 7u) * p.scale + SHIFT;\n}\n"
#define PARAMS                                                                                                         \
    "#ifndef SHIFT\n#define SHIFT 0u\n#endif\n"                                                                        \
    "typedef struct test_params { unsigned width, scale; unsigned rest[30]; } test_params;\n"
static const char text_cuda[] =
    PARAMS "extern \"C\" __global__ void test_kernel(const unsigned *in, unsigned *out, const test_params p) {\n"
           "int X = (int)blockIdx.x, Y = (int)blockIdx.y, L = (int)threadIdx.x; unsigned " BODY;
static const char text_hip[] = PARAMS
    "extern \"C\" __attribute__((global)) void test_kernel(const unsigned *in, unsigned *out, const test_params p) {\n"
    "int X = (int)__builtin_amdgcn_workgroup_id_x(), Y = (int)__builtin_amdgcn_workgroup_id_y(), "
    "L = (int)__builtin_amdgcn_workitem_id_x(); unsigned " BODY;
static const char text_opencl[] =
    PARAMS "__kernel void test_kernel(__global const uint *in, __global uint *out, const test_params p) {\n"
           "int X = (int)get_group_id(0), Y = (int)get_group_id(1), L = (int)get_local_id(0); uint " BODY;

typedef struct test_params {
    uint32_t width, scale, rest[30];
} test_params;

static ckv_gpu_image source_of(const ckv_gpu_driver *driver)
{
    switch (driver->target) {
    case CKV_GPU_CUDA:
        return (ckv_gpu_image){text_cuda, sizeof text_cuda - 1, 1};
    case CKV_GPU_HIP:
        return (ckv_gpu_image){text_hip, sizeof text_hip - 1, 1};
    case CKV_GPU_OPENCL:
        break;
    }
    return (ckv_gpu_image){text_opencl, sizeof text_opencl - 1, 1};
}

/* Every device of every driver that is there; the test is skipped when there is none. */
typedef struct device_under_test {
    const ckv_gpu_driver *driver;
    ckv_gpu_device *device;
    ckv_gpu_device_info info;
    void *saved;
} device_under_test;

static int each_device(device_under_test *list, int room)
{
    const char *only = getenv("CKV_TEST_DRIVER");
    int count = 0;
    for (int d = 0; d < DRIVERS; d++) {
        if ((only != NULL && strcmp(only, drivers[d]->name) != 0) || drivers[d]->load() != NULL)
            continue;
        for (int32_t i = 0; i < drivers[d]->device_count() && count < room; i++) {
            device_under_test *t = &list[count++];
            t->driver = drivers[d];
            assert_int_equal(drivers[d]->describe(i, &t->info), CKV_GPU_OK);
            assert_int_equal(drivers[d]->open(i, NULL, &t->device), CKV_GPU_OK);
            assert_int_equal(drivers[d]->enter(t->device, &t->saved), CKV_GPU_OK);
        }
    }
    return count;
}

static void finish(device_under_test *t)
{
    t->driver->leave(t->device, t->saved);
    t->driver->close(t->device);
}

#define FOR_EACH_DEVICE(t)                                                                                             \
    device_under_test list_[16], *t = list_;                                                                           \
    int count_ = each_device(list_, 16);                                                                               \
    if (count_ == 0)                                                                                                   \
        skip_because("no GPU or OpenCL device");                                                                       \
    for (; t < list_ + count_; finish(t), t++)

/* PoCL's are not taken. */
static int keeps_images(const device_under_test *t)
{
    return strcmp(t->info.vendor, "pocl") != 0;
}

/* A machine with a driver alone has no compiler: what builds source is left out there. */
static int builds_source(const device_under_test *t)
{
    const ckv_gpu_image image = source_of(t->driver);
    ckv_gpu_module *module = NULL;
    char log[2000] = "";
    void *built;
    size_t size;
    if (t->driver->load_module(t->device, &image, "", &module, &built, &size, log, sizeof log) == CKV_GPU_OK) {
        free(built);
        t->driver->unload_module(t->device, module);
        return 1;
    }
    if (strstr(log, "libnvrtc") == NULL && strstr(log, "libhiprtc") == NULL)
        fail_msg("%s: %s", t->driver->name, log);
    print_message("# %s %s: left out: %s\n", t->driver->name, t->info.name, log);
    return 0;
}

static ckv_gpu_module *load_test(const device_under_test *t, const char *options, ckv_gpu_kernel *kernel)
{
    const ckv_gpu_image image = source_of(t->driver);
    ckv_gpu_module *module = NULL;
    char log[2000] = "";
    void *built;
    size_t size;
    if (t->driver->load_module(t->device, &image, options, &module, &built, &size, log, sizeof log) != CKV_GPU_OK)
        fail_msg("%s: %s", t->driver->name, log);
    assert_int_equal(built != NULL, keeps_images(t));
    assert_int_equal(size > 0, keeps_images(t));
    free(built);
    assert_int_equal(t->driver->find_kernel(t->device, module, "test_kernel", kernel), CKV_GPU_OK);
    return module;
}

static int launch_test(const device_under_test *t, ckv_gpu_kernel kernel, ckv_gpu_memory in, ckv_gpu_memory out,
                       uint32_t width, uint32_t rows, uint32_t scale)
{
    test_params params = {.width = width, .scale = scale};
    const ckv_gpu_argument arguments[] = {{in.base, 0}, {out.base, 0}, {&params, sizeof params}};
    const ckv_gpu_launch launch = {kernel, {(width + 63) / 64, rows, 1}, {64, 1, 1}, arguments, 3};
    return t->driver->launch(t->device, NULL, &launch);
}

static void test_devices(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(t)
    {
        ckv_gpu_device_info again;
        assert_true(t->info.name[0] != '\0' && t->info.vendor[0] != '\0' && t->info.driver[0] != '\0');
        assert_true((t->info.arch[0] != '\0') == (t->driver->target != CKV_GPU_OPENCL));
        assert_true(t->info.compute_units >= 1 && t->info.lanes >= 1 && t->info.max_group >= 64);
        assert_true(t->info.local_bytes >= 16384 && t->info.memory_bytes >= (1 << 24));
        assert_true(t->info.is_cpu == 0 || t->driver->target == CKV_GPU_OPENCL);
        assert_int_not_equal(t->driver->describe(-1, &again), CKV_GPU_OK);
        assert_int_not_equal(t->driver->describe(t->driver->device_count(), &again), CKV_GPU_OK);
    }
}

static void test_open_errors(void **state)
{
    (void)state;
    int used = 0;
    for (int d = 0; d < DRIVERS; d++) {
        const ckv_gpu_driver *driver = drivers[d];
        ckv_gpu_device *device = NULL;
        const char *reason = driver->load();
        assert_ptr_equal(driver->load(), reason);
        if (reason != NULL) {
            assert_true(reason[0] != '\0');
            assert_int_equal(driver->device_count(), 0);
        }
        used += reason == NULL;
        assert_int_not_equal(driver->open(-1, NULL, &device), CKV_GPU_OK);
        assert_int_not_equal(driver->open(driver->device_count(), NULL, &device), CKV_GPU_OK);
        assert_null(device);
        assert_string_equal(driver->error(CKV_GPU_FORKED), "loaded before this process was forked");
        assert_true(driver->error(-123456)[0] != '\0');
    }
    if (used > 0 && ckv_gpu_opencl.load() == NULL) {
        assert_string_equal(ckv_gpu_opencl.error(-11), "CL_BUILD_PROGRAM_FAILURE");
        assert_string_equal(ckv_gpu_opencl.error(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    }
}

static void test_memory(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(t)
    {
        enum { SIZE = 100003 };
        static unsigned char data[SIZE], back[SIZE];
        ckv_gpu_memory memory, empty;
        for (int i = 0; i < SIZE; i++)
            data[i] = (unsigned char)(i * 7 + i / 256);
        assert_int_equal(t->driver->allocate(t->device, SIZE, &memory), CKV_GPU_OK);
        assert_int_equal(t->driver->allocate(t->device, 0, &empty), CKV_GPU_OK);
        assert_int_equal(memory.offset, 0);
        assert_int_equal(t->driver->upload(t->device, NULL, memory, data, SIZE), CKV_GPU_OK);
        /* A part in the middle, at odd places, becomes 0. */
        assert_int_equal(t->driver->clear(t->device, NULL, (ckv_gpu_memory){memory.base, 1001}, 30003), CKV_GPU_OK);
        assert_int_equal(t->driver->upload(t->device, NULL, (ckv_gpu_memory){memory.base, 7}, data, 13), CKV_GPU_OK);
        assert_int_equal(t->driver->upload(t->device, NULL, memory, data, 0), CKV_GPU_OK);
        assert_int_equal(t->driver->clear(t->device, NULL, memory, 0), CKV_GPU_OK);
        assert_int_equal(t->driver->download(t->device, NULL, back, memory, 0), CKV_GPU_OK);
        assert_int_equal(t->driver->download(t->device, NULL, back, memory, SIZE), CKV_GPU_OK);
        assert_int_equal(t->driver->wait(t->device, NULL), CKV_GPU_OK);
        for (int i = 0; i < SIZE; i++) {
            unsigned char wanted = i >= 1001 && i < 31004 ? 0 : i >= 7 && i < 20 ? data[i - 7] : data[i];
            if (back[i] != wanted)
                fail_msg("%s: byte %d is %d, wanted %d", t->driver->name, i, back[i], wanted);
        }
        memset(back, 0x55, 16);
        assert_int_equal(t->driver->download(t->device, NULL, back, (ckv_gpu_memory){memory.base, 5}, 11), CKV_GPU_OK);
        assert_int_equal(t->driver->wait(t->device, NULL), CKV_GPU_OK);
        assert_memory_equal(back + 2, data, 9);
        assert_int_equal(back[11], 0x55);
        assert_int_equal(t->driver->owns(t->device, memory.base), 1);
        assert_int_equal(t->driver->owns(t->device, NULL), 0);
        if (t->driver->target != CKV_GPU_OPENCL)
            assert_int_equal(t->driver->owns(t->device, data), 0);
        t->driver->release(t->device, memory);
        t->driver->release(t->device, empty);
        t->driver->release(t->device, (ckv_gpu_memory){NULL, 0});
    }
}

/* Memory of another OpenCL context is not ours. */
static void test_foreign_memory(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(t)
    {
        ckv_gpu_device *other;
        ckv_gpu_memory memory;
        if (t->driver->target != CKV_GPU_OPENCL)
            continue;
        assert_int_equal(t->driver->open(0, NULL, &other), CKV_GPU_OK);
        assert_int_equal(t->driver->allocate(other, 16, &memory), CKV_GPU_OK);
        assert_int_equal(t->driver->owns(other, memory.base), 1);
        assert_int_equal(t->driver->owns(t->device, memory.base), 0);
        t->driver->release(other, memory);
        t->driver->close(other);
    }
}

static void test_launch(void **state)
{
    (void)state;
    enum { WIDTH = 1000, ROWS = 3 };
    FOR_EACH_DEVICE(t)
    {
        if (!builds_source(t))
            continue;
        static uint32_t in[WIDTH * ROWS], out[WIDTH * ROWS];
        ckv_gpu_memory from, to;
        ckv_gpu_kernel kernel, shifted, absent = NULL;
        ckv_gpu_module *module = load_test(t, "", &kernel), *other = load_test(t, "-DSHIFT=9u -DUNUSED=1", &shifted);
        assert_int_not_equal(t->driver->find_kernel(t->device, module, "no_such_kernel", &absent), CKV_GPU_OK);
        assert_null(absent);
        for (uint32_t i = 0; i < WIDTH * ROWS; i++)
            in[i] = i * 2654435761u;
        assert_int_equal(t->driver->allocate(t->device, sizeof in, &from), CKV_GPU_OK);
        assert_int_equal(t->driver->allocate(t->device, sizeof out, &to), CKV_GPU_OK);
        assert_int_equal(t->driver->upload(t->device, NULL, from, in, sizeof in), CKV_GPU_OK);
        assert_int_equal(t->driver->clear(t->device, NULL, to, sizeof out), CKV_GPU_OK);
        assert_int_equal(launch_test(t, kernel, from, to, WIDTH, ROWS, 3), CKV_GPU_OK);
        assert_int_equal(t->driver->download(t->device, NULL, out, to, sizeof out), CKV_GPU_OK);
        assert_int_equal(t->driver->wait(t->device, NULL), CKV_GPU_OK);
        for (uint32_t i = 0; i < WIDTH * ROWS; i++)
            assert_int_equal(out[i], in[i] * 3);
        /* Another module's kernel of that name, and a buffer that is NULL. */
        assert_int_equal(launch_test(t, shifted, (ckv_gpu_memory){NULL, 0}, to, WIDTH, ROWS, 5), CKV_GPU_OK);
        assert_int_equal(t->driver->download(t->device, NULL, out, to, sizeof out), CKV_GPU_OK);
        assert_int_equal(t->driver->wait(t->device, NULL), CKV_GPU_OK);
        for (uint32_t i = 0; i < WIDTH * ROWS; i++)
            assert_int_equal(out[i], 7 * 5 + 9);
        t->driver->release(t->device, from);
        t->driver->release(t->device, to);
        t->driver->release_kernel(t->device, kernel);
        t->driver->release_kernel(t->device, shifted);
        t->driver->release_kernel(t->device, NULL);
        t->driver->unload_module(t->device, module);
        t->driver->unload_module(t->device, other);
        t->driver->unload_module(t->device, NULL);
    }
}

/* What was built can be had back and loaded as it is. */
static void test_built_image(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(t)
    {
        if (!builds_source(t))
            continue;
        ckv_gpu_image image = source_of(t->driver);
        ckv_gpu_module *module;
        ckv_gpu_kernel kernel;
        char log[2000] = "";
        void *built, *again;
        size_t size, again_size;
        assert_int_equal(t->driver->load_module(t->device, &image, "", &module, &built, &size, log, sizeof log),
                         CKV_GPU_OK);
        t->driver->unload_module(t->device, module);
        if (!keeps_images(t)) {
            assert_null(built);
            continue;
        }
        image = (ckv_gpu_image){built, size, 0};
        assert_int_equal(t->driver->load_module(t->device, &image, "", &module, &again, &again_size, log, sizeof log),
                         CKV_GPU_OK);
        assert_null(again);
        assert_int_equal(t->driver->find_kernel(t->device, module, "test_kernel", &kernel), CKV_GPU_OK);
        t->driver->release_kernel(t->device, kernel);
        t->driver->unload_module(t->device, module);
        free(built);
    }
}

static void test_bad_source(void **state)
{
    (void)state;
    static const char bad[] = "this is no kernel, and says so in line 1\n";
    static const char junk[64] = "neither is this an image";
    FOR_EACH_DEVICE(t)
    {
        if (!builds_source(t))
            continue;
        const ckv_gpu_image images[] = {{bad, sizeof bad - 1, 1}, {junk, sizeof junk, 0}};
        for (int i = 0; i < 2; i++)
            for (size_t room = 20; room <= 4000; room += 3980) {
                char log[4001];
                ckv_gpu_module *module = NULL;
                void *built = NULL;
                size_t size = 0;
                memset(log, 0x77, sizeof log);
                assert_int_not_equal(
                    t->driver->load_module(t->device, &images[i], "", &module, &built, &size, log, room), CKV_GPU_OK);
                assert_null(module);
                assert_null(built);
                assert_true(log[0] != '\0' && strlen(log) < room);
                assert_int_equal(log[room], 0x77);
                if (i == 0 && room == 4000)
                    assert_non_null(strstr(log, "error"));
            }
    }
}

static void test_events(void **state)
{
    (void)state;
    enum { SIZE = 1 << 22 };
    FOR_EACH_DEVICE(t)
    {
        unsigned char *data = calloc(SIZE, 1);
        ckv_gpu_memory memory;
        ckv_gpu_event start, end;
        float milliseconds = -1.0f, backwards = 1.0f;
        assert_int_equal(t->driver->allocate(t->device, SIZE, &memory), CKV_GPU_OK);
        assert_int_equal(t->driver->create_event(t->device, &start), CKV_GPU_OK);
        assert_int_equal(t->driver->create_event(t->device, &end), CKV_GPU_OK);
        for (int again = 0; again < 3; again++) {
            assert_int_equal(t->driver->record(t->device, NULL, start), CKV_GPU_OK);
            for (int i = 0; i < 4; i++)
                assert_int_equal(t->driver->upload(t->device, NULL, memory, data, SIZE), CKV_GPU_OK);
            assert_int_equal(t->driver->record(t->device, NULL, end), CKV_GPU_OK);
            assert_int_equal(t->driver->elapsed(t->device, start, end, &milliseconds), CKV_GPU_OK);
            assert_true(milliseconds > 0.0f && milliseconds < 60000.0f);
        }
        assert_int_equal(t->driver->elapsed(t->device, end, start, &backwards), CKV_GPU_OK);
        assert_true(backwards < 0.0f);
        t->driver->release_event(t->device, start);
        assert_int_equal(t->driver->create_event(t->device, &start), CKV_GPU_OK);
        assert_int_not_equal(t->driver->elapsed(t->device, start, end, &milliseconds), CKV_GPU_OK);
        t->driver->release_event(t->device, start);
        t->driver->release_event(t->device, end);
        t->driver->release(t->device, memory);
        free(data);
    }
}

/* A stream waits for another's event, in chains and again: the bytes arrive in order. */
static void test_streams(void **state)
{
    (void)state;
    enum { SIZE = 3 << 20, ROUNDS = 8 };
    FOR_EACH_DEVICE(t)
    {
        ckv_gpu_memory memory;
        ckv_gpu_stream streams[2];
        ckv_gpu_event events[2];
        void *host[2];
        assert_int_equal(t->driver->allocate(t->device, SIZE, &memory), CKV_GPU_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(t->driver->create_stream(t->device, &streams[i]), CKV_GPU_OK);
            assert_int_equal(t->driver->create_event(t->device, &events[i]), CKV_GPU_OK);
            assert_int_equal(t->driver->allocate_host(t->device, SIZE, &host[i]), CKV_GPU_OK);
        }
        assert_ptr_not_equal(streams[0], streams[1]);
        for (int round = 0; round < ROUNDS; round++) {
            memset(host[0], round + 1, SIZE);
            assert_int_equal(t->driver->upload(t->device, streams[0], memory, host[0], SIZE), CKV_GPU_OK);
            assert_int_equal(t->driver->record(t->device, streams[0], events[0]), CKV_GPU_OK);
            assert_int_equal(t->driver->follow(t->device, streams[1], events[0]), CKV_GPU_OK);
            assert_int_equal(t->driver->download(t->device, streams[1], host[1], memory, SIZE), CKV_GPU_OK);
            assert_int_equal(t->driver->record(t->device, streams[1], events[1]), CKV_GPU_OK);
            assert_int_equal(t->driver->follow(t->device, streams[0], events[1]), CKV_GPU_OK);
            assert_int_equal(t->driver->wait_event(t->device, events[0]), CKV_GPU_OK);
            assert_int_equal(t->driver->wait_event(t->device, events[1]), CKV_GPU_OK);
            for (int i = 0; i < SIZE; i += 4093)
                assert_int_equal(((unsigned char *)host[1])[i], round + 1);
        }
        for (int i = 0; i < 2; i++) {
            t->driver->release_stream(t->device, streams[i]);
            t->driver->release_event(t->device, events[i]);
            t->driver->release_host(t->device, host[i]);
        }
        t->driver->release_stream(t->device, NULL);
        t->driver->release_host(t->device, NULL);
        t->driver->release(t->device, memory);
    }
}

/* Threads that share a device and a kernel, each with arguments of its own. */
typedef struct worker {
    const device_under_test *t;
    ckv_gpu_kernel kernel;
    uint32_t scale;
    int wrong;
} worker;

static void *work(void *argument)
{
    enum { WIDTH = 64, ROUNDS = 200 };
    worker *w = argument;
    const ckv_gpu_driver *driver = w->t->driver;
    ckv_gpu_memory from, to;
    uint32_t in[WIDTH], out[WIDTH];
    void *saved;
    w->wrong = driver->enter(w->t->device, &saved) != CKV_GPU_OK;
    w->wrong |= driver->allocate(w->t->device, sizeof in, &from) != CKV_GPU_OK;
    w->wrong |= driver->allocate(w->t->device, sizeof out, &to) != CKV_GPU_OK;
    for (uint32_t round = 0; round < ROUNDS && !w->wrong; round++) {
        for (uint32_t i = 0; i < WIDTH; i++)
            in[i] = round * 1000 + i;
        w->wrong |= driver->upload(w->t->device, NULL, from, in, sizeof in) != CKV_GPU_OK;
        w->wrong |= launch_test(w->t, w->kernel, from, to, WIDTH, 1, w->scale + round) != CKV_GPU_OK;
        w->wrong |= driver->download(w->t->device, NULL, out, to, sizeof out) != CKV_GPU_OK;
        w->wrong |= driver->wait(w->t->device, NULL) != CKV_GPU_OK;
        for (uint32_t i = 0; i < WIDTH; i++)
            w->wrong |= out[i] != in[i] * (w->scale + round);
    }
    driver->release(w->t->device, from);
    driver->release(w->t->device, to);
    driver->leave(w->t->device, saved);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(t)
    {
        if (!builds_source(t))
            continue;
        enum { THREADS = 4 };
        ckv_gpu_kernel kernel;
        ckv_gpu_module *module = load_test(t, "", &kernel);
        worker workers[THREADS];
        pthread_t threads[THREADS];
        for (uint32_t i = 0; i < THREADS; i++) {
            workers[i] = (worker){t, kernel, 1000003 * i + 1, 0};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(workers[i].wrong, 0);
        }
        t->driver->release_kernel(t->device, kernel);
        t->driver->unload_module(t->device, module);
    }
}

/* A child of the process that loaded the driver is told so, and nothing hangs. */
static void test_fork(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(t)
    {
        int status;
        pid_t child = fork();
        if (child == 0) {
            void *saved;
            ckv_gpu_memory none = {NULL, 0};
            int good = t->driver->load() != NULL && strstr(t->driver->load(), "fork") != NULL &&
                       t->driver->device_count() == 0 && t->driver->enter(t->device, &saved) == CKV_GPU_FORKED;
            alarm(20);
            t->driver->release(t->device, none);
            t->driver->close(t->device);
            _exit(good ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_null(t->driver->load());
    }
}

/* The library's own kernels, from their text and, a second time, from the cache. */
static void test_library_code(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int route;
    } kernels[] = {
#define CKV_KERNEL(name, buffers, group, route, local) {#name, CKV_GPU_##route},
#include "backends/gpu/kernels.def"
#undef CKV_KERNEL
    };
    char folder[] = "/tmp/ckv-test-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    setenv("CKV_KERNEL_CACHE", folder, 1);
    FOR_EACH_DEVICE(t)
    {
        for (int again = 0; again < 2; again++) {
            ckv_gpu_module *module;
            ckv_gpu_origin origin;
            ckv_gpu_kernel kernel;
            char log[2000] = "";
            if (ckv_gpu_load_code(t->driver, t->device, &t->info, "", &module, &origin, log, sizeof log) != CKV_GPU_OK)
                fail_msg("%s: %s", t->driver->name, log);
            if (t->driver->target == CKV_GPU_OPENCL)
                assert_int_equal(origin, again && keeps_images(t) ? CKV_GPU_FROM_CACHE : CKV_GPU_BUILT_NOW);
            print_message("# %s %s: origin %d\n", t->driver->name, t->info.name, (int)origin);
            for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
                if (kernels[i].route != CKV_GPU_ANY &&
                    !ckv_gpu_has_route(t->driver, &t->info, (ckv_gpu_route)kernels[i].route))
                    continue;
                assert_int_equal(t->driver->find_kernel(t->device, module, kernels[i].name, &kernel), CKV_GPU_OK);
                t->driver->release_kernel(t->device, kernel);
            }
            t->driver->unload_module(t->device, module);
        }
    }
    unsetenv("CKV_KERNEL_CACHE");
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_errors),    cmocka_unit_test(test_devices), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_foreign_memory), cmocka_unit_test(test_launch),  cmocka_unit_test(test_built_image),
        cmocka_unit_test(test_bad_source),     cmocka_unit_test(test_events),  cmocka_unit_test(test_streams),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_fork),    cmocka_unit_test(test_library_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
