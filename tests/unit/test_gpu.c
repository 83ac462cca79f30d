/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU backends against the reference, byte for byte: CUDA and HIP on pretended
 * devices of two lane widths (with CKV_TEST_GPU=real on this machine's own), OpenCL
 * where there is a device.  And what is pretended can be made to fail.
 */
#include "unit.h"

#include <stdlib.h>

#include "compare.h"
#include "lib/backend.h"
#include "sim.h"

static const ckv_backend *const backends[] = {&ckv_backend_cuda, &ckv_backend_hip, &ckv_backend_opencl};
enum { BACKENDS = 3, PRETENDED = 2, SEEDS = 3 };
static int pretended; /* cuda and hip are */

static const char *absent; /* why there are no pretended devices */

static test_outcome solve_on(int number, const char *backend, int32_t device)
{
    test_problem p;
    test_outcome o;
    test_draw(&p, number);
    p.options.backend = backend;
    p.options.device = device == 0 ? "0" : "1";
    assert_ok(test_problem_open(&p));
    o = test_solved(&p);
    test_problem_close(&p);
    return o;
}

static void test_random_problems(int backend)
{
    const int32_t devices = backends[backend]->device_count();
    const int seeds = pretended && backend < PRETENDED ? SEEDS : 1;
    if (devices == 0)
        skip_because(absent != NULL ? absent : backends[backend]->absence());
    for (int number = 0; number < test_share(6, 15, 40); number++) {
        const test_outcome want = solve_on(number, "ref", 0);
        /* Every third problem with all seeds. */
        for (int seed = 0; seed < (number % 3 == 0 ? seeds : 1); seed++) {
            char what[64];
            if (pretended)
                sim.ckv_sim_seed((uint64_t)(number * SEEDS + seed));
            snprintf(what, sizeof what, "%s, device %d, seed %d", backends[backend]->name, number % devices, seed);
            test_assert_same(what, number, want, solve_on(number, backends[backend]->name, number % devices));
        }
    }
    if (pretended)
        assert_string_equal(sim.ckv_sim_complaint(), "");
}

static void test_cuda(void **state)
{
    (void)state;
    test_random_problems(0);
}

static void test_hip(void **state)
{
    (void)state;
    test_random_problems(1);
}

static void test_opencl(void **state)
{
    (void)state;
    test_random_problems(2);
}

/* So small that a checking interpreter gets through: see tests/oclgrind.sh. */
static void test_small(void **state)
{
    (void)state;
    for (int backend = 0; backend < BACKENDS; backend++) {
        test_outcome o[2];
        for (int i = 0; i < 2 && backends[backend]->device_count() > 0; i++) {
            test_problem p;
            test_problem_init(&p, 2, 2, 21, 3, 5, 6, 9);
            p.policy.budget = 11;
            p.policy.window = 3;
            p.options.backend = i == 0 ? "ref" : backends[backend]->name;
            test_problem_build(&p);
            test_problem_randomize(&p, 8);
            assert_ok(test_problem_open(&p));
            o[i] = test_solved(&p);
            test_problem_close(&p);
            if (i == 1)
                test_assert_same(backends[backend]->name, -1, o[0], o[1]);
        }
    }
}

/* The comparison can fail: one bit of one key shows, and one of one value. */
static void test_comparison_can_fail(void **state)
{
    (void)state;
    for (int backend = 0; backend < BACKENDS; backend++) {
        test_outcome o[3];
        for (int i = 0; i < 3 && backends[backend]->device_count() > 0; i++) {
            test_problem p;
            test_problem_init(&p, 2, 2, 90, 8, 24, 24, 40);
            p.options.backend = i == 0 ? "ref" : backends[backend]->name;
            test_problem_build(&p);
            test_problem_randomize(&p, 5);
            if (i == 1)
                test_put_bits(&p.tensor[TEST_KEY], 1, 40, 7, test_get_bits(&p.tensor[TEST_KEY], 1, 40, 7) ^ 0x4000u);
            if (i == 2)
                test_put_bits(&p.tensor[TEST_VALUE], 1, 40, 7,
                              test_get_bits(&p.tensor[TEST_VALUE], 1, 40, 7) ^ 0x40000u);
            assert_ok(test_problem_open(&p));
            o[i] = test_solved(&p);
            test_problem_close(&p);
            assert_true(i != 1 || (o[0].attention != o[1].attention && o[0].norm == o[1].norm));
            assert_true(i != 2 || (o[0].attention == o[2].attention && o[0].norm != o[2].norm));
        }
    }
}

/* ---------------------------------------------------------------- made to fail */

#define N 70

/* A layer, its eviction and its compaction, on host memory. */
typedef struct work {
    test_problem p;
    test_tensor compacted;
    ckv_tensor view;
    int opened;
} work;

static void make_problem(test_problem *p, const char *backend)
{
    test_problem_init(p, 2, 2, N, 6, 20, 12, 30);
    p->policy.budget = 30;
    p->policy.window = 4;
    p->options.backend = backend;
    p->options.device = strcmp(backend, "ref") == 0 ? NULL : "0"; /* else another that works is taken */
    p->layout[TEST_KEY] = TEST_TRANSPOSED;                        /* gathered on the host */
    test_problem_build(p);
    test_problem_randomize(p, 3);
}

static void set_up(work *w, const char *backend)
{
    memset(w, 0, sizeof *w);
    make_problem(&w->p, backend);
    test_tensor_new(&w->compacted, CKV_F32, 3, 2, 30, 12, TEST_TOKENS_FIRST);
    test_buffer_remember(&w->compacted.buffer);
}

static ckv_status open_work(work *w)
{
    const ckv_status status = test_problem_open(&w->p);
    w->opened = status == CKV_OK;
    return status;
}

static ckv_status evict_and_compact(work *w)
{
    ckv_status status = test_evict(&w->p);
    if (status == CKV_OK)
        status = ckv_compact(w->p.plan, &w->p.tensor[TEST_VALUE].view, &w->p.selection, &w->compacted.view, &w->p.run);
    return status;
}

static uint64_t hash_work(const work *w)
{
    return test_hash(test_hash_selection(&w->p), w->compacted.buffer.data, w->compacted.buffer.size);
}

static void tear_down(work *w)
{
    test_problem_close(&w->p);
    test_tensor_free(&w->compacted);
}

static const char *what_lives(void)
{
    static char text[160];
    const ckv_sim_live live = sim.ckv_sim_counts();
    snprintf(text, sizeof text, "%d blocks, %d streams, %d events, %d modules, %d contexts, %d programs",
             (int)live.memory, (int)live.streams, (int)live.events, (int)live.modules, (int)live.contexts,
             (int)live.programs);
    return text;
}

static int nothing_live(void)
{
    const ckv_sim_live live = sim.ckv_sim_counts();
    return live.memory == 0 && live.streams == 0 && live.events == 0 && live.modules == 0 && live.contexts == 0 &&
           live.programs == 0;
}

static uint64_t expected(void)
{
    work w;
    set_up(&w, "ref");
    assert_ok(open_work(&w));
    assert_ok(evict_and_compact(&w));
    const uint64_t hash = hash_work(&w);
    tear_down(&w);
    return hash;
}

/* Everything from context to compacted rows, failing at call `nth` of the kind; the
 * calls that there were.  Whatever fails, the error is told or made good, the caller's
 * memory stays, the next try is right, and nothing is left behind. */
static int64_t fail_at(const char *backend, const char *kind, int64_t nth, uint64_t want, int *failed)
{
    work w;
    set_up(&w, backend);
    sim.ckv_sim_reset();
    const int64_t before = sim.ckv_sim_calls();
    sim.ckv_sim_fail(kind, nth, 0);
    ckv_status status = open_work(&w);
    if (w.opened) {
        test_remember(&w.p);
        status = test_evict(&w.p);
        if (status != CKV_OK && !test_all_unchanged(&w.p))
            fail_msg("%s, %s %lld: a failed eviction wrote the caller's memory", backend, kind, (long long)nth);
        if (status == CKV_OK) {
            test_remember(&w.p);
            status = ckv_compact(w.p.plan, &w.p.tensor[TEST_VALUE].view, &w.p.selection, &w.compacted.view, &w.p.run);
            if (status != CKV_OK && !(test_all_unchanged(&w.p) && test_buffer_unchanged(&w.compacted.buffer)))
                fail_msg("%s, %s %lld: a failed compaction wrote the caller's memory", backend, kind, (long long)nth);
        }
    }
    const int64_t calls = sim.ckv_sim_calls() - before;
    if (status != CKV_OK) {
        ++*failed;
        if ((status != CKV_ERROR_DEVICE && status != CKV_ERROR_UNAVAILABLE && status != CKV_ERROR_NO_MEMORY) ||
            ckv_error_detail()[0] == '\0')
            fail_msg("%s, %s %lld: status %d, \"%s\"", backend, kind, (long long)nth, (int)status, ckv_error_detail());
    }
    sim.ckv_sim_reset();
    if (w.opened) {
        if (status != CKV_OK)
            assert_ok(evict_and_compact(&w));
        if (hash_work(&w) != want)
            fail_msg("%s, %s %lld: a wrong result afterwards", backend, kind, (long long)nth);
        assert_true(test_all_intact(&w.p) && test_buffer_intact(&w.compacted.buffer));
    }
    tear_down(&w);
    if (!nothing_live() || sim.ckv_sim_complaint()[0] != '\0')
        fail_msg("%s, %s %lld: left is %s, \"%s\"", backend, kind, (long long)nth, what_lives(),
                 sim.ckv_sim_complaint());
    return calls;
}

/* Failures of some calls are made good, such as a module from the wrong image; beyond so
 * many in a row there is nothing left to fail. */
#define SPARE 40

static void fail_everywhere(const char *kind, int least)
{
    const uint64_t want = expected();
    if (absent != NULL)
        skip_because(absent);
    if (!pretended)
        skip_because("real devices do not fail when told to");
    for (int backend = 0; backend < PRETENDED; backend++) {
        const char *name = backends[backend]->name;
        int failed = 0;
        const int64_t calls = fail_at(name, kind, INT64_MAX, want, &failed);
        assert_int_equal(failed, 0);
        for (int64_t nth = 1; nth <= calls && failed >= nth - SPARE; nth++)
            fail_at(name, kind, nth, want, &failed);
        printf("# %s: %d failures of a %s\n", backends[backend]->name, failed, kind);
        assert_true(failed >= least);
    }
}

static void test_any_call_fails(void **state)
{
    (void)state;
    fail_everywhere("any", 60);
}

static void test_device_is_lost(void **state)
{
    (void)state;
    fail_everywhere("lost", 60);
}

static void test_kernel_faults(void **state)
{
    (void)state;
    fail_everywhere("kernel", 6);
}

/* ---------------------------------------------------------------- memory of the device */

typedef struct on_device {
    test_problem p;
    void *block[16];
    int blocks;
} on_device;

/* The device's copy of a buffer; `data` becomes where the same byte is there. */
static void *move(on_device *d, const char *backend, const test_buffer *buffer, const void *data)
{
    const size_t size = buffer->size == 0 ? 1 : buffer->size;
    char *there = sim.ckv_sim_allocate(backend, 0, (int64_t)size);
    assert_non_null(there);
    d->block[d->blocks++] = there;
    memcpy(sim.ckv_sim_bytes(there), buffer->data, buffer->size);
    return there + ((const unsigned char *)data - buffer->data);
}

static uint64_t hash_kept(on_device *d, const ckv_selection *host)
{
    const ckv_selection device = d->p.selection;
    memcpy(host->positions, sim.ckv_sim_bytes(device.positions), d->p.positions.size);
    memcpy(host->offsets, sim.ckv_sim_bytes(device.offsets), d->p.offsets.size);
    memcpy(host->stages, sim.ckv_sim_bytes(device.stages), d->p.stages.size);
    d->p.selection = *host;
    const uint64_t hash = test_hash_selection(&d->p);
    d->p.selection = device;
    return hash;
}

/* A call on the device's memory is only work on the caller's stream: it can be captured,
 * and replayed over other inputs. */
static void test_captured(void **state)
{
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    if (!pretended)
        skip_because("captured on pretended devices only");
    for (int backend = 0; backend < PRETENDED; backend++) {
        const char *name = backends[backend]->name;
        on_device d;
        uint64_t want[2];
        memset(&d, 0, sizeof d);
        sim.ckv_sim_reset();
        for (int i = 0; i < 2; i++) {
            make_problem(&d.p, "ref");
            assert_ok(test_problem_open(&d.p));
            test_problem_randomize(&d.p, (uint64_t)(i + 1)); /* but for the projection, which is made */
            assert_ok(test_evict(&d.p));
            want[i] = test_hash_selection(&d.p);
            test_problem_close(&d.p);
        }
        assert_true(want[0] != want[1]);

        make_problem(&d.p, name);
        assert_ok(test_problem_open(&d.p));
        test_problem_randomize(&d.p, 1);
        void *inputs[TEST_TENSORS];
        for (int t = TEST_QUERY; t <= TEST_VALUE; t++) {
            ckv_tensor *view = &d.p.tensor[t].view;
            view->data = move(&d, name, &d.p.tensor[t].buffer, view->data);
            inputs[t] = d.block[d.blocks - 1];
        }
        const ckv_selection host = d.p.selection;
        d.p.selection.positions = move(&d, name, &d.p.positions, d.p.positions.data);
        d.p.selection.offsets = move(&d, name, &d.p.offsets, d.p.offsets.data);
        d.p.selection.stages = move(&d, name, &d.p.stages, d.p.stages.data);
        d.p.run.workspace = move(&d, name, &d.p.workspace, d.p.workspace.data);
        d.p.run.memory = CKV_MEMORY_DEVICE;

        /* Memory that is not the device's is refused, and named. */
        ckv_tensor *key = &d.p.tensor[TEST_KEY].view;
        void *own = key->data;
        key->data = d.p.tensor[TEST_KEY].cells.data;
        assert_fails(test_evict(&d.p), CKV_ERROR_INVALID_ARGUMENT, "key: not memory of");
        key->data = own;

        sim.ckv_sim_capture(1);
        assert_ok(test_evict(&d.p));
        sim.ckv_sim_capture(0);
        for (int i = 0; i < 2; i++) {
            assert_true(sim.ckv_sim_replay() >= 6);
            if (hash_kept(&d, &host) != want[i])
                fail_msg("%s: wrong on replay %d", name, i);
            test_problem_randomize(&d.p, 2); /* on the host: the cells are there */
            for (int t = TEST_QUERY; t <= TEST_VALUE; t++)
                memcpy(sim.ckv_sim_bytes(inputs[t]), d.p.tensor[t].buffer.data, d.p.tensor[t].buffer.size);
        }
        /* On host memory a call cannot be captured. */
        sim.ckv_sim_capture(1);
        for (int t = TEST_QUERY; t <= TEST_VALUE; t++)
            d.p.tensor[t].view.data = d.p.tensor[t].cells.data;
        d.p.selection = host;
        d.p.run.memory = CKV_MEMORY_HOST;
        d.p.run.workspace = d.p.workspace.data;
        assert_fails(test_evict(&d.p), CKV_ERROR_DEVICE, "CAPTURE");
        sim.ckv_sim_capture(0);
        while (d.blocks > 0)
            sim.ckv_sim_release(d.block[--d.blocks]);
        test_problem_close(&d.p);
        assert_true(nothing_live());
        assert_string_equal(sim.ckv_sim_complaint(), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda),
        cmocka_unit_test(test_hip),
        cmocka_unit_test(test_opencl),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_comparison_can_fail),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_any_call_fails),
        cmocka_unit_test(test_device_is_lost),
        cmocka_unit_test(test_kernel_faults),
    };
    const char *real = getenv("CKV_TEST_GPU");
    if (real == NULL || strcmp(real, "real") != 0) {
        setenv("CKV_SIM_CUDA", "sm_90,sm_75", 1);
        setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-,gfx1100", 1);
        setenv("CKV_KERNEL_CACHE", "off", 1);
        absent = test_sim_load();
        pretended = absent == NULL;
    }
    if (getenv("CKV_TEST_FILTER") != NULL)
        cmocka_set_test_filter(getenv("CKV_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
