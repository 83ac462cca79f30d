/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends as modules: which file is one, what can be wrong with it, who is chosen, and
 * contexts that do not disturb each other.  tests/modules/fake.c is the module; whatever
 * it is to be, it is told by the environment when a fresh copy of it is loaded.
 */
#define _GNU_SOURCE /* mkdtemp, and what dlfcn.h has beside */
#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module.h"
#include "outcome.h"

/* ---------------------------------------------------------------- files */

static char work[64];
static const char *build;

static const char *path_of(const char *folder, const char *file)
{
    static char text[8][512];
    static int next;
    char *path = text[next++ % 8];
    snprintf(path, sizeof text[0], "%s/%s%s%s", work, folder, file[0] == '\0' ? "" : "/", file);
    return path;
}

/* A fresh copy of a shared object of tests/modules/lib/ as work/FOLDER/FILE. */
static void put(const char *folder, const char *file, const char *object)
{
    char from[4096];
    static char data[1 << 22];
    snprintf(from, sizeof from, "%s/tests/modules/lib/%s", build, object);
    FILE *in = fopen(from, "rb");
    mkdir(path_of(folder, ""), 0777);
    remove(path_of(folder, file)); /* which may be loaded: not to be written over */
    FILE *out = fopen(path_of(folder, file), "wb");
    if (in == NULL || out == NULL)
        fail_msg("%s or %s cannot be opened", from, path_of(folder, file));
    const size_t size = fread(data, 1, sizeof data, in);
    assert_true(size > 0 && size < sizeof data);
    assert_int_equal(fwrite(data, 1, size, out), size);
    fclose(in);
    fclose(out);
}

