/* SPDX-License-Identifier: Apache-2.0 */
/* See sim.h. */
#include "sim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

test_sim_control sim;

static const char *const libraries[] = {"libckv_sim.so", "libcuda.so.1", "libamdhip64.so.7", "libnvrtc.so.13",
                                        "libhiprtc.so.7"};
enum { LIBRARIES = sizeof libraries / sizeof libraries[0] };
static void *handles[LIBRARIES];

const char *test_sim_load(void)
{
    const char *build = getenv("top_builddir");
    for (int i = 0; i < LIBRARIES; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/tests/sim/lib/%s", build != NULL ? build : ".", libraries[i]);
        handles[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handles[i] == NULL)
            return dlerror();
        /* Asked for by its bare name, as the drivers do, it must be the same. */
        void *again = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        if (again != handles[i])
            return "this system's loader does not take a loaded library by its name";
    }
    void *symbol;
#define CONTROL(result, name, arguments)                                                                               \
    symbol = dlsym(handles[0], #name);                                                                                 \
    memcpy(&sim.name, &symbol, sizeof symbol);
    SIM_CONTROL
#undef CONTROL
    return NULL;
}

void *test_sim_symbol(const char *library, const char *name)
{
    for (int i = 0; i < LIBRARIES; i++)
        if (strcmp(libraries[i], library) == 0)
            return dlsym(handles[i], name);
    return NULL;
}
