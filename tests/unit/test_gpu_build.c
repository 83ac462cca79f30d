/* SPDX-License-Identifier: Apache-2.0 */
/* The compilers at run time, which need no device: NVRTC and hipRTC. */
#include "unit.h"

#include <stdlib.h>

#include "backends/gpu/build.h"
#include "backends/gpu/embedded.h"

static int has(const char *image, size_t size, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(image + i, text, length) == 0)
            return 1;
    return 0;
}

static void test_options(void **state)
{
    (void)state;
    char text[] = " -DA=1  -DB=2 ";
    const char *list[3] = {"first", NULL, NULL};
    assert_int_equal(ckv_gpu_split_options(text, list, 1, 3), 3);
    assert_string_equal(list[0], "first");
    assert_string_equal(list[1], "-DA=1");
    assert_string_equal(list[2], "-DB=2");
    char more[] = "-DA -DB -DC", none[] = "  ";
    assert_int_equal(ckv_gpu_split_options(more, list, 1, 3), -1);
    assert_int_equal(ckv_gpu_split_options(none, list, 1, 3), 1);
}

static int nvrtc(const char *text, const char *arch, const char *options, void **image, size_t *size, char *log,
                 size_t log_size)
{
    return ckv_gpu_build_cuda(text, arch, options, 13000, image, size, log, log_size);
}

typedef int build_function(const char *text, const char *arch, const char *options, void **image, size_t *size,
                           char *log, size_t log_size);

/* The library's kernels for each architecture; a definition that is missing is named. */
static void check(build_function *build, const char *library, const char *text, const char *const *archs)
{
    char log[1000] = "";
    void *image = NULL;
    size_t size = 0;
    if (!build("", archs[0], "", &image, &size, log, sizeof log) && strstr(log, library) != NULL)
        skip_because(log);
    free(image);
    for (int i = 0; archs[i] != NULL && i < test_share(1, 1, 8); i++) {
        image = NULL;
        if (!build(text, archs[i], "", &image, &size, log, sizeof log))
            fail_msg("%s: %s", archs[i], log);
        assert_true(has(image, size, "ckv_probe") && has(image, size, "ckv_select"));
        free(image);
    }
    image = NULL;
    assert_int_equal(
        build("#ifndef WANTED\n#error WANTED is missing\n#endif\n", archs[0], "", &image, &size, log, sizeof log), 0);
    assert_null(image);
    assert_non_null(strstr(log, "WANTED is missing"));
    assert_int_equal(build("#ifndef WANTED\n#error WANTED is missing\n#endif\n", archs[0], "-DOTHER=1 -DWANTED=2",
                           &image, &size, log, sizeof log),
                     1);
    free(image);
    assert_int_equal(build("#error short", archs[0], "", &image, &size, log, 10), 0);
    assert_true(log[0] != '\0' && strlen(log) < 10);
}

static void test_nvrtc(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_90", NULL};
    char log[1000] = "";
    void *image = NULL;
    size_t size = 0;
    check(nvrtc, "libnvrtc", (const char *)ckv_gpu_text_cuda, archs);
    assert_int_equal(nvrtc("", "no_such_chip", "", &image, &size, log, sizeof log), 0);
    assert_non_null(strstr(log, "arch"));
}

static void test_hiprtc(void **state)
{
    (void)state;
    static const char *const archs[] = {"gfx90a", "gfx1030", NULL};
    char log[100] = "";
    void *image = NULL;
    size_t size = 0;
    /* Not asked: hipRTC of ROCm 5.2 crashes on a chip that it does not know. */
    assert_int_equal(ckv_gpu_build_hip("", "", "", &image, &size, log, sizeof log), 0);
    assert_null(image);
    check(ckv_gpu_build_hip, "lib", (const char *)ckv_gpu_text_hip, archs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_nvrtc),
        cmocka_unit_test(test_hiprtc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
