/* SPDX-License-Identifier: Apache-2.0 */
/* See rtc.h.  The text must be that of every kernel, else it does not compile. */
#define _GNU_SOURCE
#include "rtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { RTC_OUT_OF_MEMORY = 1, RTC_INVALID_INPUT = 3, RTC_INVALID_PROGRAM = 4, RTC_COMPILATION = 6 };

static const char *const names[] = {
#define CKV_KERNEL(name, buffers, group, route, local) #name,
#include "backends/gpu/kernels.def"
#undef CKV_KERNEL
};

int sim_program_create(const char *source, sim_program **program)
{
    if (source == NULL)
        return RTC_INVALID_INPUT;
    *program = sim_new(SIM_PROGRAM, sizeof **program);
    (*program)->source = strdup(source);
    return (*program)->source != NULL ? 0 : RTC_OUT_OF_MEMORY;
}

int sim_program_delete(sim_program **program)
{
    if (!sim_is(SIM_PROGRAM, *program))
        return RTC_INVALID_PROGRAM;
    free((*program)->source);
    free((*program)->image);
    sim_delete(SIM_PROGRAM, *program);
    *program = NULL;
    return 0;
}

int sim_program_compile(sim_program *program, const char *arch_option, int count, const char *const *options)
{
    const char *arch = NULL;
    char defines[1024] = "";
    if (!sim_is(SIM_PROGRAM, program))
        return RTC_INVALID_PROGRAM;
    for (int i = 0; i < count; i++) {
        if (strncmp(options[i], arch_option, strlen(arch_option)) == 0)
            arch = options[i] + strlen(arch_option);
        if (strncmp(options[i], "-D", 2) == 0) {
            if (defines[0] != '\0')
                strncat(defines, " ", sizeof defines - strlen(defines) - 1);
            strncat(defines, options[i], sizeof defines - strlen(defines) - 1);
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strstr(program->source, names[i]) == NULL) {
            snprintf(program->log, sizeof program->log, "ckv(1): error: no %s", names[i]);
            return RTC_COMPILATION;
        }
    if (arch == NULL) {
        snprintf(program->log, sizeof program->log, "ckv(1): error: no architecture");
        return RTC_COMPILATION;
    }
    free(program->image);
    program->image = NULL;
    return asprintf(&program->image, SIM_IMAGE "%s\n%s", arch, defines) > 0 ? 0 : RTC_OUT_OF_MEMORY;
}
