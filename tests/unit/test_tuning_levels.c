/* SPDX-License-Identifier: Apache-2.0 */
/* Where values come from: each level of the look-up by a file made for it, what is stale or
 * foreign, what the status says; and no trace of any of it in a result. */
#include "unit.h"

#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/context.h"
#include "lib/plan.h"
#include "lib/tuning_store.h"
#include "tuning.h"

/* ------------------------------------------------------------------ the layer */

static void open_layer(test_problem *p)
{
    test_problem_init(p, 2, 3, 130, 16, 20, 33, 300);
    test_problem_build(p);
    test_problem_randomize(p, 78);
    p->options.backend = "cpu";
    p->options.threads = 1; /* no threads that wait for each other */
    assert_ok(test_problem_open(p));
}

static ckv_parameter value_of(const test_problem *p, const char *name)
{
    ckv_parameter parameter = {.struct_size = sizeof parameter};
    for (int32_t i = 0; i < ckv_tunable_count(p->context); i++) {
        ckv_tunable_info info = {.struct_size = sizeof info};
        assert_ok(ckv_tunable_query(p->context, i, &info));
        if (strcmp(info.name, name) == 0) {
            assert_ok(ckv_plan_parameter(p->plan, i, &parameter));
            return parameter;
        }
    }
    fail_msg("no tunable %s", name);
    return parameter;
}

static ckv_tuning_info status_of(const test_problem *p)
{
    ckv_tuning_info info = {.struct_size = sizeof info};
    assert_ok(ckv_tuning_status(p->context, &info));
    return info;
}

/* The layer under the files that there are; its values, its status, its bits. */
typedef struct outcome {
    ckv_parameter norm, bound, skip;
    int32_t accepted, foreign, skipped, trouble;
    char reason[200];
} outcome;

static uint64_t wanted_hash;

static outcome run(void)
{
    test_problem p;
    outcome o;
    ckv_tuning_info info;
    uint64_t hash;
    open_layer(&p);
    o.norm = value_of(&p, "norm_block");
    o.bound = value_of(&p, "bound_block");
    o.skip = value_of(&p, "skip_factor");
    info = status_of(&p);
    o.accepted = info.accepted;
    o.foreign = info.foreign;
    o.skipped = info.skipped;
    o.trouble = info.trouble;
    snprintf(o.reason, sizeof o.reason, "%s", info.reason);
    assert_ok(test_stages(&p));
    hash = test_hash_attention(&p) ^ 3 * test_hash_norm(&p) ^ 5 * test_hash_selection(&p);
    if (wanted_hash == 0)
        wanted_hash = hash;
    assert_true(hash == wanted_hash);
    assert_true(test_all_intact(&p));
    test_problem_close(&p);
    return o;
}

#define assert_norm(o, number, from)                                                                                   \
    do {                                                                                                               \
        assert_string_equal(ckv_source_string((o).norm.source), from);                                                 \
        assert_int_equal((o).norm.value, number);                                                                      \
    } while (0)

/* ------------------------------------------------------------------ files */

static char user_file[300], shipped_file[300];