static void put_text(const char *folder, const char *file, const char *text)
{
    mkdir(path_of(folder, ""), 0777);
    FILE *out = fopen(path_of(folder, file), "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* What a module that is loaded next is to be. */
static void be(const char *name, const char *wrong, const char *ranks)
{
    setenv("FAKE_NAME", name, 1);
    setenv("FAKE_MODULE", wrong, 1);
    setenv("FAKE_RANKS", ranks, 1);
}

/* Paths of the modules loaded since, in turn; "" if none. */
static const char *loaded(void)
{
    static char text[4096];
    FILE *log = fopen(path_of("log", ""), "r");
    const size_t size = log == NULL ? 0 : fread(text, 1, sizeof text - 1, log);
    text[size] = '\0';
    if (log != NULL)
        fclose(log);
    remove(path_of("log", ""));
    return text;
}

static int start(void **state)
{
    (void)state;
    char remove_all[100];
    snprintf(remove_all, sizeof remove_all, "rm -rf '%s'", work);
    if (work[0] != '\0' && system(remove_all) != 0)
        return 1;
    snprintf(work, sizeof work, "/tmp/ckv-modules-XXXXXX");
    if (mkdtemp(work) == NULL)
        return 1;
    setenv("FAKE_LOG", path_of("log", ""), 1);
    setenv("CKV_MODULE_PATH", path_of("a", ""), 1);
    be("fake", "", "0");
    return 0;
}

static int end(void **state)
{
    (void)state;
    char remove_all[100];
    snprintf(remove_all, sizeof remove_all, "rm -rf '%s'", work);
    return work[0] == '\0' ? 0 : system(remove_all);
}

/* ---------------------------------------------------------------- contexts */

static ckv_device_info query(const ckv_context *context, int32_t index)
{
    ckv_device_info info = {.struct_size = sizeof info};
    assert_ok(ckv_device_query(context, index, &info));
    return info;
}

/* The nth row of a backend; one of no backend when there is none. */
static ckv_device_info row_of(const ckv_context *context, const char *backend, int nth)
{
    for (int32_t i = 0; i < ckv_device_count(context); i++) {
        const ckv_device_info info = query(context, i);
        if (strcmp(info.backend, backend) == 0 && nth-- == 0)
            return info;
    }
    return (ckv_device_info){.reason = "", .name = "", .variant = ""};
}

static void assert_chosen(const char *backend, const char *device, const char *want)
{
    ckv_context *context;
    assert_ok(test_create(backend, device, &context));
    assert_string_equal(test_chosen(context), want);
    ckv_context_destroy(context);
}

#define assert_has(text, part)                                                                                         \
    do {                                                                                                               \
        if (strstr(text, part) == NULL)                                                                                \
            fail_msg("\"%s\" lacks \"%s\"", text, part);                                                               \
    } while (0)

/* ---------------------------------------------------------------- one that works */

static uint64_t solve(const char *backend)
{
    test_problem p;
    test_problem_init(&p, 2, 2, 90, 8, 24, 24, 40);
    p.options.backend = backend;
    test_problem_build(&p);
    test_problem_randomize(&p, 5);
    assert_ok(test_problem_open(&p));
    if (strcmp(backend, "fake") == 0) {
        assert_string_equal(p.info.backend, "fake");
        assert_string_equal(p.info.device, "Fake Zero");
        assert_string_equal(p.info.variant, "pretended");
    }
    assert_ok(test_evict(&p));
    const uint64_t hash = test_hash_selection(&p);
    test_problem_close(&p);
    return hash;
}

static void test_works(void **state)
{
    (void)state;
    put("a", "ckv-fake.so", "fake.so");
    assert_true(solve("fake") == solve("ref"));
    assert_chosen(NULL, NULL, "fake:0"); /* of the best rank */
    assert_chosen("FAKE", "zero", "fake:0");
    ckv_context *context;
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(row_of(context, "fake", 0).variant, "pretended");
    assert_string_equal(row_of(context, "fake", 0).reason, "");
    assert_string_equal(query(context, ckv_device_count(context) - 1).backend, "ref");
    ckv_context_destroy(context);
}

/* The module's errors are the library's: what it says is this thread's detail. */
static void test_detail(void **state)
{
    (void)state;
    ckv_context *context;
    be("fake", "", "xx");
    put("a", "ckv-fake.so", "fake.so");
    assert_fails(test_create("fake", NULL, &context), CKV_ERROR_UNAVAILABLE,
                 "options.backend 'fake': fake:0: fake device 0 does not open; there is: ");
    assert_fails(test_create("fake", "1", &context), CKV_ERROR_UNAVAILABLE,
                 "options.backend 'fake', options.device '1': fake:1: fake device 1 does not open; there is: ");
    assert_ok(test_create(NULL, NULL, &context));
    assert_has(test_chosen(context), "cpu:0");
    assert_string_equal(row_of(context, "fake", 0).reason, "fake device 0 does not open");
    assert_string_equal(row_of(context, "fake", 1).reason, "fake device 1 does not open");
    ckv_context_destroy(context);
}

/* ---------------------------------------------------------------- what can be wrong */

/* A row that says why, an error that does when it is asked for, and `auto` goes on. */
static void assert_broken(const char *name, const char *file, const char *reason)
{
    ckv_context *context;
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "cpu:0");
    const ckv_device_info row = row_of(context, name, 0);
    if (row.backend == NULL)
        fail_msg("no row of %s", name);
    assert_int_equal(row.available, 0);
    assert_int_equal(row.device, -1);
    assert_has(row.reason, path_of("a", file));
    assert_has(row.reason, reason);
    assert_int_equal(row_of(context, "ref", 0).available, 1);
    ckv_context_destroy(context);
    assert_fails(test_create(name, NULL, &context), CKV_ERROR_UNAVAILABLE, reason);
    assert_detail(path_of("a", file));
    assert_detail("there is: cpu:0");
    assert_null(context);
    assert_chosen("ref", NULL, "ref:0");
    assert_true(solve("cpu") == solve("ref"));
}

static void test_broken_files(void **state)
{
    (void)state;
    put_text("a", "ckv-text.so",
             "no shared object at all, but long enough to hold the header of one: "
             "................................................................");
    assert_broken("text", "ckv-text.so", "invalid ELF header");
    put_text("a", "ckv-empty.so", "");
    assert_broken("empty", "ckv-empty.so", "too short");
    assert_int_equal(symlink("/nonexistent/file", path_of("a", "ckv-gone.so")), 0);
    assert_broken("gone", "ckv-gone.so", "No such file");
    assert_int_equal(mkdir(path_of("a", "ckv-folder.so"), 0777), 0);
    assert_broken("folder", "ckv-folder.so", "directory");
    put("a", "ckv-none.so", "none.so");
    assert_broken("none", "ckv-none.so", "no ckv_module_entry: not a module of libckv");
    put("a", "ckv-open.so", "open.so");
    assert_broken("open", "ckv-open.so", "undefined symbol: ckv_no_such_function");
    assert_int_equal(mkfifo(path_of("a", "ckv-pipe.so"), 0666), 0);
    assert_broken("pipe", "ckv-pipe.so", "a pipe, socket or device, wanted a file");
    put("a", "ckv-cut.so", "fake.so");
    for (off_t size = 16000; size > 1000; size /= 2) { /* dlopen maps what is not there */
        assert_int_equal(truncate(path_of("a", "ckv-cut.so"), size), 0);
        assert_broken("cut", "ckv-cut.so", "the end of the file is missing");
    }
    if (geteuid() != 0) {
        put("a", "ckv-secret.so", "fake.so");
        assert_int_equal(chmod(path_of("a", "ckv-secret.so"), 0), 0);
        assert_broken("secret", "ckv-secret.so", "Permission denied");
    }
}

static void test_broken_modules(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"abi", "module ABI 3 (libckv 9.8.7), wanted 2 (libckv "},
        {"sizes", "built with other structs (libckv "},
        {"unnamed", "holds backend '', wanted 'bad"},
        {"misnamed", "holds backend 'other', wanted 'bad"},
        {"no start", "no function to start it"},
        {"refuses", "the fake will not start"},
        {"refuses without a word", "did not start"},
        {"table unnamed", "its table lacks name"},
        {"table misnamed", "its table lacks name"},
        {"no name", "its table lacks name"},
        {"no device_count", "its table lacks device_count"},
        {"no device_name", "its table lacks device_name"},
        {"no context_device_name", "its table lacks context_device_name"},
        {"no device_reason", "its table lacks device_reason"},
        {"no device_rank", "its table lacks device_rank"},
        {"no workspace_size", "its table lacks workspace_size"},
        {"no score", "its table lacks score"},
        {"no norm", "its table lacks norm"},
        {"no select", "its table lacks select"},
        {"no compact", "its table lacks compact"},
        {"no evict", "its table lacks evict"},
        {"device no score", "its table lacks score"},
        {"device no norm", "its table lacks norm"},
        {"device no select", "its table lacks select"},
        {"device no compact", "its table lacks compact"},
        {"device no evict", "its table lacks evict"},
        {"device no open_projection", "its table lacks open_projection"},
        {"device no close_projection", "its table lacks close_projection"},
        {"device no measure", "its table lacks measure"},
        {"no tunables", "its table lacks tunables"},
        {"too many tunables", "its table lacks tunable_count in its range"},
        {"tunable no stage", "its table lacks stage"},
        {"tunable no name", "its table lacks name"},
        {"tunable no meaning", "its table lacks meaning"},
        {"tunable no values", "its table lacks values"},
        {"tunable no count", "its table lacks values"},
        {"tunable no label", "its table lacks labels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16], file[32];
        snprintf(name, sizeof name, "bad%d", (int)i);
        snprintf(file, sizeof file, "ckv-%s.so", name);
        be(name, cases[i][0], "0");
        put("a", file, "fake.so");
        assert_broken(name, file, cases[i][1]);
        assert_int_equal(remove(path_of("a", file)), 0);
    }
}

