/* SPDX-License-Identifier: Apache-2.0 */
/* What tuners ask of the library: times of stages on any backend, and the model's opinion. */
#include "unit.h"

#include "sim.h"

static const char *const stages[] = {"score", "norm", "select", "compact", "evict"};

static void open_layer(test_problem *p, const char *backend, int64_t tokens)
{
    test_problem_init(p, 2, 2, tokens, 8, 32, 32, 64);
    test_problem_build(p);
    test_problem_randomize(p, 5);
    p->options.backend = backend;
    assert_ok(test_problem_open(p));
    assert_ok(test_stages(p));
}

static ckv_inputs inputs_of(const test_problem *p)
{
    ckv_inputs inputs;
    ckv_inputs_init(&inputs);
    inputs.query = &p->tensor[TEST_QUERY].view;
    inputs.key = &p->tensor[TEST_KEY].view;
    inputs.value = &p->tensor[TEST_VALUE].view;
    inputs.projection = p->projection;
    inputs.attention = &p->attention.view;
    inputs.norm = &p->norm.view;
    inputs.selection = &p->selection;
    return inputs;
}

/* Each stage has a time for each repeat, and nothing of the caller's changes. */
static void measure_all(const char *backend, int64_t tokens)
{
    test_problem p;
    double seconds[12];
    open_layer(&p, backend, tokens);
    ckv_inputs inputs = inputs_of(&p);
    test_remember(&p);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        for (int k = 0; k < 12; k++)
            seconds[k] = -1;
        assert_ok(ckv_measure(p.plan, stages[i], &inputs, 11, seconds)); /* more than one batch */
        for (int k = 0; k < 11; k++)
            assert_true(seconds[k] >= 0 && seconds[k] < 60);
        assert_true(seconds[11] == -1);
    }
    assert_true(test_all_unchanged(&p));
    test_problem_close(&p);
}

static void test_every_stage_on_the_host(void **state)
{
    (void)state;
    measure_all("ref", 61);
    measure_all("cpu", 261);
}

