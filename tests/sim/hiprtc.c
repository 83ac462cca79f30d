/* SPDX-License-Identifier: Apache-2.0 */
/* libhiprtc.so: takes the kernels' text and gives an image for the pretended devices. */
#include "backends/gpu/vendor/hiprtc.h"

#include <string.h>

#include "rtc.h"
#include "runtime.h"

#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) SIM_EXPORT result name arguments;
#include "backends/gpu/vendor/hiprtc.def"
#undef FUNCTION

static sim_program *of(hiprtcProgram program)
{
    return (sim_program *)(void *)program;
}

/* hipRTC's own numbers: 5 is an invalid option, 11 an internal error. */
static hiprtcResult leave(int injected, int result)
{
    return (hiprtcResult)sim_leave(injected != 0 ? 11 : result);
}

hiprtcResult hiprtcVersion(int *major, int *minor)
{
    *major = 6;
    *minor = 0;
    return leave(sim_enter("hiprtcVersion"), 0);
}

const char *hiprtcGetErrorString(hiprtcResult code)
{
    return code == 0 ? "HIPRTC_SUCCESS" : code == 6 ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR_INTERNAL_ERROR";
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram *program, const char *source, const char *name, int count,
                                 const char **headers, const char **names)
{
    const int injected = sim_enter("hiprtcCreateProgram");
    sim_program *made = NULL;
    (void)name;
    (void)headers;
    (void)names;
    const int result = injected != 0 ? 0 : count != 0 ? 3 : sim_program_create(source, &made);
    *program = (hiprtcProgram)(void *)made;
    return leave(injected, result);
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program)
{
    const int injected = sim_enter("hiprtcDestroyProgram");
    sim_program *p = of(*program);
    const int result = sim_program_delete(&p);
    *program = NULL;
    return leave(injected, result);
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int count, const char **options)
{
    const int injected = sim_enter("hiprtcCompileProgram");
    int result = 5, contraction = 0;
    for (int i = 0; i < count; i++)
        contraction |= strcmp(options[i], "-ffp-contract=off") == 0;
    if (contraction && injected == 0)
        result = sim_program_compile(of(program), "--offload-arch=", count, options);
    return leave(injected, result);
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *size)
{
    const int injected = sim_enter("hiprtcGetProgramLogSize");
    *size = strlen(of(program)->log) + 1;
    return leave(injected, 0);
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log)
{
    const int injected = sim_enter("hiprtcGetProgramLog");
    strcpy(log, of(program)->log);
    return leave(injected, 0);
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *size)
{
    const int injected = sim_enter("hiprtcGetCodeSize");
    *size = of(program)->image != NULL ? strlen(of(program)->image) + 1 : 0;
    return leave(injected, 0);
}

hiprtcResult hiprtcGetCode(hiprtcProgram program, char *code)
{
    const int injected = sim_enter("hiprtcGetCode");
    if (injected == 0)
        strcpy(code, of(program)->image);
    return leave(injected, 0);
}
