/* SPDX-License-Identifier: Apache-2.0 */
/* The pretended GPUs, called through the drivers that real ones are called through:
 * what they compute, and that they notice what a real one would suffer. */
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/gpu/code.h"
#include "backends/gpu/dialect/host.h"
#include "backends/gpu/kernels/params.h"
#include "sim.h"

#define N 500 /* numbers that ckv_keep_all writes */

static const ckv_gpu_driver *const drivers[] = {&ckv_gpu_cuda, &ckv_gpu_hip};
enum { DRIVERS = 2 };

/* One device with its code, and buffers for ckv_keep_all. */
typedef struct fixture {
    const ckv_gpu_driver *driver;
    ckv_gpu_device *device;
    ckv_gpu_module *module;
    ckv_gpu_kernel kernel;
    ckv_gpu_memory positions, offsets;
    void *saved;
    int32_t got[N], ends[2];
} fixture;

static int load_code(fixture *f, int32_t index)
{
    ckv_gpu_device_info info;
    ckv_gpu_origin origin;
    char log[512] = "";
    assert_int_equal(f->driver->describe(index, &info), CKV_GPU_OK);
    return ckv_gpu_load_code(f->driver, f->device, &info, "", &f->module, &origin, log, sizeof log);
}

static void set_up(fixture *f, int driver)
{
    memset(f, 0, sizeof *f);
    f->driver = drivers[driver];
    sim.ckv_sim_reset();
    assert_null(f->driver->load());
    assert_int_equal(f->driver->open(0, NULL, &f->device), CKV_GPU_OK);
    assert_int_equal(f->driver->enter(f->device, &f->saved), CKV_GPU_OK);
    assert_int_equal(load_code(f, 0), CKV_GPU_OK);
    assert_int_equal(f->driver->find_kernel(f->device, f->module, "ckv_keep_all", &f->kernel), CKV_GPU_OK);
    assert_int_equal(f->driver->allocate(f->device, sizeof f->got, &f->positions), CKV_GPU_OK);
    assert_int_equal(f->driver->allocate(f->device, sizeof f->ends, &f->offsets), CKV_GPU_OK);
}