static int setup(void **state)
{
    (void)state;
    snprintf(user_file, sizeof user_file, "%s", tuning_path("user.json"));
    snprintf(shipped_file, sizeof shipped_file, "%s", tuning_path("shipped.json"));
    setenv("CKV_TUNE_CACHE", user_file, 1);
    setenv("CKV_TUNE_DEFAULTS", shipped_file, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tuning_remove();
    return 0;
}

/* An entry for the layer on this very device. */
static ckv_tuning_entry entry_here(const char *stage, ckv_tuning_scope scope)
{
    const ckv_problem problem = {130, 16, 50, 6, 2, 20, 33, 300};
    ckv_tuning_entry e;
    test_problem p;
    open_layer(&p);
    e = p.context->tuning->self;
    test_problem_close(&p);
    snprintf(e.stage, sizeof e.stage, "%s", stage);
    e.scope = scope;
    ckv_bucket_of(&problem, stage, scope, &e.bucket);
    e.time_ns = 1000;
    e.default_ns = 1100;
    snprintf(e.date, sizeof e.date, "2026-01-31");
    return e;
}

static ckv_tuning_entry norm_entry(int32_t block)
{
    ckv_tuning_entry e = entry_here("norm", CKV_TUNE_PLAN);
    e.count = 1;
    snprintf(e.values[0].name, sizeof e.values[0].name, "norm_block");
    e.values[0].number = block;
    return e;
}

static ckv_tuning_entry evict_entry(int32_t block, int32_t factor)
{
    ckv_tuning_entry e = entry_here("evict", CKV_TUNE_PLAN);
    e.count = 2;
    snprintf(e.values[0].name, sizeof e.values[0].name, "bound_block");
    e.values[0].number = block;
    snprintf(e.values[1].name, sizeof e.values[1].name, "skip_factor");
    e.values[1].number = factor;
    return e;
}

static void put(const char *path, const ckv_tuning_entry *e)
{
    ckv_tuning_report report;
    if (!ckv_tuning_file_write(path, e, 1, NULL, &report))
        fail_msg("%s", report.reason);
}

/* Four times the tokens. */
static ckv_tuning_entry elsewhere(ckv_tuning_entry e, int times)
{
    e.bucket.size[CKV_BUCKET_TOKENS] *= times;
    return e;
}

/* ------------------------------------------------------------------ levels */

/* Each level with all the later ones there. */
static void test_every_level(void **state)
{
    ckv_tuning_entry e;
    (void)state;
    assert_norm(run(), 96, "model");

    e = norm_entry(192);
    strcpy(e.device.name, "another");
    strcpy(e.device.arch, "another");
    put(shipped_file, &e);
    assert_norm(run(), 192, "vendor");

    e = norm_entry(288);
    strcpy(e.device.name, "another");
    put(shipped_file, &e);
    assert_norm(run(), 288, "architecture");

    e = elsewhere(norm_entry(384), 4);
    put(shipped_file, &e);
    assert_norm(run(), 384, "device");

    e = elsewhere(norm_entry(192), 2); /* nearer */
    put(user_file, &e);
    assert_norm(run(), 192, "device");

    e = norm_entry(288);
    put(shipped_file, &e);
    assert_norm(run(), 288, "shipped file");

    e = norm_entry(384);
    put(user_file, &e);
    assert_norm(run(), 384, "user file");

    setenv("CKV_PARAMETERS", "norm_block=192", 1);
    assert_norm(run(), 192, "environment");
    unsetenv("CKV_PARAMETERS");

    test_problem p;
    test_problem_init(&p, 2, 3, 130, 16, 20, 33, 300);
    test_problem_build(&p);
    p.options.backend = "cpu";
    p.options.threads = 1; /* no threads that wait for each other */
    p.options.parameters = "norm_block=96";
    assert_ok(test_problem_open(&p));
    assert_string_equal(ckv_source_string(value_of(&p, "norm_block").source), "override");
    test_problem_close(&p);

    setenv("CKV_TUNE_CACHE", "off", 1);
    assert_norm(run(), 96, "model");
    assert_int_equal(run().accepted, 0);
}

/* The user's file speaks of its devices and its code alone: whatever differs, it is a miss.
 * In the shipped file another device or other code is good for a later level. */
static void test_what_is_stale_or_foreign(void **state)
{
    (void)state;
    for (int what = 0; what < 10; what++) {
        static const char *const shipped[] = {"model",  "model",  "vendor", "architecture", "device",
                                              "device", "device", "device", "architecture", "architecture"};
        ckv_tuning_entry e = norm_entry(192);
        switch (what) {
        case 0:
            strcpy(e.backend, "cuda");
            break;
        case 1:
            strcpy(e.device.vendor, "another");
            break;
        case 2:
            strcat(e.device.arch, "x");
            break;
        case 3:
            strcat(e.device.name, "x");
            break;
        case 4:
            strcat(e.device.driver, "x");
            break;
        case 5:
            strcpy(e.library, "0.0.9");
            break;
        case 6:
            e.device.kernels ^= 1;
            break;
        case 7: /* a shipped one is not of this problem */
            e = elsewhere(e, 1024);
            break;
        case 8:
            e.device.units++;
            break;
        case 9:
            e.device.memory_bytes = (int64_t)1 << 30;
            break;
        }
        put(user_file, &e);
        for (int again = 0; again < 2; again++) { /* and after another entry was saved */
            outcome o = run();
            assert_norm(o, what == 7 ? 192 : 96, what == 7 ? "device" : "model");
            assert_int_equal(o.foreign, what == 7 ? 0 : 1);
            assert_int_equal(o.skipped, 0);
            assert_int_equal(o.trouble, 0);
            ckv_tuning_entry other = evict_entry(192, 2);
            put(user_file, &other);
            assert_string_equal(ckv_source_string(run().bound.source), "user file");
        }
        unlink(user_file);
        put(shipped_file, &e);
        assert_norm(run(), strcmp(shipped[what], "model") == 0 ? 96 : 192, shipped[what]);
        unlink(shipped_file);
    }
}

/* One stage's values come from one entry: a half one is none, and one with a value that is
 * none is none. */
static void test_whole_configurations(void **state)
{
    static const struct {
        const char *name, *label;
        int32_t number;
        const char *reason;
    } bad[] = {
        {"skip_factor", "", 3, ": entry 1: values.skip_factor: 3, wanted a value that this device takes"},
        {"skip_factor", "", 0, ": entry 1: values.skip_factor: 0, wanted a value that this device takes"},
        {"skip_factor", "", INT32_MAX, ": entry 1: values.skip_factor: 2147483647, wanted a value"},
        {"skip_factor", "four", 0, ": entry 1: values.skip_factor: four, wanted a value that this device takes"},
        {"skip_factr", "", 4, ": entry 1: values.skip_factr: no parameter of stage 'evict' of backend 'cpu'"},
        {"norm_block", "", 192, ": entry 1: values.norm_block: no parameter of stage 'evict' of backend 'cpu'"},
    };
    ckv_tuning_entry e = evict_entry(192, 8);
    outcome o;
    (void)state;
    put(shipped_file, &e);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        e = evict_entry(384, 4);
        snprintf(e.values[1].name, sizeof e.values[1].name, "%s", bad[i].name);
        snprintf(e.values[1].label, sizeof e.values[1].label, "%s", bad[i].label);
        e.values[1].number = bad[i].number;
        put(user_file, &e);
        o = run();
        assert_int_equal(o.bound.value, 192);
        assert_int_equal(o.skip.value, 8);
        assert_string_equal(ckv_source_string(o.bound.source), "shipped file");
        assert_string_equal(ckv_source_string(o.skip.source), "shipped file");
        assert_int_equal(o.skipped, 1);
        assert_int_equal(o.trouble, 1);
        if (strstr(o.reason, bad[i].reason) == NULL)
            fail_msg("%s", o.reason);
    }
    e = evict_entry(384, 4);
    e.count = 1;
    put(user_file, &e);
    o = run();
    assert_int_equal(o.bound.value, 192);
    assert_non_null(strstr(o.reason, ": entry 1: values.skip_factor: missing, wanted all of the stage"));

    e = evict_entry(384, 2); /* two halves of different distance */
    put(user_file, &e);
    e = elsewhere(evict_entry(48, 1), 2);
    put(user_file, &e);
    setenv("CKV_PARAMETERS", "skip_factor=64", 1);
    o = run();
    unsetenv("CKV_PARAMETERS");
    assert_int_equal(o.bound.value, 384);
    assert_string_equal(ckv_source_string(o.bound.source), "user file");
    assert_int_equal(o.skip.value, 64);
}

