/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a GPU backend owes the engine around it, on pretended machines with two devices
 * each: other devices are left alone, the caller's current device and context are there
 * again, whatever fails; a device that does not work is listed with its reason and another
 * is taken; calls on device memory only launch; offsets have 64 bits.
 */
#include "unit.h"

#include <stdlib.h>

#include "compare.h"
#include "sim.h"

static const char *const backends[] = {"cuda", "hip"};
enum { BACKENDS = 2 };

static void make(test_problem *p, const char *backend, const char *device)
{
    test_problem_init(p, 2, 2, 90, 6, 12, 8, 160);
    p->policy.budget = 30;
    p->policy.window = 4;
    p->options.backend = backend;
    p->options.device = device;
    test_problem_build(p);
    test_problem_randomize(p, 7);
}

static uint64_t expected(void)
{
    test_problem p;
    make(&p, "ref", NULL);
    assert_ok(test_problem_open(&p));
    assert_ok(test_evict(&p));
    const uint64_t hash = test_hash_selection(&p);
    test_problem_close(&p);
    return hash;
}

static void test_other_devices_are_left_alone(void **state)
{
    const uint64_t want = expected();
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        const int64_t others[] = {sim.ckv_sim_used("cuda", 0), sim.ckv_sim_used("hip", 0),
                                  sim.ckv_sim_used(b == 0 ? "hip" : "cuda", 1)};
        const int64_t own = sim.ckv_sim_used(backends[b], 1);
        test_problem p;
        make(&p, backends[b], "1");
        assert_ok(test_problem_open(&p));
        assert_ok(test_evict(&p));
        assert_int_equal(test_hash_selection(&p), want);
        assert_int_equal(sim.ckv_sim_counts().contexts, b == 0);
        test_problem_close(&p);
        assert_int_equal(sim.ckv_sim_used("cuda", 0), others[0]);
        assert_int_equal(sim.ckv_sim_used("hip", 0), others[1]);
        assert_int_equal(sim.ckv_sim_used(b == 0 ? "hip" : "cuda", 1), others[2]);
        assert_true(sim.ckv_sim_used(backends[b], 1) > own);
    }
}

/* ---------------------------------------------------------------- the caller's device */

static void *symbol_of(const char *library, const char *name)
{
    void *symbol = test_sim_symbol(library, name);
    assert_non_null(symbol);
    return symbol;
}

static struct {
    unsigned (*retain)(void **context, int device), (*release)(int device), (*device_get)(int *device, int index);
    unsigned (*push)(void *context), (*pop)(void **context), (*set_device)(int index), (*get_device)(int *index);
} vendor;

static void find_functions(void)
{
    static const struct {
        const char *library, *name;
        void *to;
    } list[] = {
        {"libcuda.so.1", "cuDevicePrimaryCtxRetain", &vendor.retain},
        {"libcuda.so.1", "cuDevicePrimaryCtxRelease_v2", &vendor.release},
        {"libcuda.so.1", "cuDeviceGet", &vendor.device_get},
        {"libcuda.so.1", "cuCtxPushCurrent_v2", &vendor.push},
        {"libcuda.so.1", "cuCtxPopCurrent_v2", &vendor.pop},
        {"libamdhip64.so.7", "hipSetDevice", &vendor.set_device},
        {"libamdhip64.so.7", "hipGetDevice", &vendor.get_device},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        void *symbol = symbol_of(list[i].library, list[i].name);
        memcpy(list[i].to, &symbol, sizeof symbol);
    }
}

/* Everything on device 1, failing at the nth call, while the caller has device 0; how many
 * calls there were. */
static int64_t go(int backend, int64_t nth, void *context)
{
    test_problem p;
    void *top = NULL;
    int index = -1;
    sim.ckv_sim_reset();
    const int64_t before = sim.ckv_sim_calls();
    sim.ckv_sim_fail("lost", nth, 0);
    make(&p, backends[backend], "1");
    ckv_status status = test_problem_open(&p);
    if (status == CKV_OK) {
        status = test_evict(&p);
        if (status == CKV_OK)
            status = ckv_compact(p.plan, &p.tensor[TEST_KEY].view, &p.selection, &p.tensor[TEST_KEY].view, &p.run);
    }
    assert_int_equal(status == CKV_OK, nth == INT64_MAX);
    test_problem_close(&p);
    const int64_t calls = sim.ckv_sim_calls() - before;
    sim.ckv_sim_reset();
    if (backend == 0) {
        assert_int_equal(vendor.pop(&top), 0);
        assert_ptr_equal(top, context);
        assert_int_equal(vendor.push(context), 0);
    } else {
        assert_int_equal(vendor.get_device(&index), 0);
        assert_int_equal(index, 0);
    }
    return calls;
}