static void tear_down(fixture *f)
{
    f->driver->release(f->device, f->positions);
    f->driver->release(f->device, f->offsets);
    f->driver->release_kernel(f->device, f->kernel);
    f->driver->unload_module(f->device, f->module);
    f->driver->leave(f->device, f->saved);
    f->driver->close(f->device);
    const ckv_sim_live live = sim.ckv_sim_counts();
    assert_true(live.memory == 0 && live.streams == 0 && live.events == 0 && live.modules == 0 && live.contexts == 0 &&
                live.programs == 0);
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

static int launch(fixture *f, ckv_gpu_stream stream, int64_t count)
{
    ckv_params p;
    memset(&p, 0, sizeof p);
    p.budget = count;
    const ckv_gpu_argument arguments[] = {{f->positions.base, 0}, {f->offsets.base, 0}, {NULL, 0}, {&p, sizeof p}};
    const ckv_gpu_launch l = {f->kernel, {1, 1, 1}, {256, 1, 1}, arguments, 4};
    return f->driver->launch(f->device, stream, &l);
}

static int download(fixture *f)
{
    memset(f->got, 0x5a, sizeof f->got);
    const int code = f->driver->download(f->device, NULL, f->got, f->positions, sizeof f->got);
    return code != CKV_GPU_OK ? code : f->driver->download(f->device, NULL, f->ends, f->offsets, sizeof f->ends);
}

static int finish(fixture *f)
{
    return f->driver->wait(f->device, NULL);
}

/* Positions 0 to count - 1, then zeros. */
static int right(const fixture *f, int32_t count)
{
    for (int32_t i = 0; i < N; i++)
        if (f->got[i] != (i < count ? i : 0))
            return 0;
    return f->ends[0] == 0 && f->ends[1] == count;
}

static void test_devices(void **state)
{
    (void)state;
    for (int d = 0; d < DRIVERS; d++) {
        ckv_gpu_device_info info[2];
        assert_null(drivers[d]->load());
        assert_int_equal(drivers[d]->device_count(), 2);
        for (int32_t i = 0; i < 2; i++)
            assert_int_equal(drivers[d]->describe(i, &info[i]), CKV_GPU_OK);
        assert_string_equal(info[0].arch, d == 0 ? "sm_90" : "gfx942:sramecc+:xnack-");
        assert_string_equal(info[1].arch, d == 0 ? "sm_75" : "gfx1100");
        assert_int_equal(info[0].lanes, d == 0 ? 32 : 64);
        assert_int_equal(info[1].lanes, 32);
        assert_int_not_equal(drivers[d]->describe(2, &info[0]), CKV_GPU_OK);
    }
}

static void test_launch(void **state)
{
    (void)state;
    for (int d = 0; d < DRIVERS; d++) {
        fixture f;
        int late = 0;
        set_up(&f, d);
        for (int32_t i = 0; i < 40; i++) {
            const int32_t count = 1 + i * 10;
            sim.ckv_sim_seed((uint64_t)i);
            assert_int_equal(f.driver->clear(f.device, NULL, f.positions, sizeof f.got), CKV_GPU_OK);
            assert_int_equal(launch(&f, NULL, count), CKV_GPU_OK);
            assert_int_equal(download(&f), CKV_GPU_OK);
            late += !right(&f, count); /* nobody promised it before the wait */
            assert_int_equal(finish(&f), CKV_GPU_OK);
            assert_true(right(&f, count));
        }
        assert_true(late > 0);
        tear_down(&f);
    }
}

/* Work in a stream of its own does not wait for that of the device's stream. */
static void test_streams_are_not_ordered(void **state)
{
    fixture f;
    unsigned (*create)(void **stream, unsigned flags) = NULL, (*destroy)(void *stream) = NULL;
    void *stream = NULL, *symbol = test_sim_symbol("libcuda.so.1", "cuStreamCreate");
    int wrong = 0;
    (void)state;
    memcpy(&create, &symbol, sizeof symbol);
    symbol = test_sim_symbol("libcuda.so.1", "cuStreamDestroy_v2");
    memcpy(&destroy, &symbol, sizeof symbol);
    set_up(&f, 0);
    assert_int_equal(create(&stream, 1), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(f.driver->clear(f.device, NULL, f.positions, sizeof f.got), CKV_GPU_OK);
        assert_int_equal(launch(&f, stream, 100), CKV_GPU_OK);
        assert_int_equal(download(&f), CKV_GPU_OK);
        assert_int_equal(f.driver->wait(f.device, stream), CKV_GPU_OK);
        assert_int_equal(finish(&f), CKV_GPU_OK);
        wrong += !right(&f, 100);
    }
    assert_in_range(wrong, 1, 19);
    assert_int_equal(destroy(stream), 0);
    tear_down(&f);
}

static void test_events(void **state)
{
    (void)state;
    for (int d = 0; d < DRIVERS; d++) {
        fixture f;
        ckv_gpu_event event[2];
        float time = -1;
        set_up(&f, d);
        for (int i = 0; i < 2; i++)
            assert_int_equal(f.driver->create_event(f.device, &event[i]), CKV_GPU_OK);
        assert_int_equal(f.driver->record(f.device, NULL, event[0]), CKV_GPU_OK);
        assert_int_equal(launch(&f, NULL, N), CKV_GPU_OK);
        assert_int_equal(f.driver->record(f.device, NULL, event[1]), CKV_GPU_OK);
        assert_int_equal(f.driver->elapsed(f.device, event[0], event[1], &time), CKV_GPU_OK);
        assert_true(time > 0 && time < 1e5f);
        for (int i = 0; i < 2; i++)
            f.driver->release_event(f.device, event[i]);
        tear_down(&f);
    }
}

#define assert_complaint(part)                                                                                         \
    do {                                                                                                               \
        if (strstr(sim.ckv_sim_complaint(), part) == NULL)                                                             \
            fail_msg("complaint \"%s\" lacks \"%s\"", sim.ckv_sim_complaint(), part);                                  \
        sim.ckv_sim_reset();                                                                                           \
    } while (0)

static void test_misuse(void **state)
{
    (void)state;
    for (int d = 0; d < DRIVERS; d++) {
        fixture f;
        set_up(&f, d);
        /* One number more than there is room for. */
        assert_int_equal(launch(&f, NULL, N + 1), CKV_GPU_OK);
        finish(&f);
        assert_complaint("was written at byte 2000");
        f.driver->release(f.device, f.positions);
        sim.ckv_sim_reset(); /* says it once more */

        /* Memory that is gone, freed again, used by a kernel, by a copy. */
        f.driver->release(f.device, f.positions);
        assert_complaint("which is no live block");
        assert_int_equal(launch(&f, NULL, N), CKV_GPU_OK);
        assert_int_not_equal(finish(&f), CKV_GPU_OK);
        assert_int_not_equal(finish(&f), CKV_GPU_OK); /* a fault stays */
        assert_complaint("ckv_keep_all: argument 0");
        assert_int_equal(finish(&f), CKV_GPU_OK);
        f.positions.base = f.got; /* the host's memory */
        assert_int_equal(launch(&f, NULL, N), CKV_GPU_OK);
        assert_int_not_equal(finish(&f), CKV_GPU_OK);
        assert_complaint("ckv_keep_all: argument 0");

        /* Freed with work on it still to come: both vendors' free waits. */
        assert_int_equal(f.driver->allocate(f.device, sizeof f.got, &f.positions), CKV_GPU_OK);
        assert_int_equal(launch(&f, NULL, N), CKV_GPU_OK);
        f.driver->release(f.device, f.positions);
        assert_int_equal(finish(&f), CKV_GPU_OK);

        /* Beyond the end, by a copy. */
        assert_int_equal(f.driver->allocate(f.device, sizeof f.got - 4, &f.positions), CKV_GPU_OK);
        (void)download(&f); /* may have run already */
        assert_int_not_equal(finish(&f), CKV_GPU_OK);
        assert_complaint("outside any live block");
        tear_down(&f);
    }
}

/* A leak shows when the context ends. */
static void test_leak(void **state)
{
    fixture f;
    (void)state;
    set_up(&f, 0);
    void *lost = f.positions.base;
    assert_int_equal(f.driver->allocate(f.device, 10, &f.positions), CKV_GPU_OK);
    f.driver->release(f.device, f.positions);
    f.driver->release(f.device, f.offsets);
    f.driver->unload_module(f.device, f.module);
    f.driver->leave(f.device, f.saved);
    f.driver->close(f.device);
    assert_int_equal(sim.ckv_sim_counts().memory, 1);
    assert_complaint("2000 bytes not freed");
    sim.ckv_sim_release(lost);
    assert_int_equal(sim.ckv_sim_counts().memory, 0);
}

static void test_capture(void **state)
{
    (void)state;
    fixture f;
    unsigned (*create)(void **stream, unsigned flags) = NULL, (*destroy)(void *stream) = NULL;
    void *stream = NULL, *symbol = test_sim_symbol("libcuda.so.1", "cuStreamCreate");
    ckv_gpu_memory more;
    memcpy(&create, &symbol, sizeof symbol);
    symbol = test_sim_symbol("libcuda.so.1", "cuStreamDestroy_v2");
    memcpy(&destroy, &symbol, sizeof symbol);
    set_up(&f, 0);
    assert_int_equal(create(&stream, 1), 0);
    assert_int_equal(f.driver->clear(f.device, NULL, f.positions, sizeof f.got), CKV_GPU_OK);
    sim.ckv_sim_capture(1);
    assert_int_equal(launch(&f, stream, 77), CKV_GPU_OK);
    assert_int_equal(f.driver->allocate(f.device, 10, &more), 900);
    assert_int_equal(f.driver->wait(f.device, stream), 900);
    assert_int_equal(f.driver->download(f.device, stream, f.got, f.positions, 4), 900);
    sim.ckv_sim_capture(0);
    assert_int_equal(download(&f), CKV_GPU_OK);
    assert_int_equal(finish(&f), CKV_GPU_OK);
    assert_int_equal(f.got[76], 0); /* only kept so far */
    assert_int_equal(sim.ckv_sim_replay(), 1);
    assert_int_equal(download(&f), CKV_GPU_OK);
    assert_int_equal(finish(&f), CKV_GPU_OK);
    assert_true(right(&f, 77));
    assert_int_equal(destroy(stream), 0);
    tear_down(&f);
}

static void test_failures(void **state)
{
    (void)state;
    for (int d = 0; d < DRIVERS; d++) {
        fixture f;
        ckv_gpu_memory memory;
        set_up(&f, d);
        sim.ckv_sim_fail(d == 0 ? "cuMemAlloc_v2" : "hipMalloc", 2, 0);
        assert_int_equal(f.driver->allocate(f.device, 10, &memory), CKV_GPU_OK);
        f.driver->release(f.device, memory);
        assert_int_equal(f.driver->allocate(f.device, 10, &memory), 2);
        assert_int_equal(f.driver->allocate(f.device, 10, &memory), CKV_GPU_OK);
        f.driver->release(f.device, memory);
        sim.ckv_sim_fail("any", 1, 77);
        assert_int_equal(finish(&f), 77);
        assert_int_equal(finish(&f), CKV_GPU_OK);
        sim.ckv_sim_fail("kernel", 1, 0);
        assert_int_equal(launch(&f, NULL, N), CKV_GPU_OK);
        assert_int_equal(finish(&f), 719);
        assert_int_equal(finish(&f), 719);
        sim.ckv_sim_reset();
        sim.ckv_sim_fail("lost", 2, 46);
        const int64_t calls = sim.ckv_sim_calls();
        assert_int_equal(finish(&f), CKV_GPU_OK);
        assert_int_equal(finish(&f), 46);
        assert_int_equal(f.driver->clear(f.device, NULL, f.positions, 4), 46);
        assert_int_equal(sim.ckv_sim_calls() - calls, 3);
        sim.ckv_sim_reset();
        tear_down(&f);
    }
}

/* A device's address is none of the host's. */
static void test_host_cannot_reach(void **state)
{
    fixture f;
    int status = 0;
    (void)state;
    set_up(&f, 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile const char *)f.positions.base == 'x');
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status));
    assert_int_equal(f.driver->owns(f.device, f.positions.base), 1);
    assert_int_equal(f.driver->owns(f.device, f.got), 0);
    tear_down(&f);
}

/* Defines that nobody built ahead are built now. */
static void test_other_defines(void **state)
{
    (void)state;
    if (getenv("CC") == NULL)
        skip_because("no compiler in CC");
    for (int d = 0; d < DRIVERS; d++) {
        fixture f;
        ckv_gpu_device_info info;
        ckv_gpu_origin origin;
        ckv_gpu_module *module;
        char log[512] = "";
        set_up(&f, d);
        assert_int_equal(f.driver->describe(0, &info), CKV_GPU_OK);
        assert_int_equal(
            ckv_gpu_load_code(f.driver, f.device, &info, "-DUNUSED=1", &module, &origin, log, sizeof log),
            CKV_GPU_OK);
        f.driver->unload_module(f.device, module);
        tear_down(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_streams_are_not_ordered),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_leak),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_host_cannot_reach),
        cmocka_unit_test(test_other_defines),
    };
    setenv("CKV_KERNEL_CACHE", "off", 1);
    setenv("CKV_SIM_CUDA", "sm_90,sm_75", 1);
    setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-,gfx1100", 1);
    const char *reason = test_sim_load();
    if (reason != NULL) {
        printf("1..0 # SKIP %s\n", reason);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