/* What a table may lack: the module works all the same. */
static void test_modules_with_less(void **state)
{
    (void)state;
    static const char *const cases[] = {"",
                                        "no absence",
                                        "no context_variant",
                                        "no refusal",
                                        "no identify",
                                        "no tunable_allowed",
                                        "no apply_parameters",
                                        "no estimate",
                                        "no open_device",
                                        "tunable whole",
                                        "tunable no labels",
                                        "device"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16], file[32];
        ckv_context *context;
        snprintf(name, sizeof name, "less%d", (int)i);
        snprintf(file, sizeof file, "ckv-%s.so", name);
        be(name, cases[i], "0");
        put("a", file, "fake.so");
        assert_ok(test_create(name, NULL, &context));
        assert_int_equal(row_of(context, name, 0).selected, 1);
        ckv_context_destroy(context);
        if (strcmp(cases[i], "device") != 0) /* whose stages do nothing */
            assert_true(solve(name) == solve("ref"));
        assert_int_equal(remove(path_of("a", file)), 0);
    }
}

/* A module without devices is no error. */
static void test_no_device(void **state)
{
    (void)state;
    ckv_context *context;
    be("fake", "", "");
    put("a", "ckv-fake.so", "fake.so");
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(row_of(context, "fake", 0).reason, "the fake has none");
    ckv_context_destroy(context);
    assert_fails(test_create("fake", NULL, &context), CKV_ERROR_UNAVAILABLE, "the fake has none");
}