static void test_caller_keeps_its_device(void **state)
{
    void *context = NULL, *none = NULL;
    int device = 0;
    (void)state;
    find_functions();
    assert_int_equal(vendor.device_get(&device, 0), 0);
    assert_int_equal(vendor.retain(&context, device), 0);
    assert_int_equal(vendor.push(context), 0);
    for (int b = 0; b < BACKENDS; b++) {
        const int64_t calls = go(b, INT64_MAX, context);
        const int step = test_light() ? 7 : 1;
        printf("# %s: lost at each of %d calls\n", backends[b], (int)calls);
        assert_true(calls > 60);
        /* After the last failure that matters only closing is left, whose failures are ignored. */
        for (int64_t nth = 1; nth <= calls - 80; nth += step)
            go(b, nth, context);
    }
    assert_int_equal(vendor.pop(&none), 0);
    assert_int_equal(vendor.release(device), 0);
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

/* ---------------------------------------------------------------- a device that does not work */

/* Each of these fails once, on the first device: it is listed so, the second is taken. */
static void test_listed_with_reason(void **state)
{
    static const struct {
        const char *call, *reason;
    } cases[2][5] = {
        {{"cuDevicePrimaryCtxRetain", "CUDA_ERROR_"},
         {"cuStreamCreate", "CUDA_ERROR_"},
         {"cuModuleGetFunction", "kernel ckv_probe: CUDA_ERROR_"},
         {"cuMemAlloc_v2", "CUDA_ERROR_OUT_OF_MEMORY"},
         {"cuLaunchKernel", "CUDA_ERROR_"}},
        {{"hipStreamCreateWithFlags", "hipError_"},
         {"hipModuleGetFunction", "kernel ckv_probe: hipError_"},
         {"hipMalloc", "hipError_OUT_OF_MEMORY"},
         {"hipModuleLaunchKernel", "hipError_"},
         {"hipStreamSynchronize", "hipError_"}},
    };
    const uint64_t want = expected();
    (void)state;
    for (int b = 0; b < BACKENDS; b++)
        for (int i = 0; i < 5; i++) {
            test_problem p;
            int seen = 0;
            sim.ckv_sim_reset();
            sim.ckv_sim_fail(cases[b][i].call, 1, 0);
            make(&p, backends[b], NULL);
            assert_ok(test_problem_open(&p));
            for (int32_t d = 0; d < ckv_device_count(p.context); d++) {
                ckv_device_info info = {.struct_size = sizeof info};
                assert_ok(ckv_device_query(p.context, d, &info));
                if (strcmp(info.backend, backends[b]) != 0) {
                    assert_int_equal(info.selected, 0);
                    continue;
                }
                assert_int_equal(info.available, seen == 1);
                assert_int_equal(info.selected, seen == 1);
                if (seen++ == 0 && strstr(info.reason, cases[b][i].reason) == NULL)
                    fail_msg("%s fails: the reason is \"%s\", wanted \"%s\"", cases[b][i].call, info.reason,
                             cases[b][i].reason);
            }
            assert_int_equal(seen, 2);
            assert_ok(test_evict(&p));
            assert_int_equal(test_hash_selection(&p), want);
            test_problem_close(&p);
            assert_int_equal(sim.ckv_sim_counts().memory, 0);
            assert_string_equal(sim.ckv_sim_complaint(), "");
        }
}

/* ---------------------------------------------------------------- calls on device memory */

/* A tensor on the device, `scale` times as far apart; data and strides of its view follow. */
static void *move(const char *backend, test_tensor *t, int64_t scale, int64_t *bytes)
{
    ckv_tensor *view = &t->view;
    int64_t last = 0;
    int64_t strides[3] = {0, 0, 0};
    const size_t size = ckv_dtype_size(view->dtype);
    for (int32_t i = 0; i < view->rank; i++) {
        strides[i] = i == view->rank - 1 && view->rank == 3
                         ? (int64_t)size
                         : (view->stride[i] < 0 ? -view->stride[i] : view->stride[i]) * scale;
        last += strides[i] * (view->shape[i] - 1);
    }
    *bytes = last + (int64_t)size;
    char *there = sim.ckv_sim_allocate(backend, 0, *bytes);
    assert_non_null(there);
    char *here = sim.ckv_sim_bytes(there);
    const int64_t heads = view->shape[0], tokens = view->shape[1], width = view->rank == 3 ? view->shape[2] : 1;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < tokens; i++)
            for (int64_t c = 0; c < width; c++) {
                const char *from = (const char *)view->data + h * view->stride[0] + i * view->stride[1] +
                                   (view->rank == 3 ? c * view->stride[2] : 0);
                memcpy(here + h * strides[0] + i * strides[1] + (view->rank == 3 ? c * strides[2] : 0), from, size);
            }
    memcpy(view->stride, strides, sizeof strides);
    view->data = there;
    return there;
}

