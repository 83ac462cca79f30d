/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend against the reference: every byte of every stage, for each
 * instruction set of this machine and several numbers of threads. */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/kernels.h"
#include "compare.h"
#include "context.h"

typedef void pool_function(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument);

/* An engine's pool that takes the tasks in an order of its own. */
static void backwards(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument)
{
    (void)pool;
    for (int32_t i = tasks - 1; i >= 0; i--)
        task(argument, i);
}

typedef struct job {
    void (*task)(void *argument, int32_t index);
    void *argument;
    int32_t index;
} job;

static void *run_job(void *argument)
{
    const job *j = argument;
    j->task(j->argument, j->index);
    return NULL;
}

/* One that has a thread for each task. */
static void at_once(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument)
{
    pthread_t threads[8];
    job jobs[8];
    (void)pool;
    assert_in_range(tasks, 1, 8);
    for (int32_t i = 0; i < tasks; i++) {
        jobs[i] = (job){task, argument, i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    for (int32_t i = 0; i < tasks; i++)
        pthread_join(threads[i], NULL);
}

static test_outcome solve_with(int number, const char *backend, const char *isa, int32_t threads, pool_function *pool)
{
    test_problem p;
    test_outcome o;
    test_draw(&p, number);
    p.options.backend = backend;
    p.options.threads = threads;
    p.options.parallel_for = pool;
    if (isa != NULL)
        setenv("CKV_CPU_ISA", isa, 1);
    assert_ok(test_problem_open(&p));
    if (isa != NULL) {
        assert_string_equal(p.info.device, isa);
        unsetenv("CKV_CPU_ISA");
    }
    o = test_solved(&p);
    test_problem_close(&p);
    return o;
}

static void test_every_instruction_set(void **state)
{
    static const int32_t threads[] = {1, 2, 3, 7};
    int problems = test_light() ? 24 : 160;
    (void)state;
    for (int number = 0; number < problems; number++) {
        test_outcome want = solve_with(number, "ref", NULL, 0, NULL);
        for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++) {
            const ckv_cpu_kernels *kernels = ckv_cpu_kernels_list[i];
            if (kernels->usable())
                test_assert_same(kernels->isa, number, want,
                                 solve_with(number, "cpu", kernels->isa, threads[number % 4], NULL));
        }
        test_assert_same("a pool", number, want,
                         solve_with(number, "cpu", NULL, 1 + number % 5, number % 2 == 0 ? backwards : at_once));
    }
}

/* The comparison can fail: one bit of one key shows, and one of one value. */
static void test_comparison_can_fail(void **state)
{
    test_outcome o[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        test_problem p;
        test_problem_init(&p, 2, 2, 90, 8, 24, 24, 40);
        p.options.backend = i == 0 ? "ref" : "cpu";
        test_problem_build(&p);
        test_problem_randomize(&p, 5);
        if (i == 1)
            test_put_bits(&p.tensor[TEST_KEY], 1, 40, 7, test_get_bits(&p.tensor[TEST_KEY], 1, 40, 7) ^ 0x4000u);
        if (i == 2)
            test_put_bits(&p.tensor[TEST_VALUE], 1, 40, 7, test_get_bits(&p.tensor[TEST_VALUE], 1, 40, 7) ^ 0x40000u);
        assert_ok(test_problem_open(&p));
        o[i] = test_solved(&p);
        test_problem_close(&p);
    }
    assert_true(o[0].attention != o[1].attention && o[0].norm == o[1].norm);
    assert_true(o[0].attention == o[2].attention && o[0].norm != o[2].norm);
}

/* A projection is laid out for its context's backend, and serves no other. */
static void test_projection_of_another_context(void **state)
{
    static const char *const names[] = {"ref", "cpu"};
    test_problem p[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        test_problem_init(&p[i], 1, 2, 50, 8, 16, 16, 24);
        p[i].options.backend = names[i];
        test_problem_build(&p[i]);
        test_problem_randomize(&p[i], 1);
        assert_ok(test_problem_open(&p[i]));
    }
    ckv_projection *own[2] = {p[0].projection, p[1].projection};
    for (int i = 0; i < 2; i++) {
        p[i].projection = own[1 - i];
        test_remember(&p[i]);
        assert_fails(test_norm(&p[i]), CKV_ERROR_MISMATCH, "projection: made from another context");
        assert_fails(test_evict(&p[i]), CKV_ERROR_MISMATCH, "projection: made from another context");
        assert_true(test_all_unchanged(&p[i]));
        p[i].projection = own[i];
    }
    test_problem_close(&p[0]);
    test_problem_close(&p[1]);
}

/* What the environment says later does not change what a plan runs on; many threads
 * need no more memory than there is work. */
static void test_choice_is_kept(void **state)
{
    test_problem p;
    size_t few = 0;
    (void)state;
    for (int32_t threads = 1; threads <= 1024; threads *= 1024) {
        test_problem_init(&p, 2, 1, 100000, 1, 4, 4, 4);
        p.options.backend = "cpu";
        p.options.threads = threads;
        setenv("CKV_CPU_ISA", "portable", 1);
        test_problem_build(&p);
        assert_ok(test_problem_open(&p));
        unsetenv("CKV_CPU_ISA");
        assert_ok(ckv_plan_query(p.plan, &p.info));
        assert_string_equal(p.info.device, "portable");
        if (threads == 1)
            few = p.info.workspace;
        assert_true(p.info.workspace <= 2 * few + ((size_t)threads << 15));
        test_problem_close(&p);
    }
}

/* A child of a process that has had OpenMP's threads works, alone. */
static void test_fork(void **state)
{
    test_outcome want;
    int status = 0;
    pid_t child;
    (void)state;
    want = solve_with(4, "cpu", NULL, 3, NULL);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); /* a hang ends here, by a signal */
        test_outcome got = solve_with(4, "cpu", NULL, 3, NULL);
        _exit(got.attention == want.attention && got.norm == want.norm && got.evict == want.evict ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The first of an instruction set that this machine has not; NULL where it has all of them. */
static const char *missing_isa(void)
{
    for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++)
        if (!ckv_cpu_kernels_list[i]->usable())
            return ckv_cpu_kernels_list[i]->isa;
    return NULL;
}

/* What is asked for and not there is no reason to take something else: neither by name nor by "auto", whose next
 * is slower by far. */
static void test_unusable_instruction_set(void **state)
{
    const char *const isas[] = {"z80", "AVX2 ", missing_isa()};
    const char *const backends[] = {"cpu", "auto"};
    const char *disabled = getenv("CKV_DISABLE");
    char was[100], text[200];
    ckv_context *context;
    (void)state;
    snprintf(was, sizeof was, "%s", disabled == NULL ? "" : disabled);
    setenv("CKV_DISABLE", "cuda,hip,opencl", 1);
    for (size_t i = 0; i < 3 && isas[i] != NULL; i++) {
        setenv("CKV_CPU_ISA", isas[i], 1);
        for (int k = 0; k < 2; k++) {
            assert_fails(test_create(backends[k], NULL, &context), CKV_ERROR_UNAVAILABLE,
                         k == 0 ? "options.backend 'cpu': CKV_CPU_ISA '" : "auto: CKV_CPU_ISA '");
            snprintf(text, sizeof text, "CKV_CPU_ISA '%s': %s, wanted one of: ", isas[i],
                     i < 2 ? "no such instruction set" : "not on this machine");
            assert_detail(text);
            assert_detail("portable");
            assert_detail("there is: ref:0 (scalar reference); not: ");
            for (int n = 0; ckv_cpu_kernels_list[n] != NULL; n++)
                assert_detail(ckv_cpu_kernels_list[n]->isa);
        }
        /* Nobody asks for the CPU: nobody asks for its instruction set. */
        assert_ok(test_create("ref", NULL, &context));
        int32_t row = 0;
        ckv_device_info info = {.struct_size = sizeof info};
        do
            assert_ok(ckv_device_query(context, row++, &info));
        while (strcmp(info.backend, "cpu") != 0);
        assert_int_equal(info.available, 0);
        unsetenv("CKV_CPU_ISA"); /* the row is this context's, which was made with it */
        assert_non_null(strstr(info.reason, text));
        assert_ok(ckv_device_query(context, row - 1, &info));
        assert_non_null(strstr(info.reason, text));
        ckv_context_destroy(context);
    }
    setenv("CKV_CPU_ISA", "", 1); /* nothing is asked for */
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "cpu:0");
    ckv_context_destroy(context);
    setenv("CKV_CPU_ISA", "z80", 1);
    setenv("CKV_DISABLE", "cuda,hip,opencl,cpu", 1);
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "ref:0");
    ckv_context_destroy(context);
    unsetenv("CKV_CPU_ISA");
    if (disabled == NULL)
        unsetenv("CKV_DISABLE");
    else
        setenv("CKV_DISABLE", was, 1);
}