/* It serves one copy of the library in a process, whose errors it would mix up with the other's. */
static void test_another_core(void **state)
{
    (void)state;
    static const ckv_core other = {.version = "0.0.0"};
    char reason[100] = "";
    put("a", "ckv-fake.so", "fake.so");
    assert_chosen("fake", NULL, "fake:0");
    void *handle = dlopen(path_of("a", "ckv-fake.so"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    const ckv_module *module = dlsym(handle, CKV_MODULE_SYMBOL);
    assert_non_null(module);
    assert_null(module->start(&other, reason, sizeof reason));
    assert_string_equal(reason, "another core");
    assert_non_null(module->start(&ckv_core_functions, reason, sizeof reason));
    dlclose(handle);
    assert_chosen("fake", NULL, "fake:0");
}

/* ---------------------------------------------------------------- names and folders */

static void test_clashes(void **state)
{
    (void)state;
    static const char *const taken[] = {"auto", "cpu", "ref"};
    ckv_context *context;
    for (int i = 0; i < 3; i++) {
        char file[32];
        snprintf(file, sizeof file, "ckv-%s.so", taken[i]);
        put("a", file, "fake.so");
    }
    assert_ok(test_create(NULL, NULL, &context));
    for (int i = 0; i < 3; i++) {
        const ckv_device_info row = row_of(context, taken[i], 0);
        assert_int_equal(row.available, 0);
        assert_has(row.reason, "name clash: ");
        assert_has(row.reason, path_of("a", ""));
        if (i > 0)
            assert_int_equal(row_of(context, taken[i], 1).available, 1);
    }
    assert_string_equal(test_chosen(context), "cpu:0");
    ckv_context_destroy(context);
    assert_chosen("ref", NULL, "ref:0");
    assert_string_equal(loaded(), "");
}

/* The first folder that has a name has it; what a later one has is a row that says so. */
static void test_folders_in_order(void **state)
{
    (void)state;
    ckv_context *context;
    char path[2000];
    put("a", "ckv-fake.so", "fake.so");
    put("b", "ckv-fake.so", "fake.so");
    put("b", "ckv-second.so", "none.so");
    for (int turned = 0; turned < 2; turned++) {
        const char *first = path_of(turned ? "b" : "a", ""), *last = path_of(turned ? "a" : "b", "");
        snprintf(path, sizeof path, "::%s/nowhere:%s:%s:", work, first, last);
        setenv("CKV_MODULE_PATH", path, 1);
        assert_ok(test_create("fake", NULL, &context));
        assert_has(loaded(), first);
        snprintf(path, sizeof path, "%s/ckv-fake.so: name clash: 'fake' is %s/ckv-fake.so", last, first);
        assert_string_equal(row_of(context, "fake", 1).reason, path);
        assert_int_equal(row_of(context, "fake", 0).selected, 1);
        assert_has(row_of(context, "second", 0).reason, "not a module");
        ckv_context_destroy(context);
    }
    /* Even where the first is of no use. */
    put_text("c", "ckv-fake.so", "text");
    snprintf(path, sizeof path, "%s:%s", path_of("c", ""), path_of("a", ""));
    setenv("CKV_MODULE_PATH", path, 1);
    assert_fails(test_create("fake", NULL, &context), CKV_ERROR_UNAVAILABLE, path_of("c", "ckv-fake.so"));
}

static void test_files_that_are_none(void **state)
{
    (void)state;
    static const char *const files[] = {
        "libckv-x.so",
        "ckv-.so",
        "ckv-X.so",
        "ckv-x.so.1",
        "ckv-x.txt",
        "ckv_x.so",
        "ckv-x-y.so",
        "ckv-x y.so",
        "ckv-x.la",
        ".so",
        "ckv-",
        "ckv-\xc3\xa4.so",
        "ckv-a2345678901234567890123456789012.so", /* 32 characters; 31 are the most */
    };
    ckv_context *context;
    setenv("CKV_MODULE_PATH", path_of("b", ""), 1);
    assert_ok(test_create(NULL, NULL, &context));
    const int32_t count = ckv_device_count(context);
    ckv_context_destroy(context);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        put("a", files[i], "fake.so");
    setenv("CKV_MODULE_PATH", path_of("a", ""), 1);
    assert_ok(test_create(NULL, NULL, &context));
    assert_int_equal(ckv_device_count(context), count);
    ckv_context_destroy(context);
    assert_string_equal(loaded(), "");
    put("a", "ckv-a234567890123456789012345678901.so", "none.so");
    assert_int_equal(ckv_device_count(NULL), count + 1);
}

/* Rows of one folder in the order of their names, between the GPUs and "cpu". */
static void test_rows_in_order(void **state)
{
    (void)state;
    ckv_context *context;
    put("a", "ckv-m2.so", "none.so");
    put("a", "ckv-m1.so", "none.so");
    put("a", "ckv-m3.so", "none.so");
    assert_ok(test_create("ref", NULL, &context));
    const int32_t last = ckv_device_count(context) - 1;
    assert_string_equal(query(context, last - 1).backend, "cpu");
    assert_string_equal(query(context, last - 2).backend, "m3");
    assert_string_equal(query(context, last - 3).backend, "m2");
    assert_string_equal(query(context, last - 4).backend, "m1");
    assert_string_equal(query(context, last - 5).backend, "opencl");
    ckv_context_destroy(context);
}

/* ---------------------------------------------------------------- the choice */

/* What is asked for by name is loaded, and nothing else. */
static void test_only_what_is_asked_for(void **state)
{
    (void)state;
    ckv_context *context;
    be("one", "", "0");
    put("a", "ckv-one.so", "fake.so");
    put("a", "ckv-two.so", "fake.so");
    put("a", "ckv-three.so", "fake.so");
    assert_ok(test_create("cpu", NULL, &context));
    ckv_context_destroy(context);
    assert_ok(test_create("ref", NULL, &context));
    ckv_context_destroy(context);
    assert_string_equal(loaded(), "");
    assert_ok(test_create("one", NULL, &context));
    ckv_context_destroy(context);
    const char *log = loaded();
    assert_has(log, "ckv-one.so");
    assert_null(strstr(log, "ckv-two.so"));
    setenv("CKV_DISABLE", "cuda,hip,opencl,two", 1);
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "one:0");
    assert_string_equal(row_of(context, "two", 0).reason, "switched off by CKV_DISABLE");
    ckv_context_destroy(context);
    setenv("CKV_DISABLE", "cuda,hip,opencl", 1);
    log = loaded(); /* "auto" asks all that are not switched off */
    assert_has(log, "ckv-three.so");
    assert_null(strstr(log, "ckv-two.so"));
    assert_chosen("ref", NULL, "ref:0"); /* which asks for the table, and so for all */
    assert_has(loaded(), "ckv-two.so");
}

static void test_ranks(void **state)
{
    (void)state;
    ckv_context *context;
    be("fake", "", "-3x1");
    put("a", "ckv-fake.so", "fake.so");
    assert_chosen(NULL, NULL, "fake:3"); /* 2, of the best rank, does not open */
    assert_chosen("fake", NULL, "fake:3");
    assert_chosen("fake", "FAKE", "fake:3");
    assert_chosen("fake", "1", "fake:1");
    assert_chosen("fake", "one", "fake:1");
    assert_chosen("fake", "0", "fake:0"); /* of no rank: when it is asked for */
    assert_chosen("fake", "zero", "fake:0");
    assert_chosen(NULL, "1", "fake:1");
    assert_fails(test_create("fake", "2", &context), CKV_ERROR_UNAVAILABLE, "fake:2: fake device 2 does not open");
    assert_fails(test_create("fake", "4", &context), CKV_ERROR_UNAVAILABLE, "no such device");
    assert_fails(test_create(NULL, "Fake Zero", &context), CKV_ERROR_UNAVAILABLE, "Fake Zero");
    setenv("CKV_BACKEND", "fake:one", 1);
    assert_chosen(NULL, NULL, "fake:1");
    assert_chosen("ref", NULL, "ref:0");
    unsetenv("CKV_BACKEND");
    setenv("CKV_DEVICE", "fake one", 1);
    assert_chosen(NULL, NULL, "fake:1");
    unsetenv("CKV_DEVICE");
    be("other", "", "0");
    put("a", "ckv-other.so", "fake.so");
    assert_chosen(NULL, NULL, "other:0");
}

/* However many there are, the message has the usable ones and ends in dots; the table has all. */
static void test_long_lists(void **state)
{
    (void)state;
    ckv_context *context;
    for (int i = 0; i < 20; i++) {
        char file[32];
        snprintf(file, sizeof file, "ckv-many%02d.so", i);
        put_text("a", file, "text");
    }
    assert_fails(test_create("nonsense", NULL, &context), CKV_ERROR_UNAVAILABLE, "options.backend 'nonsense'");
    assert_detail("there is: cpu:0");
    assert_detail("ref:0 (scalar reference); not: cuda");
    const char *detail = ckv_error_detail();
    assert_string_equal(detail + strlen(detail) - 5, ", ...");
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "many%02d", i);
        assert_has(row_of(NULL, name, 0).reason, "too short");
    }
}