typedef struct on_device {
    test_problem p;
    void *block[16];
    int blocks;
    int64_t furthest; /* bytes of the largest tensor */
    ckv_selection here;
} on_device;

static void *plain(on_device *d, const char *backend, const void *data, size_t bytes)
{
    void *there = sim.ckv_sim_allocate(backend, 0, (int64_t)bytes);
    assert_non_null(there);
    memcpy(sim.ckv_sim_bytes(there), data, bytes);
    d->block[d->blocks++] = there;
    return there;
}

static void move_all(on_device *d, const char *backend, int64_t scale)
{
    test_problem *p = &d->p;
    test_tensor *const tensors[] = {&p->tensor[TEST_QUERY], &p->tensor[TEST_KEY], &p->tensor[TEST_VALUE], &p->attention,
                                    &p->norm};
    d->furthest = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        int64_t bytes = 0;
        d->block[d->blocks++] = move(backend, tensors[i], scale, &bytes);
        d->furthest = bytes > d->furthest ? bytes : d->furthest;
    }
    d->here = p->selection;
    p->selection.positions = plain(d, backend, p->positions.data, p->positions.size);
    p->selection.offsets = plain(d, backend, p->offsets.data, p->offsets.size);
    p->selection.stages = plain(d, backend, p->stages.data, p->stages.size);
    p->run.workspace = plain(d, backend, p->workspace.data, p->workspace.size);
    p->run.memory = CKV_MEMORY_DEVICE;
}

static void wait_for(int backend)
{
    /* The engine's wait: of everything, by freeing something. */
    sim.ckv_sim_release(sim.ckv_sim_allocate(backends[backend], 0, 16));
}

static uint64_t hash_kept(on_device *d)
{
    const ckv_selection there = d->p.selection;
    memcpy(d->here.positions, sim.ckv_sim_bytes(there.positions), d->p.positions.size);
    memcpy(d->here.offsets, sim.ckv_sim_bytes(there.offsets), d->p.offsets.size);
    memcpy(d->here.stages, sim.ckv_sim_bytes(there.stages), d->p.stages.size);
    d->p.selection = d->here;
    const uint64_t hash = test_hash_selection(&d->p);
    d->p.selection = there;
    return hash;
}