/* Labels, and a label that this machine has not: then no entry of the file is of use. */
static void test_context_values(void **state)
{
    ckv_tuning_entry e = entry_here("all", CKV_TUNE_CONTEXT);
    test_problem p;
    (void)state;
    e.count = 1;
    strcpy(e.values[0].name, "isa");
    strcpy(e.values[0].label, "portable");
    put(user_file, &e);
    open_layer(&p);
    assert_string_equal(ckv_source_string(value_of(&p, "isa").source), "user file");
    assert_string_equal(p.info.device, "portable");
    test_problem_close(&p);
    assert_norm(run(), 96, "model");
    strcpy(e.values[0].label, "sse9");
    put(user_file, &e);
    assert_int_equal(run().skipped, 1);
    e.values[0].label[0] = '\0'; /* numbers of labels are not stable */
    put(user_file, &e);
    assert_int_equal(run().skipped, 1);
}

/* ------------------------------------------------------------------ saving */

static void test_save(void **state)
{
    test_problem p;
    outcome o;
    (void)state;
    setenv("CKV_PARAMETERS", "norm_block=288,bound_block=48,skip_factor=16", 1);
    open_layer(&p);
    unsetenv("CKV_PARAMETERS");
    assert_ok(ckv_tuning_check(p.context));
    assert_ok(ckv_tuning_save(p.plan, "norm", 0.001, 0.002));
    assert_ok(ckv_tuning_save(p.plan, "evict", 0.001, 0.002));
    assert_ok(ckv_tuning_save(p.plan, "all", 0.001, 0.002));
    o = run();
    assert_norm(o, 288, "user file");
    assert_int_equal(o.bound.value, 48);
    assert_int_equal(o.skip.value, 16);
    assert_int_equal(o.accepted, 3);
    assert_int_equal(status_of(&p).accepted, 0); /* that context is as it was */
    assert_fails(ckv_tuning_save(p.plan, "cook", 1, 1), CKV_ERROR_INVALID_ARGUMENT, "stage: 'cook': backend 'cpu'");
    assert_fails(ckv_tuning_save(p.plan, "norm", -1, 1), CKV_ERROR_INVALID_ARGUMENT, "seconds: -1, wanted 0 to 10^6");
    assert_fails(ckv_tuning_save(p.plan, "norm", 1, 1e7), CKV_ERROR_INVALID_ARGUMENT, "model_seconds: 1e+07");
    assert_fails(ckv_tuning_save(NULL, "norm", 1, 1), CKV_ERROR_INVALID_ARGUMENT, "plan: NULL");
    assert_fails(ckv_tuning_save(p.plan, NULL, 1, 1), CKV_ERROR_INVALID_ARGUMENT, "stage: NULL");
    test_problem_close(&p);
    setenv("CKV_TUNE_CACHE", tuning_folder(), 1);
    open_layer(&p);
    assert_fails(ckv_tuning_save(p.plan, "norm", 1, 1), CKV_ERROR_UNAVAILABLE, "not a file");
    assert_fails(ckv_tuning_check(p.context), CKV_ERROR_UNAVAILABLE, "not a file");
    assert_detail(tuning_folder());
    test_problem_close(&p);
    setenv("CKV_TUNE_CACHE", "off", 1);
    open_layer(&p);
    assert_fails(ckv_tuning_save(p.plan, "norm", 1, 1), CKV_ERROR_UNAVAILABLE, "switched off by CKV_TUNE_CACHE");
    assert_fails(ckv_tuning_check(p.context), CKV_ERROR_UNAVAILABLE, "switched off by CKV_TUNE_CACHE");
    assert_fails(ckv_tuning_check(NULL), CKV_ERROR_INVALID_ARGUMENT, "context: NULL");
    test_problem_close(&p);
}

