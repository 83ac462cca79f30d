/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's compiler at run time, NVRTC. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>

#include "build.h"
#include "library.h"
#include "vendor/nvrtc.h"

#define OPTIONS 64

/* What each compiler needs a driver of its own age for: one table for drivers of CUDA
 * 13 and later, one for older drivers. */
static struct {
    char reason[256];
    ckv_nvrtc_functions rtc;
} loaded[2];
static pthread_once_t once[2] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static const ckv_symbol symbols[] = {
#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) {#name, offsetof(ckv_nvrtc_functions, name), 0},
#include "vendor/nvrtc.def"
#undef FUNCTION
};

static void initialise(int newer)
{
    static const char *const names[2][4] = {{"libnvrtc.so.12", "libnvrtc.so", NULL, NULL},
                                            {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL}};
    ckv_library_load(names[newer], symbols, sizeof symbols / sizeof symbols[0], &loaded[newer].rtc,
                     loaded[newer].reason, sizeof loaded[newer].reason);
}

static void initialise_older(void)
{
    initialise(0);
}

static void initialise_newer(void)
{
    initialise(1);
}

static void compile_log(const ckv_nvrtc_functions *rtc, nvrtcProgram program, nvrtcResult code, char *log, size_t size)
{
    size_t length = 0;
    char *text = NULL;
    if (rtc->nvrtcGetProgramLogSize(program, &length) == NVRTC_SUCCESS)
        text = calloc(length + 1, 1);
    if (text != NULL)
        rtc->nvrtcGetProgramLog(program, text);
    ckv_library_say(log, size, "nvrtcCompileProgram: %s: %s", rtc->nvrtcGetErrorString(code), text == NULL ? "" : text);
    free(text);
}

static int take_image(const ckv_nvrtc_functions *rtc, nvrtcProgram program, void **image, size_t *image_size, char *log,
                      size_t log_size)
{
    if (rtc->nvrtcGetCUBINSize(program, image_size) != NVRTC_SUCCESS || *image_size == 0 ||
        (*image = malloc(*image_size)) == NULL) {
        ckv_library_say(log, log_size, "nvrtcGetCUBINSize: no image");
        return 0;
    }
    if (rtc->nvrtcGetCUBIN(program, *image) == NVRTC_SUCCESS)
        return 1;
    free(*image);
    *image = NULL;
    ckv_library_say(log, log_size, "nvrtcGetCUBIN: no image");
    return 0;
}

int ckv_gpu_build_cuda(const char *text, const char *arch, const char *options, int driver_version, void **image,
                       size_t *image_size, char *log, size_t log_size)
{
    const char *list[OPTIONS] = {NULL, "--fmad=false", "--std=c++17"};
    const int newer = driver_version >= 13000;
    const ckv_nvrtc_functions *rtc = &loaded[newer].rtc;
    char target[96], copy[1024];
    nvrtcProgram program;
    nvrtcResult code;
    int count, done = 0;
    pthread_once(&once[newer], newer ? initialise_newer : initialise_older);
    if (loaded[newer].reason[0] != '\0') {
        ckv_library_say(log, log_size, "%s", loaded[newer].reason);
        return 0;
    }
    ckv_library_say(target, sizeof target, "--gpu-architecture=%s", arch);
    ckv_library_say(copy, sizeof copy, "%s", options);
    list[0] = target;
    count = ckv_gpu_split_options(copy, list, 3, OPTIONS);
    if (count < 0) {
        ckv_library_say(log, log_size, "more than %d options", OPTIONS - 3);
        return 0;
    }
    code = rtc->nvrtcCreateProgram(&program, text, "ckv.cu", 0, NULL, NULL);
    if (code != NVRTC_SUCCESS) {
        ckv_library_say(log, log_size, "nvrtcCreateProgram: %s", rtc->nvrtcGetErrorString(code));
        return 0;
    }
    code = rtc->nvrtcCompileProgram(program, count, list);
    if (code != NVRTC_SUCCESS)
        compile_log(rtc, program, code, log, log_size);
    else
        done = take_image(rtc, program, image, image_size, log, log_size);
    rtc->nvrtcDestroyProgram(&program);
    return done;
}