static void close_all(on_device *d)
{
    while (d->blocks > 0)
        sim.ckv_sim_release(d->block[--d->blocks]);
    test_problem_close(&d->p);
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

static void only_launches(const char *what, const char *const *allowed)
{
    char text[4096];
    snprintf(text, sizeof text, "%s", sim.ckv_sim_called());
    char *rest = text;
    int count = 0;
    for (char *name = strtok_r(text, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest), count++) {
        int good = 0;
        for (int i = 0; allowed[i] != NULL; i++)
            good |= strcmp(name, allowed[i]) == 0;
        if (!good)
            fail_msg("%s called %s", what, name);
    }
    assert_true(count >= 3);
}

/* All five calls with device memory: they ask whose memory it is and launch, no more.  A
 * call on host memory allocates, copies and waits, and that shows. */
static void test_calls_only_launch(void **state)
{
    static const char *const allowed[2][6] = {
        {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuPointerGetAttribute", "cuLaunchKernel", NULL},
        {"hipGetDevice", "hipSetDevice", "hipPointerGetAttribute", "hipModuleLaunchKernel", NULL}};
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        on_device d = {.blocks = 0};
        make(&d.p, backends[b], "0");
        assert_ok(test_problem_open(&d.p));
        sim.ckv_sim_called();
        assert_ok(test_evict(&d.p));
        const char *called = sim.ckv_sim_called();
        assert_non_null(strstr(called, b == 0 ? "cuMemAlloc_v2 " : "hipMalloc "));
        assert_non_null(strstr(called, b == 0 ? "cuStreamSynchronize " : "hipStreamSynchronize "));
        assert_non_null(strstr(called, b == 0 ? "cuMemcpyDtoHAsync_v2 " : "hipMemcpyAsync "));
        move_all(&d, backends[b], 1);
        sim.ckv_sim_called();
        assert_ok(test_score(&d.p));
        only_launches("ckv_score", allowed[b]);
        assert_ok(test_norm(&d.p));
        only_launches("ckv_norm", allowed[b]);
        assert_ok(test_select(&d.p));
        only_launches("ckv_select", allowed[b]);
        ckv_tensor *key = &d.p.tensor[TEST_KEY].view;
        assert_ok(test_evict(&d.p));
        only_launches("ckv_evict", allowed[b]);
        assert_ok(ckv_compact(d.p.plan, key, &d.p.selection, key, &d.p.run));
        only_launches("ckv_compact", allowed[b]);
        wait_for(b);
        assert_int_equal(hash_kept(&d), expected());
        close_all(&d);
    }
}

/* Rows so far apart that offsets pass 2^32, in memory that takes little where nothing is
 * written: a kernel that lost the upper half of one would read zeros, or write elsewhere. */
static void test_offsets_beyond_32_bits(void **state)
{
    const uint64_t want = expected();
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        on_device d = {.blocks = 0};
        make(&d.p, backends[b], "0");
        assert_ok(test_problem_open(&d.p));
        move_all(&d, backends[b], (int64_t)1 << 22);
        assert_true(d.furthest > (int64_t)5 << 32 >> 1);
        assert_ok(test_evict(&d.p));
        wait_for(b);
        assert_int_equal(hash_kept(&d), want);
        /* The stages, whose results lie far apart too, in turn. */
        assert_ok(test_score(&d.p));
        assert_ok(test_norm(&d.p));
        assert_ok(test_select(&d.p));
        wait_for(b);
        assert_int_equal(hash_kept(&d), want);
        ckv_tensor *key = &d.p.tensor[TEST_KEY].view;
        const int64_t budget = d.p.info.budget, far = d.p.shape.kv_heads - 1;
        const char *rows = sim.ckv_sim_bytes(key->data);
        const int32_t last = d.here.positions[far * budget + budget - 1];
        char before[4], after[4];
        memcpy(before, rows + far * key->stride[0] + last * key->stride[1], 4);
        assert_ok(ckv_compact(d.p.plan, key, &d.p.selection, key, &d.p.run));
        wait_for(b);
        memcpy(after, rows + far * key->stride[0] + (budget - 1) * key->stride[1], 4);
        assert_memory_equal(before, after, 4);
        close_all(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_devices_are_left_alone), cmocka_unit_test(test_caller_keeps_its_device),
        cmocka_unit_test(test_listed_with_reason),           cmocka_unit_test(test_calls_only_launch),
        cmocka_unit_test(test_offsets_beyond_32_bits),
    };
    setenv("CKV_KERNEL_CACHE", "off", 1);
    setenv("CKV_SIM_CUDA", "sm_90,sm_90", 1);
    setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-,gfx942:sramecc+:xnack-", 1);
    setenv("CKV_SIM_MEMORY", "1099511627776", 1);
    const char *reason = test_sim_load();
    if (reason != NULL) {
        printf("1..0 # SKIP %s\n", reason);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