/* ------------------------------------------------------------------ where files are */

static void test_paths(void **state)
{
    char home[400], cache[400], before[5000];
    const char *was = getenv("HOME");
    test_problem p;
    (void)state;
    snprintf(before, sizeof before, "%s", was == NULL ? "" : was);
    snprintf(home, sizeof home, "%s", tuning_path("home"));
    snprintf(cache, sizeof cache, "%s", tuning_path("cache"));
    setenv("CKV_TUNE_CACHE", "", 1); /* as if it were not there */
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home, 1);
    open_layer(&p);
    assert_non_null(strstr(status_of(&p).path, "/cache/ckv/tuning.json"));
    assert_ok(ckv_tuning_save(p.plan, "norm", 1, 1));
    assert_int_equal(access(tuning_path("cache/ckv/tuning.json"), F_OK), 0);
    test_problem_close(&p);
    setenv("XDG_CACHE_HOME", "relative", 1);
    open_layer(&p);
    assert_non_null(strstr(status_of(&p).path, "/home/.cache/ckv/tuning.json"));
    test_problem_close(&p);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/nonexistent", 1);
    assert_int_equal(run().trouble, 0);
    unsetenv("HOME");
    open_layer(&p);
    assert_string_equal(status_of(&p).path, "");
    assert_int_equal(status_of(&p).trouble, 0);
    assert_non_null(strstr(status_of(&p).reason, "neither CKV_TUNE_CACHE, XDG_CACHE_HOME nor HOME"));
    assert_fails(ckv_tuning_save(p.plan, "norm", 1, 1), CKV_ERROR_UNAVAILABLE, "neither CKV_TUNE_CACHE");
    test_problem_close(&p);
    assert_norm(run(), 96, "model");
    if (was != NULL)
        setenv("HOME", before, 1);
}

/* Bits and success under each of these, and what the status says. */
static void test_files_that_are_none(void **state)
{
    ckv_tuning_entry e = norm_entry(192);
    size_t size;
    char *whole;
    (void)state;
    put(user_file, &e);
    whole = tuning_get(user_file, &size);
    for (size_t n = 0; n + 1 < size; n += 11) { /* without its last newline it is whole */
        outcome o;
        tuning_put(user_file, whole, n);
        o = run();
        assert_true(o.trouble);
        assert_norm(o, o.accepted == 1 ? 192 : 96, o.accepted == 1 ? "user file" : "model");
        assert_non_null(strstr(o.reason, n == 0 ? "empty" : "damaged"));
        whole[n] ^= 4;
        tuning_put(user_file, whole, size);
        o = run();
        assert_true(o.trouble);
        whole[n] ^= 4;
    }
    free(whole);
    unlink(user_file);
    assert_int_equal(run().trouble, 0);
    assert_int_equal(mkdir(user_file, 0700), 0);
    assert_int_equal(run().trouble, 1);
    rmdir(user_file);
    assert_int_equal(mkfifo(user_file, 0600), 0);
    assert_int_equal(run().trouble, 1); /* and returns */
    setenv("CKV_TUNE_CACHE", "/dev/zero", 1);
    assert_int_equal(run().trouble, 1);
    setenv("CKV_TUNE_CACHE", "/proc/self/mem", 1);
    assert_norm(run(), 96, "model");
}

