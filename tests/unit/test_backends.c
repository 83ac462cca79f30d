/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend against the reference: every byte of every stage, for each
 * instruction set of this machine and several numbers of threads. */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/kernels.h"

typedef void pool_function(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument);

/* What a problem gave. */
typedef struct outcome {
    uint64_t attention, norm, stages, evict;
    uint32_t stage_flags, evict_flags;
} outcome;

static outcome solve(test_problem *p)
{
    outcome o;
    memset(p->workspace.data, 0xa5, p->workspace.size);
    assert_ok(test_stages(p));
    o.stage_flags = p->run.flags;
    o.attention = test_hash_attention(p);
    o.norm = test_hash_norm(p);
    o.stages = test_hash_selection(p);
    memset(p->workspace.data, 0x5a, p->workspace.size);
    assert_ok(test_evict(p));
    o.evict_flags = p->run.flags;
    o.evict = test_hash_selection(p);
    assert_true(test_all_intact(p));
    return o;
}

static void same(const char *what, int number, outcome want, outcome got)
{
    if (want.attention != got.attention || want.norm != got.norm || want.stages != got.stages ||
        want.evict != got.evict || want.stage_flags != got.stage_flags || want.evict_flags != got.evict_flags)
        fail_msg("problem %d, %s: attention %d norm %d stages %d evict %d flags %x %x, wanted %x %x", number, what,
                 want.attention == got.attention, want.norm == got.norm, want.stages == got.stages,
                 want.evict == got.evict, got.stage_flags, got.evict_flags, want.stage_flags, want.evict_flags);
}

/* Sizes around the tiles of every kernel (4, 6, 8, 12, 16, 64, 96), and any others. */
static int64_t size(test_random *r, int64_t most)
{
    static const int64_t tiles[] = {4, 6, 8, 12, 16, 64, 96, 128};
    int64_t n = tiles[test_between(r, 0, 7)] * test_between(r, 1, 3) + test_between(r, -1, 1);
    if (test_between(r, 0, 1) == 0)
        n = test_between(r, 1, most);
    return n > most ? most : n;
}

/* One random problem; the same for every backend. */
static void draw(test_problem *p, int number)
{
    static const int ranges[][2] = {{-4, 1}, {-4, 1}, {-12, 3}, {-45, 45}, {-126, 127}, {-3, -3}};
    test_random r = test_seed((uint64_t)(number * 7919 + 11));
    int32_t group = (int32_t)test_between(&r, 1, 8), heads = (int32_t)test_between(&r, 1, 3);
    int wide = number % 16 == 0; /* weights of 7 bits */
    test_problem_init(p, heads, group, size(&r, number % 8 == 0 ? 700 : 150), size(&r, 70), (int32_t)size(&r, 130),
                      (int32_t)size(&r, wide ? 20 : 140), wide ? 1024 + (int32_t)size(&r, 40) : (int32_t)size(&r, 150));
    for (int t = 0; t < TEST_TENSORS; t++) {
        const int *range = ranges[test_between(&r, 0, 5)];
        p->dtype[t] = (ckv_dtype)test_between(&r, CKV_F32, CKV_BF16);
        p->layout[t] = (test_layout)test_between(&r, 0, TEST_LAYOUTS - 1);
        p->low[t] = range[0];
        p->high[t] = range[1];
    }
    p->policy.budget = test_between(&r, 0, p->shape.tokens);
    p->policy.alpha = (ckv_ratio){test_between(&r, 0, 4), 4};
    p->policy.window = (int32_t)test_between(&r, 1, 40);
    p->policy.recent = (int32_t)test_between(&r, -1, 10);
    p->policy.sinks = (int32_t)test_between(&r, 0, 5);
    p->policy.pool = (ckv_pool)test_between(&r, 0, 2);
    p->policy.pool_width = (int32_t)test_between(&r, 1, 9);
    if (test_between(&r, 0, 3) == 0)
        p->policy.epsilon = 0x1p-24f;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
    if (number % 5 == 0) /* NaN and infinity somewhere */
        for (int t = 0; t < TEST_TENSORS; t++) {
            static const uint32_t f32[] = {0x7fc00001u, 0xff800000u}, f16[] = {0x7e01u, 0xfc00u},
                                  bf16[] = {0x7fc1u, 0xff80u};
            const uint32_t *bits = p->dtype[t] == CKV_F32 ? f32 : p->dtype[t] == CKV_F16 ? f16 : bf16;
            const int64_t *shape = p->tensor[t].cells.shape;
            if (test_between(&r, 0, 1) == 0)
                test_put_bits(&p->tensor[t], test_between(&r, 0, shape[0] - 1), test_between(&r, 0, shape[1] - 1),
                              test_between(&r, 0, shape[2] - 1), bits[test_between(&r, 0, 1)]);
        }
}

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

static outcome solve_with(int number, const char *backend, const char *isa, int32_t threads, pool_function *pool)
{
    test_problem p;
    outcome o;
    draw(&p, number);
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
    o = solve(&p);
    test_problem_close(&p);
    return o;
}

static void test_every_instruction_set(void **state)
{
    static const int32_t threads[] = {1, 2, 3, 7};
    int problems = test_light() ? 24 : 160;
    (void)state;
    for (int number = 0; number < problems; number++) {
        outcome want = solve_with(number, "ref", NULL, 0, NULL);
        for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++) {
            const ckv_cpu_kernels *kernels = ckv_cpu_kernels_list[i];
            if (kernels->usable())
                same(kernels->isa, number, want, solve_with(number, "cpu", kernels->isa, threads[number % 4], NULL));
        }
        same("a pool", number, want,
             solve_with(number, "cpu", NULL, 1 + number % 5, number % 2 == 0 ? backwards : at_once));
    }
}

/* The comparison can fail: one bit of one key shows, and one of one value. */
static void test_comparison_can_fail(void **state)
{
    outcome o[3];
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
        o[i] = solve(&p);
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
    outcome want;
    int status = 0;
    pid_t child;
    (void)state;
    want = solve_with(4, "cpu", NULL, 3, NULL);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); /* a hang ends here, by a signal */
        outcome got = solve_with(4, "cpu", NULL, 3, NULL);
        _exit(got.attention == want.attention && got.norm == want.norm && got.evict == want.evict ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_unusable_instruction_set(void **state)
{
    ckv_context_options options;
    ckv_context *context;
    (void)state;
    ckv_context_options_init(&options);
    options.backend = "cpu";
    setenv("CKV_CPU_ISA", "z80", 1);
    assert_fails(ckv_context_create(&options, &context), CKV_ERROR_UNAVAILABLE, "CKV_CPU_ISA names no instruction set");
    unsetenv("CKV_CPU_ISA");
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
