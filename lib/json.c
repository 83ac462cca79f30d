/* SPDX-License-Identifier: Apache-2.0 */
/* libjansson by dlopen. */
#define _POSIX_C_SOURCE 200809L
#include "json.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static ckv_json functions;
static char absence[200];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) {#name, offsetof(ckv_json, name)},
#include "jansson.def"
#undef CONSTANT
#undef FUNCTION
};

static void load(void)
{
    static const char name[] = "libjansson.so.4";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *text = dlerror();
        snprintf(absence, sizeof absence, "%s", text == NULL ? "libjansson.so.4 cannot be loaded" : text);
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol == NULL) {
            snprintf(absence, sizeof absence, "%s: no function %s", name, symbols[i].name);
            dlclose(library);
            return;
        }
        /* POSIX: a function's pointer from dlsym has a data pointer's representation. */
        memcpy((char *)&functions + symbols[i].offset, &symbol, sizeof symbol);
    }
}

const ckv_json *ckv_json_load(void)
{
    pthread_once(&once, load);
    return absence[0] == '\0' ? &functions : NULL;
}

const char *ckv_json_absence(void)
{
    pthread_once(&once, load);
    return absence;
}