/* ------------------------------------------------------------------ disk access */

/* How many times something in the folder was opened, read, made or looked through. */
static int events(int watch)
{
    char room[8192] __attribute__((aligned(8)));
    int count = 0;
    for (;;) {
        ssize_t got = read(watch, room, sizeof room);
        if (got <= 0)
            return count;
        for (char *at = room; at < room + got; count++)
            at += sizeof(struct inotify_event) + ((struct inotify_event *)(void *)at)->len;
    }
}

static void test_no_disk_access(void **state)
{
    ckv_tuning_entry e = norm_entry(192);
    test_problem p;
    int watch = inotify_init1(IN_NONBLOCK);
    (void)state;
    put(user_file, &e);
    put(shipped_file, &e);
    if (watch < 0 || inotify_add_watch(watch, tuning_folder(), IN_ALL_EVENTS) < 0)
        skip_because("no inotify");
    setenv("XDG_CACHE_HOME", tuning_folder(), 1);
    setenv("CKV_TUNE_CACHE", "off", 1);
    run();
    assert_int_equal(events(watch), 0);
    setenv("CKV_TUNE_CACHE", user_file, 1);
    open_layer(&p);
    if (events(watch) == 0) {
        test_problem_close(&p);
        skip_because("inotify sees nothing here");
    }
    ckv_plan *plan; /* from here on nothing more */
    assert_ok(ckv_plan_create(p.context, &p.shape, &p.policy, &plan));
    ckv_plan_destroy(plan);
    assert_ok(test_stages(&p));
    (void)status_of(&p);
    assert_int_equal(events(watch), 0);
    test_problem_close(&p);
    assert_int_equal(events(watch), 0);
    close(watch);
    unsetenv("XDG_CACHE_HOME");
}

/* ------------------------------------------------------------------ without libjansson */

static const char *own_path;

/* In a process that finds something else by that name. */
static void test_no_libjansson(void **state)
{
    ckv_tuning_entry e = norm_entry(192);
    int status;
    pid_t child;
    (void)state;
    put(user_file, &e);
    tuning_put(tuning_path("libjansson.so.4"), "no library", 10);
    child = fork();
    if (child == 0) {
        setenv("LD_LIBRARY_PATH", tuning_folder(), 1);
        setenv("CKV_TEST_NO_JSON", "1", 1);
        execl(own_path, own_path, (char *)NULL);
        _exit(99);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int run_without(void)
{
    ckv_context *context;
    ckv_context_options options;
    ckv_tuning_info info = {.struct_size = sizeof info};
    ckv_context_options_init(&options);
    options.backend = "cpu";
    if (ckv_context_create(&options, &context) != CKV_OK || ckv_tuning_status(context, &info) != CKV_OK)
        return 1;
    if (info.accepted != 0 || !info.trouble || strstr(info.reason, "libjansson.so.4") == NULL)
        return 2;
    ckv_context_destroy(context);
    setenv("CKV_TUNE_CACHE", "off", 1);
    if (ckv_context_create(&options, &context) != CKV_OK || ckv_tuning_status(context, &info) != CKV_OK)
        return 3;
    ckv_context_destroy(context);
    return info.trouble ? 4 : 0;
}

static void test_errors(void **state)
{
    ckv_tuning_info info = {.struct_size = sizeof info};
    test_problem p;
    (void)state;
    assert_fails(ckv_tuning_status(NULL, &info), CKV_ERROR_INVALID_ARGUMENT, "context: NULL");
    open_layer(&p);
    assert_fails(ckv_tuning_status(p.context, NULL), CKV_ERROR_INVALID_ARGUMENT, "info: NULL");
    info.struct_size = 8;
    assert_fails(ckv_tuning_status(p.context, &info), CKV_ERROR_INVALID_ARGUMENT, "info: struct_size 8");
    assert_non_null(strstr(status_of(&p).device, "cpu, "));
    test_problem_close(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_level, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_stale_or_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_configurations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_context_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_save, setup, teardown),
        cmocka_unit_test_setup_teardown(test_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_disk_access, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_libjansson, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
    };
    (void)argc;
    own_path = argv[0];
    if (getenv("CKV_TEST_NO_JSON") != NULL)
        return run_without();
    unsetenv("CKV_PARAMETERS");
    unsetenv("CKV_CPU_ISA");
    return tuning_run(tests);
}