/* How many threads a context's calls have: as many as its device is said to have for tuning. */
static int32_t units_of(int32_t threads)
{
    ckv_context_options options;
    ckv_context *context;
    int32_t units;
    ckv_context_options_init(&options);
    options.backend = "cpu";
    options.threads = threads;
    assert_ok(ckv_context_create(&options, &context));
    units = context->threads;
    ckv_context_destroy(context);
    return units;
}

static void test_threads_of_the_environment(void **state)
{
    static const char *const wrong[] = {
        "0", "-1", "1025", "99999999999999999999", "4294967297", "two", "2x", "2 ", " 2", "2,2,2", "0x2", "+2", "1e1"};
    static const char *const right[] = {"1", "3", "007", "1024"};
    static const int32_t number[] = {1, 3, 7, 1024};
    static const char *const backends[] = {"cpu", "ref", NULL};
    const char *text = getenv("CKV_NUM_THREADS");
    char was[32];
    ckv_context *context;
    int32_t usual;
    (void)state;
    snprintf(was, sizeof was, "%s", text == NULL ? "" : text);
    unsetenv("CKV_NUM_THREADS");
    usual = units_of(0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char wanted[120];
        setenv("CKV_NUM_THREADS", wrong[i], 1);
        snprintf(wanted, sizeof wanted, "CKV_NUM_THREADS '%s', wanted a number of threads from 1 to 1024", wrong[i]);
        for (size_t k = 0; k < sizeof backends / sizeof backends[0]; k++) {
            assert_fails(test_create(backends[k], NULL, &context), CKV_ERROR_INVALID_ARGUMENT, wanted);
            assert_null(context);
        }
        assert_int_equal(units_of(2), 2); /* who says it is not held to the environment */
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        setenv("CKV_NUM_THREADS", right[i], 1);
        assert_int_equal(units_of(0), number[i]);
        assert_int_equal(units_of(2), 2);
    }
    setenv("CKV_NUM_THREADS", "", 1);
    assert_int_equal(units_of(0), usual);
    setenv("CKV_NUM_THREADS", was, 1);
    if (was[0] == '\0')
        unsetenv("CKV_NUM_THREADS");
}

static void test_unusable_threads(void **state)
{
    ckv_context_options options;
    ckv_context *context;
    (void)state;
    ckv_context_options_init(&options);
    options.backend = "cpu";
    options.threads = -1;
    assert_fails(ckv_context_create(&options, &context), CKV_ERROR_INVALID_ARGUMENT, "threads -1");
    options.threads = 0;
    options.parallel_for = backwards;
    assert_fails(ckv_context_create(&options, &context), CKV_ERROR_INVALID_ARGUMENT, "width of parallel_for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_instruction_set),
        cmocka_unit_test(test_comparison_can_fail),
        cmocka_unit_test(test_projection_of_another_context),
        cmocka_unit_test(test_choice_is_kept),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_unusable_instruction_set),
        cmocka_unit_test(test_threads_of_the_environment),
        cmocka_unit_test(test_unusable_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
