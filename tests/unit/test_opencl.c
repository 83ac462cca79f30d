/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine brings to the OpenCL backend: its cl_context, its queue in order or not,
 * tensors inside its buffers at odd offsets or in sub-buffers.  Results are the
 * reference's, and the engine's objects are as they were.
 */
#define _POSIX_C_SOURCE 200809L
#include "unit.h"

#include <stdlib.h>
#include <time.h>

#include "backends/gpu/library.h"
#include "backends/gpu/vendor/opencl.h"
#include "lib/backend.h"

#define OUT_OF_ORDER CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
#define REFERENCES 0x1080 /* CL_CONTEXT_REFERENCE_COUNT */
#define BASE_ALIGN 0x1019 /* CL_DEVICE_MEM_BASE_ADDR_ALIGN, in bits */
#define REGION 0x1220     /* CL_BUFFER_CREATE_TYPE_REGION */

static ckv_opencl_functions cl;
/* What the backend has no use for. */
static struct {
    cl_mem (*create_sub_buffer)(cl_mem memory, cl_mem_flags flags, unsigned kind, const void *region, cl_int *code);
    cl_event (*create_user_event)(cl_context context, cl_int *code);
    cl_int (*set_user_event)(cl_event event, cl_int status);
} more;
static cl_device_id device;
static cl_platform_id platform;
static const char *absent; /* why there is no device */

static const ckv_symbol symbols[] = {
#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) {#name, offsetof(ckv_opencl_functions, name), 0},
#define OPTIONAL(result, name, arguments) {#name, offsetof(ckv_opencl_functions, name), 1},
#include "backends/gpu/vendor/opencl.def"
#undef SCALAR
#undef HANDLE
#undef CONSTANT
#undef FUNCTION
#undef OPTIONAL
};

/* The device that the backend lists first, which on a machine with one is it. */
static const char *find_device(void)
{
    static const char *const names[] = {"libOpenCL.so.1", NULL};
    static const ckv_symbol others[] = {{"clCreateSubBuffer", offsetof(__typeof__(more), create_sub_buffer), 0},
                                        {"clCreateUserEvent", offsetof(__typeof__(more), create_user_event), 0},
                                        {"clSetUserEventStatus", offsetof(__typeof__(more), set_user_event), 0}};
    static char reason[256];
    cl_uint count = 0;
    if (ckv_backend_opencl.device_count() == 0)
        return ckv_backend_opencl.absence();
    if (ckv_backend_opencl.device_count() > 1)
        return "several OpenCL devices: which is the first is not known here";
    if (!ckv_library_load(names, symbols, sizeof symbols / sizeof symbols[0], &cl, reason, sizeof reason) ||
        !ckv_library_load(names, others, 3, &more, reason, sizeof reason))
        return reason;
    cl_platform_id platforms[16];
    if (cl.clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS)
        return "no platform";
    for (cl_uint i = 0; i < count && i < 16; i++) {
        platform = platforms[i];
        if (cl.clGetDeviceIDs(platform, ~(cl_device_type)0 >> 32, 1, &device, NULL) == CL_SUCCESS)
            return NULL;
    }
    return "no device";
}

/* What an engine has, and a problem in its memory. */
typedef struct engine {
    cl_context context;
    cl_command_queue queue;
    cl_mem memory[8];
    int count;
    size_t shift; /* of everything within its buffer */
    int parts;    /* 1: sub-buffers of one buffer, 0: buffers */
    test_problem p;
} engine;

static void make(test_problem *p, const char *backend)
{
    test_problem_init(p, 2, 2, 130, 6, 20, 12, 200);
    p->policy.budget = 30;
    p->policy.window = 4;
    p->options.backend = backend;
    p->dtype[TEST_VALUE] = CKV_BF16;
    p->layout[TEST_KEY] = TEST_ODD;
    p->layout[TEST_VALUE] = TEST_TRANSPOSED;
    test_problem_build(p);
    test_problem_randomize(p, 4);
}

static uint64_t expected(uint64_t *norms)
{
    test_problem p;
    make(&p, "ref");
    assert_ok(test_problem_open(&p));
    assert_ok(test_norm(&p));
    *norms = test_hash_norm(&p);
    assert_ok(test_evict(&p));
    const uint64_t hash = test_hash_selection(&p);
    test_problem_close(&p);
    return hash;
}

static cl_context new_context(void)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_int code;
    cl_context context = cl.clCreateContext(properties, 1, &device, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return context;
}

static cl_uint references(cl_context context)
{
    cl_uint count = 0;
    assert_int_equal(cl.clGetContextInfo(context, REFERENCES, sizeof count, &count, NULL), CL_SUCCESS);
    return count;
}