/* ---------------------------------------------------------------- contexts side by side */

static void test_contexts_apart(void **state)
{
    (void)state;
    ckv_context *with, *without, *disabled;
    put("a", "ckv-fake.so", "fake.so");
    assert_ok(test_create(NULL, NULL, &with));
    unsetenv("CKV_MODULE_PATH");
    assert_ok(test_create(NULL, NULL, &without));
    setenv("CKV_MODULE_PATH", path_of("a", ""), 1);
    setenv("CKV_DISABLE", "cuda,hip,opencl,fake", 1);
    assert_ok(test_create(NULL, NULL, &disabled));
    setenv("CKV_DISABLE", "cuda,hip,opencl", 1);
    remove(path_of("a", "ckv-fake.so"));
    assert_string_equal(test_chosen(with), "fake:0");
    assert_string_equal(test_chosen(without), "cpu:0");
    assert_null(row_of(without, "fake", 0).backend);
    assert_string_equal(row_of(disabled, "fake", 0).reason, "switched off by CKV_DISABLE");
    ckv_context_destroy(without);
    ckv_context_destroy(disabled);
    assert_string_equal(row_of(with, "fake", 0).variant, "pretended");
    ckv_context_destroy(with);
}

enum { THREADS = 8, ROUNDS = 40 };

