/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's compiler at run time, hipRTC, and what both compilers share. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "library.h"
#include "vendor/hiprtc.h"

#define OPTIONS 64

static struct {
    char reason[256];
    ckv_hiprtc_functions rtc;
} loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const ckv_symbol symbols[] = {
#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) {#name, offsetof(ckv_hiprtc_functions, name), 0},
#include "vendor/hiprtc.def"
#undef FUNCTION
};

/* Before ROCm 5.3 it was a part of the runtime's library. */
static void initialise(void)
{
    static const char *const names[] = {"libhiprtc.so.7",
                                        "libhiprtc.so.6",
                                        "libhiprtc.so.5",
                                        "libhiprtc.so",
                                        "libamdhip64.so.5",
                                        "libamdhip64.so",
                                        NULL};
    ckv_library_load(names, symbols, sizeof symbols / sizeof symbols[0], &loaded.rtc, loaded.reason,
                     sizeof loaded.reason);
}

static void compile_log(hiprtcProgram program, hiprtcResult code, char *log, size_t size)
{
    size_t length = 0;
    char *text = NULL;
    if (loaded.rtc.hiprtcGetProgramLogSize(program, &length) == HIPRTC_SUCCESS)
        text = calloc(length + 1, 1);
    if (text != NULL)
        loaded.rtc.hiprtcGetProgramLog(program, text);
    ckv_library_say(log, size, "hiprtcCompileProgram: %s: %s", loaded.rtc.hiprtcGetErrorString(code),
                    text == NULL ? "" : text);
    free(text);
}

static int take_image(hiprtcProgram program, void **image, size_t *image_size, char *log, size_t log_size)
{
    if (loaded.rtc.hiprtcGetCodeSize(program, image_size) != HIPRTC_SUCCESS || *image_size == 0 ||
        (*image = malloc(*image_size)) == NULL) {
        ckv_library_say(log, log_size, "hiprtcGetCodeSize: no image");
        return 0;
    }
    if (loaded.rtc.hiprtcGetCode(program, *image) == HIPRTC_SUCCESS)
        return 1;
    free(*image);
    *image = NULL;
    ckv_library_say(log, log_size, "hiprtcGetCode: no image");
    return 0;
}

int ckv_gpu_build_hip(const char *text, const char *arch, const char *options, void **image, size_t *image_size,
                      char *log, size_t log_size)
{
    const char *list[OPTIONS] = {NULL, "-O3", "-ffp-contract=off", "-std=c++17"};
    char target[96], copy[1024];
    hiprtcProgram program;
    hiprtcResult code;
    int count, done = 0;
    if (arch[0] == '\0') {
        ckv_library_say(log, log_size, "the device does not name its architecture");
        return 0;
    }
    pthread_once(&once, initialise);
    if (loaded.reason[0] != '\0') {
        ckv_library_say(log, log_size, "%s", loaded.reason);
        return 0;
    }
    ckv_library_say(target, sizeof target, "--offload-arch=%s", arch);
    ckv_library_say(copy, sizeof copy, "%s", options);
    list[0] = target;
    count = ckv_gpu_split_options(copy, list, 4, OPTIONS);
    if (count < 0) {
        ckv_library_say(log, log_size, "more than %d options", OPTIONS - 4);
        return 0;
    }
    code = loaded.rtc.hiprtcCreateProgram(&program, text, "ckv.hip", 0, NULL, NULL);
    if (code != HIPRTC_SUCCESS) {
        ckv_library_say(log, log_size, "hiprtcCreateProgram: %s", loaded.rtc.hiprtcGetErrorString(code));
        return 0;
    }
    code = loaded.rtc.hiprtcCompileProgram(program, count, list);
    if (code != HIPRTC_SUCCESS)
        compile_log(program, code, log, log_size);
    else
        done = take_image(program, image, image_size, log, log_size);
    loaded.rtc.hiprtcDestroyProgram(&program);
    return done;
}
