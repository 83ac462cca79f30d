/* SPDX-License-Identifier: Apache-2.0 */
/* libnvrtc.so: takes the kernels' text and gives an image for the pretended devices. */
#include "backends/gpu/vendor/nvrtc.h"

#include <string.h>

#include "rtc.h"
#include "runtime.h"

#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) SIM_EXPORT result name arguments;
#include "backends/gpu/vendor/nvrtc.def"
#undef FUNCTION

static sim_program *of(nvrtcProgram program)
{
    return (sim_program *)(void *)program;
}

/* NVRTC's own numbers: 5 is an invalid option, 11 an internal error. */
static nvrtcResult leave(int injected, int result)
{
    return (nvrtcResult)sim_leave(injected != 0 ? 11 : result);
}

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return leave(sim_enter("nvrtcVersion"), 0);
}

const char *nvrtcGetErrorString(nvrtcResult code)
{
    return code == 0 ? "NVRTC_SUCCESS" : code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INTERNAL_ERROR";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int count,
                               const char *const *headers, const char *const *names)
{
    const int injected = sim_enter("nvrtcCreateProgram");
    sim_program *made = NULL;
    (void)name;
    (void)headers;
    (void)names;
    const int result = injected != 0 ? 0 : count != 0 ? 3 : sim_program_create(source, &made);
    *program = (nvrtcProgram)(void *)made;
    return leave(injected, result);
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    const int injected = sim_enter("nvrtcDestroyProgram");
    sim_program *p = of(*program);
    const int result = sim_program_delete(&p);
    *program = NULL;
    return leave(injected, result);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    const int injected = sim_enter("nvrtcCompileProgram");
    int result = 5, fmad = 0;
    for (int i = 0; i < count; i++)
        fmad |= strcmp(options[i], "--fmad=false") == 0;
    if (fmad && injected == 0)
        result = sim_program_compile(of(program), "--gpu-architecture=", count, options);
    return leave(injected, result);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    const int injected = sim_enter("nvrtcGetProgramLogSize");
    *size = strlen(of(program)->log) + 1;
    return leave(injected, 0);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    const int injected = sim_enter("nvrtcGetProgramLog");
    strcpy(log, of(program)->log);
    return leave(injected, 0);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    const int injected = sim_enter("nvrtcGetCUBINSize");
    *size = of(program)->image != NULL ? strlen(of(program)->image) + 1 : 0;
    return leave(injected, 0);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    const int injected = sim_enter("nvrtcGetCUBIN");
    if (injected == 0)
        strcpy(cubin, of(program)->image);
    return leave(injected, 0);
}