typedef struct racer {
    pthread_barrier_t *barrier;
    const ckv_context *shared;
    int wrong;
} racer;

static void *race(void *argument)
{
    racer *r = argument;
    pthread_barrier_wait(r->barrier);
    for (int round = 0; round < ROUNDS; round++) {
        ckv_context *context;
        ckv_context_options options;
        ckv_device_info info = {.struct_size = sizeof info};
        ckv_context_options_init(&options);
        r->wrong += ckv_context_create(&options, &context) != CKV_OK;
        ckv_context_destroy(context);
        options.backend = "broken";
        r->wrong += ckv_context_create(&options, &context) != CKV_ERROR_UNAVAILABLE;
        r->wrong += strstr(ckv_error_detail(), "not a module") == NULL;
        /* The shared one loads both when the first of the threads asks. */
        const int32_t count = ckv_device_count(r->shared);
        int fakes = 0;
        for (int32_t i = 0; i < count; i++) {
            r->wrong += ckv_device_query(r->shared, i, &info) != CKV_OK;
            fakes += strcmp(info.backend, "fake") == 0 && info.available;
            r->wrong += ckv_device_query(NULL, i, &info) != CKV_OK;
        }
        r->wrong += fakes != 1;
    }
    return NULL;
}

static void test_races(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    racer racers[THREADS];
    pthread_barrier_t barrier;
    ckv_context *shared;
    put("a", "ckv-fake.so", "fake.so");
    put("a", "ckv-broken.so", "none.so");
    assert_ok(test_create("cpu", NULL, &shared));
    assert_string_equal(loaded(), "");
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (racer){&barrier, shared, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(racers[i].wrong, 0);
    }
    pthread_barrier_destroy(&barrier);
    ckv_context_destroy(shared);
    const char *log = loaded(); /* once */
    assert_has(log, "ckv-fake.so\n");
    assert_null(strstr(strchr(log, '\n') + 1, "ckv-fake.so"));
}