static void set_up(engine *e, cl_command_queue_properties properties, size_t shift, int parts)
{
    cl_int code;
    memset(e, 0, sizeof *e);
    e->shift = shift;
    e->parts = parts;
    e->context = new_context();
    e->queue = cl.clCreateCommandQueue(e->context, device, properties, &code);
    assert_int_equal(code, CL_SUCCESS);
    make(&e->p, "opencl");
    e->p.options.native_context = e->context;
    assert_ok(test_problem_open(&e->p));
}

/* The problem's handles go first: they hold the context too. */
static void tear_down(engine *e)
{
    test_problem_close(&e->p);
    cl.clFinish(e->queue);
    while (e->count > 0)
        cl.clReleaseMemObject(e->memory[--e->count]);
    cl.clReleaseCommandQueue(e->queue);
    /* PoCL's threads let go of what a command held after they said that it is done. */
    for (int i = 0; i < 2000 && references(e->context) > 1; i++)
        nanosleep(&(const struct timespec){0, 1000000}, NULL);
    assert_int_equal(references(e->context), 1);
    cl.clReleaseContext(e->context);
}

/* A buffer of the engine with these bytes `shift` bytes from its start, written on its queue
 * without waiting. */
static cl_mem put(engine *e, const void *data, size_t bytes)
{
    cl_uint align = 0;
    cl_int code;
    cl_mem whole, memory;
    assert_int_equal(cl.clGetDeviceInfo(device, BASE_ALIGN, sizeof align, &align, NULL), CL_SUCCESS);
    const size_t region[2] = {align / 8, e->shift + bytes + 1};
    whole = cl.clCreateBuffer(e->context, CL_MEM_READ_WRITE, region[0] + region[1], NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    memory = whole;
    if (e->parts) {
        memory = more.create_sub_buffer(whole, CL_MEM_READ_WRITE, REGION, region, &code);
        assert_int_equal(code, CL_SUCCESS);
        cl.clReleaseMemObject(whole); /* the part holds it */
    }
    e->memory[e->count++] = memory;
    if (bytes > 0)
        assert_int_equal(cl.clEnqueueWriteBuffer(e->queue, memory, CL_FALSE, e->shift, bytes, data, 0, NULL, NULL),
                         CL_SUCCESS);
    return memory;
}

static void *at(size_t offset)
{
    return (void *)(intptr_t)offset;
}

static void put_tensor(engine *e, test_tensor *tensor)
{
    tensor->view.buffer = put(e, tensor->buffer.data, tensor->buffer.size);
    tensor->view.data = at(e->shift + (size_t)((unsigned char *)tensor->view.data - tensor->buffer.data));
}

/* Everything of the problem goes to the engine's memory. */
static void put_problem(engine *e)
{
    test_problem *p = &e->p;
    for (int t = TEST_QUERY; t <= TEST_VALUE; t++)
        put_tensor(e, &p->tensor[t]);
    /* Positions, offsets and stages in one buffer, in that order. */
    const size_t o = (p->positions.size + 3) / 4 * 4, s = o + p->offsets.size;
    cl_int code;
    p->selection.buffer = cl.clCreateBuffer(e->context, CL_MEM_READ_WRITE, 64 + s + p->stages.size, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    e->memory[e->count++] = p->selection.buffer;
    p->selection.positions = at(64);
    p->selection.offsets = at(64 + o);
    p->selection.stages = at(64 + s);
    /* The workspace begins behind a flags word. */
    static const uint32_t none = 0;
    p->run.buffer = cl.clCreateBuffer(e->context, CL_MEM_READ_WRITE, 64 + p->info.workspace, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    e->memory[e->count++] = p->run.buffer;
    assert_int_equal(cl.clEnqueueWriteBuffer(e->queue, p->run.buffer, CL_FALSE, 4, sizeof none, &none, 0, NULL, NULL),
                     CL_SUCCESS);
    p->run.workspace = at(64);
    p->run.workspace_size = p->info.workspace;
    p->run.device_flags = at(4);
    p->run.stream = e->queue;
    p->run.memory = CKV_MEMORY_DEVICE;
}

static void fetch(engine *e, cl_mem memory, size_t offset, void *to, size_t bytes)
{
    if (bytes > 0)
        assert_int_equal(cl.clEnqueueReadBuffer(e->queue, memory, CL_FALSE, offset, bytes, to, 0, NULL, NULL),
                         CL_SUCCESS);
}

/* The hash of what was kept; reads follow the work on the queue. */
static uint64_t fetch_kept(engine *e)
{
    test_problem *p = &e->p;
    const ckv_selection device_side = p->selection;
    fetch(e, device_side.buffer, (size_t)(intptr_t)device_side.positions, p->positions.data, p->positions.size);
    fetch(e, device_side.buffer, (size_t)(intptr_t)device_side.offsets, p->offsets.data, p->offsets.size);
    fetch(e, device_side.buffer, (size_t)(intptr_t)device_side.stages, p->stages.data, p->stages.size);
    assert_int_equal(cl.clFinish(e->queue), CL_SUCCESS);
    p->selection.positions = (int32_t *)(void *)p->positions.data;
    p->selection.offsets = (int32_t *)(void *)p->offsets.data;
    p->selection.stages = p->stages.data;
    const uint64_t hash = test_hash_selection(p);
    p->selection = device_side;
    return hash;
}

static void check(cl_command_queue_properties properties, size_t shift, int parts, int times)
{
    uint64_t norms;
    const uint64_t want = expected(&norms);
    engine e;
    set_up(&e, properties, shift, parts);
    put_problem(&e);
    for (int i = 0; i < times; i++) {
        assert_ok(test_evict(&e.p));
        assert_int_equal(fetch_kept(&e), want);
    }
    /* A single stage, whose result is the engine's tensor too. */
    put_tensor(&e, &e.p.norm);
    assert_ok(test_norm(&e.p));
    fetch(&e, e.p.norm.view.buffer, shift, e.p.norm.buffer.data, e.p.norm.buffer.size);
    assert_int_equal(cl.clFinish(e.queue), CL_SUCCESS);
    assert_int_equal(test_hash_norm(&e.p), norms);
    tear_down(&e);
}

/* Host memory in a context of the engine's, which is given back as it was. */
static void test_own_context(void **state)
{
    uint64_t norms;
    engine e;
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    const uint64_t want = expected(&norms);
    set_up(&e, 0, 0, 0);
    assert_true(references(e.context) > 1);
    assert_ok(test_evict(&e.p));
    assert_int_equal(test_hash_selection(&e.p), want);
    tear_down(&e);
}

static void test_own_queue(void **state)
{
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    check(0, 0, 0, 2);
    check(CL_QUEUE_PROFILING_ENABLE, 256, 0, 1);
}

/* Offsets that are aligned to nothing: elements are read byte by byte. */
static void test_odd_offsets(void **state)
{
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    check(0, 4, 0, 1);
    check(0, 3, 0, 1);
}

static void test_sub_buffers(void **state)
{
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    check(0, 0, 1, 1);
    check(0, 12, 1, 1);
}

/* Each stage waits for the one before, and for the engine's own writes: V's is held back
 * until after the call, which does not wait for it itself. */
static void test_out_of_order(void **state)
{
    uint64_t norms;
    engine e;
    cl_int code;
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    check(OUT_OF_ORDER, 0, 0, 20);
    const uint64_t want = expected(&norms);
    set_up(&e, OUT_OF_ORDER, 0, 0);
    put_problem(&e);
    const test_tensor *v = &e.p.tensor[TEST_VALUE];
    const unsigned char *data = v->buffer.data;
    unsigned char *nothing = calloc(v->buffer.size, 1);
    assert_int_equal(
        cl.clEnqueueWriteBuffer(e.queue, v->view.buffer, CL_TRUE, 0, v->buffer.size, nothing, 0, NULL, NULL),
        CL_SUCCESS);
    assert_int_equal(cl.clFinish(e.queue), CL_SUCCESS);
    cl_event gate = more.create_user_event(e.context, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(
        cl.clEnqueueWriteBuffer(e.queue, v->view.buffer, CL_FALSE, 0, v->buffer.size, data, 1, &gate, NULL),
        CL_SUCCESS);
    assert_ok(test_evict(&e.p));
    cl.clFlush(e.queue);
    nanosleep(&(const struct timespec){0, 200000000}, NULL);
    assert_int_equal(more.set_user_event(gate, 0), CL_SUCCESS);
    assert_int_equal(fetch_kept(&e), want);
    cl.clReleaseEvent(gate);
    free(nothing);
    tear_down(&e);
}

/* A queue, a buffer and a context that do not belong: an error, and nothing is harmed. */
static void test_foreign(void **state)
{
    uint64_t norms;
    engine e, other;
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    const uint64_t want = expected(&norms);
    set_up(&e, 0, 0, 0);
    set_up(&other, 0, 0, 0);
    put_problem(&e);
    put_problem(&other);
    e.p.run.stream = other.queue;
    assert_fails(test_evict(&e.p), CKV_ERROR_INVALID_ARGUMENT, "run: stream: not a queue of opencl");
    e.p.run.stream = e.queue;
    void *own = e.p.tensor[TEST_KEY].view.buffer;
    e.p.tensor[TEST_KEY].view.buffer = other.p.tensor[TEST_KEY].view.buffer;
    assert_fails(test_evict(&e.p), CKV_ERROR_INVALID_ARGUMENT, "key: not memory of opencl");
    e.p.tensor[TEST_KEY].view.buffer = own;
    assert_ok(test_evict(&e.p));
    assert_int_equal(fetch_kept(&e), want);
    tear_down(&other);
    tear_down(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_context), cmocka_unit_test(test_own_queue),    cmocka_unit_test(test_odd_offsets),
        cmocka_unit_test(test_sub_buffers), cmocka_unit_test(test_out_of_order), cmocka_unit_test(test_foreign),
    };
    absent = find_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