static void test_every_stage_on_a_device(void **state)
{
    const char *absence = test_sim_load();
    (void)state;
    if (absence != NULL)
        skip_because(absence);
    sim.ckv_sim_reset();
    measure_all("cuda", 61);
    measure_all("hip", 61);
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

/* Whatever call fails: an error, and nothing left on the device or with the host. */
static void test_a_failing_device(void **state)
{
    const char *absence = test_sim_load();
    test_problem p;
    double seconds[3];
    (void)state;
    if (absence != NULL)
        skip_because(absence);
    sim.ckv_sim_reset();
    open_layer(&p, "cuda", 61);
    ckv_inputs inputs = inputs_of(&p);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        int64_t before, calls;
        ckv_sim_live live;
        assert_ok(ckv_measure(p.plan, stages[i], &inputs, 3, seconds));
        live = sim.ckv_sim_counts(); /* with what calls on host memory keep for the next */
        before = sim.ckv_sim_calls();
        assert_ok(ckv_measure(p.plan, stages[i], &inputs, 3, seconds));
        calls = sim.ckv_sim_calls() - before;
        assert_true(calls > 20);
        int64_t failed = 0, tried = 0;
        for (int64_t nth = 1; nth <= calls; nth += 3) {
            ckv_sim_live now;
            sim.ckv_sim_reset();
            sim.ckv_sim_fail("any", nth, 0);
            test_remember(&p);
            ckv_status status = ckv_measure(p.plan, stages[i], &inputs, 3, seconds);
            /* Asking whose memory it is can fail too; nobody is told of a failing release. */
            assert_true(status == CKV_OK || status == CKV_ERROR_DEVICE || status == CKV_ERROR_INVALID_ARGUMENT);
            failed += status != CKV_OK;
            tried++;
            assert_true(test_all_unchanged(&p));
            sim.ckv_sim_reset();
            assert_ok(ckv_measure(p.plan, stages[i], &inputs, 1, seconds));
            now = sim.ckv_sim_counts();
            assert_int_equal(now.memory, live.memory);
            assert_int_equal(now.events, live.events);
        }
        assert_true(failed * 2 > tried);
        sim.ckv_sim_reset();
    }
    test_problem_close(&p);
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

/* Of something else than nothing: more work takes longer. */
static void test_time_follows_work(void **state)
{
    test_problem p;
    double few[5], many[5], least_few = 1e9, least_many = 1e9;
    (void)state;
    open_layer(&p, "ref", 40);
    ckv_inputs inputs = inputs_of(&p);
    assert_ok(ckv_measure(p.plan, "norm", &inputs, 5, few));
    test_problem_close(&p);
    open_layer(&p, "ref", 1200);
    inputs = inputs_of(&p);
    assert_ok(ckv_measure(p.plan, "norm", &inputs, 5, many));
    test_problem_close(&p);
    for (int i = 0; i < 5; i++) {
        least_few = few[i] < least_few ? few[i] : least_few;
        least_many = many[i] < least_many ? many[i] : least_many;
    }
    assert_true(least_many > 5 * least_few);
}

static void test_wrong_arguments(void **state)
{
    test_problem p;
    double seconds[2] = {-1, -1};
    (void)state;
    open_layer(&p, "cpu", 61);
    ckv_inputs inputs = inputs_of(&p), without = inputs;
    assert_fails(ckv_measure(NULL, "score", &inputs, 1, seconds), CKV_ERROR_INVALID_ARGUMENT, "plan");
    assert_fails(ckv_measure(p.plan, NULL, &inputs, 1, seconds), CKV_ERROR_INVALID_ARGUMENT, "stage");
    assert_fails(ckv_measure(p.plan, "scores", &inputs, 1, seconds), CKV_ERROR_INVALID_ARGUMENT, "'scores', wanted");
    assert_fails(ckv_measure(p.plan, "score", NULL, 1, seconds), CKV_ERROR_INVALID_ARGUMENT, "inputs");
    assert_fails(ckv_measure(p.plan, "score", &inputs, 0, seconds), CKV_ERROR_INVALID_ARGUMENT, "repeats: 0");
    assert_fails(ckv_measure(p.plan, "score", &inputs, 1001, seconds), CKV_ERROR_INVALID_ARGUMENT, "repeats: 1001");
    assert_fails(ckv_measure(p.plan, "score", &inputs, 1, NULL), CKV_ERROR_INVALID_ARGUMENT, "seconds");
    without.value = NULL;
    assert_fails(ckv_measure(p.plan, "compact", &without, 1, seconds), CKV_ERROR_INVALID_ARGUMENT, "from");
    assert_fails(ckv_measure(p.plan, "norm", &without, 1, seconds), CKV_ERROR_INVALID_ARGUMENT, "value");
    without = inputs;
    without.key = &p.attention.view; /* of rank 2 */
    assert_fails(ckv_measure(p.plan, "compact", &without, 1, seconds), CKV_ERROR_SHAPE, "from");
    assert_true(seconds[0] == -1);
    test_problem_close(&p);
}

/* ------------------------------------------------------------------ the model */

static int32_t index_of(const ckv_context *context, const char *name, ckv_tunable_info *info)
{
    for (int32_t i = 0; i < ckv_tunable_count(context); i++) {
        *info = (ckv_tunable_info){.struct_size = sizeof *info};
        assert_ok(ckv_tunable_query(context, i, info));
        if (strcmp(info->name, name) == 0)
            return i;
    }
    fail_msg("no tunable %s", name);
    return -1;
}

static double estimate(const test_problem *p, const char *stage, const int32_t *values)
{
    double seconds = -1;
    assert_ok(ckv_estimate(p->plan, stage, values, &seconds));
    return seconds;
}

static void test_model(void **state)
{
    test_problem p;
    int32_t values[32];
    double own[5];
    ckv_tunable_info info;
    (void)state;
    open_layer(&p, "cpu", 961);
    for (int32_t i = 0; i < ckv_tunable_count(p.context); i++) {
        ckv_parameter parameter = {.struct_size = sizeof parameter};
        assert_ok(ckv_plan_parameter(p.plan, i, &parameter));
        values[i] = parameter.value;
    }
    for (int i = 0; i < 5; i++) {
        own[i] = estimate(&p, stages[i], NULL);
        assert_true(own[i] > 0);
        assert_true(estimate(&p, stages[i], values) == own[i]);
    }
    /* Plain C takes longest, wherever there is anything else; its number is the last. */
    int32_t isa = index_of(p.context, "isa", &info);
    assert_int_equal(info.scope, CKV_SCOPE_CONTEXT);
    if (values[isa] != info.values[info.count - 1]) {
        values[isa] = info.values[info.count - 1];
        assert_true(estimate(&p, "norm", values) > own[1]);
        assert_true(estimate(&p, "score", values) > own[0]);
        assert_true(estimate(&p, "select", values) == own[2]);
    }
    values[isa] = 77;
    double seconds = -1;
    assert_fails(ckv_estimate(p.plan, "norm", values, &seconds), CKV_ERROR_INVALID_ARGUMENT, "isa");
    assert_fails(ckv_estimate(p.plan, "all", NULL, &seconds), CKV_ERROR_INVALID_ARGUMENT, "'all'");
    assert_fails(ckv_estimate(NULL, "norm", NULL, &seconds), CKV_ERROR_INVALID_ARGUMENT, "plan");
    assert_fails(ckv_estimate(p.plan, "norm", NULL, NULL), CKV_ERROR_INVALID_ARGUMENT, "seconds");
    assert_true(seconds == -1);
    index_of(p.context, "norm_block", &info);
    assert_int_equal(info.scope, CKV_SCOPE_PLAN);
    test_problem_close(&p);
    open_layer(&p, "ref", 61);
    assert_true(estimate(&p, "norm", NULL) == 0);
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_stage_on_the_host), cmocka_unit_test(test_every_stage_on_a_device),
        cmocka_unit_test(test_a_failing_device),        cmocka_unit_test(test_time_follows_work),
        cmocka_unit_test(test_wrong_arguments),         cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