static void *make_contexts(void *argument)
{
    while (__atomic_load_n((int *)argument, __ATOMIC_RELAXED)) {
        ckv_context *context;
        if (ckv_context_create(NULL, &context) == CKV_OK)
            ckv_context_destroy(context);
    }
    return NULL;
}

/* In a child, whatever other threads did when it was forked: it neither waits nor fails. */
static void test_fork(void **state)
{
    (void)state;
    if (SANITIZED)
        skip_because("a sanitizer's allocator has locks that a fork may leave held");
    pthread_t thread;
    int goes_on = 1;
    ckv_context *context;
    put("a", "ckv-fake.so", "fake.so"); /* which is loaded by now: the system's loader has locks of its own */
    const uint64_t want = solve("ref");
    assert_ok(test_create("fake", NULL, &context));
    assert_int_equal(pthread_create(&thread, NULL, make_contexts, &goes_on), 0);
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            const int good = strcmp(test_chosen(context), "fake:0") == 0 && solve("fake") == want;
            _exit(good ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    __atomic_store_n(&goes_on, 0, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    ckv_context_destroy(context);
}

/* ---------------------------------------------------------------- memory */

typedef struct heap {
    int64_t made, fail_at, live;
} heap;

static void *heap_allocate(void *user, size_t bytes, size_t alignment)
{
    heap *h = user;
    if (h->made++ == h->fail_at)
        return NULL;
    h->live++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void heap_release(void *user, void *memory)
{
    ((heap *)user)->live -= memory != NULL;
    free(memory);
}

/* Each allocation that a context with modules makes fails once, and nothing is lost. */
static void test_failing_allocations(void **state)
{
    (void)state;
    put("a", "ckv-fake.so", "fake.so");
    put("a", "ckv-broken.so", "none.so");
    int failed = 0, passed = 0;
    for (int64_t nth = 0; passed < 3; nth++) {
        heap h = {0, nth, 0};
        ckv_context_options options;
        ckv_context *context;
        ckv_context_options_init(&options);
        options.allocate = heap_allocate;
        options.release = heap_release;
        options.user = &h;
        options.backend = "fake";
        const ckv_status status = ckv_context_create(&options, &context);
        if (status != CKV_OK) {
            /* What a list cannot be made of, or a module's row, is passed over. */
            assert_true(status == CKV_ERROR_NO_MEMORY || status == CKV_ERROR_UNAVAILABLE);
            failed++;
        } else {
            passed += h.made <= nth;
            assert_true(ckv_device_count(context) >= 4);
        }
        ckv_context_destroy(context);
        assert_int_equal(h.live, 0);
    }
    assert_true(failed >= 8);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_works, start),
        cmocka_unit_test_setup(test_detail, start),
        cmocka_unit_test_setup(test_broken_files, start),
        cmocka_unit_test_setup(test_broken_modules, start),
        cmocka_unit_test_setup(test_modules_with_less, start),
        cmocka_unit_test_setup(test_no_device, start),
        cmocka_unit_test_setup(test_another_core, start),
        cmocka_unit_test_setup(test_clashes, start),
        cmocka_unit_test_setup(test_folders_in_order, start),
        cmocka_unit_test_setup(test_files_that_are_none, start),
        cmocka_unit_test_setup(test_rows_in_order, start),
        cmocka_unit_test_setup(test_only_what_is_asked_for, start),
        cmocka_unit_test_setup(test_ranks, start),
        cmocka_unit_test_setup(test_long_lists, start),
        cmocka_unit_test_setup(test_contexts_apart, start),
        cmocka_unit_test_setup(test_races, start),
        cmocka_unit_test_setup(test_fork, start),
        cmocka_unit_test_setup(test_failing_allocations, start),
    };
    build = getenv("top_builddir") == NULL ? "." : getenv("top_builddir");
    setenv("CKV_DISABLE", "cuda,hip,opencl", 1);
    unsetenv("CKV_BACKEND");
    unsetenv("CKV_DEVICE");
    if (getenv("CKV_TEST_FILTER") != NULL)
        cmocka_set_test_filter(getenv("CKV_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, end);
}
