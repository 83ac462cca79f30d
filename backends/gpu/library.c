/* SPDX-License-Identifier: Apache-2.0 */
/* What the drivers share. */
#define _POSIX_C_SOURCE 200809L
#include "library.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/names.h"

void ckv_library_say(char *log, size_t size, const char *format, ...)
{
    va_list arguments;
    if (log == NULL || size == 0)
        return;
    va_start(arguments, format);
    vsnprintf(log, size, format, arguments);
    va_end(arguments);
}

void ckv_library_copy(char *to, size_t size, const char *from)
{
    size_t length;
    from += strspn(from, " \t\r\n");
    length = strlen(from);
    while (length > 0 && strchr(" \t\r\n", from[length - 1]) != NULL)
        length--;
    ckv_library_say(to, size, "%.*s", (int)(length < size ? length : size - 1), from);
}

/* A library that is simply not there says less than one that is there and broken. */
static void *open_first(const char *const *names, const char **found, char *reason, size_t size)
{
    int kept = 0;
    for (int i = 0; names[i] != NULL; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        const char *text;
        int absent;
        *found = names[i];
        if (handle != NULL)
            return handle;
        text = dlerror();
        text = text == NULL ? "cannot be loaded" : text;
        absent = strncmp(text, names[i], strlen(names[i])) == 0 && strstr(text, "No such file") != NULL;
        if (i == 0 || (!absent && !kept))
            ckv_library_say(reason, size, "%s", text);
        kept |= !absent;
    }
    return NULL;
}

int ckv_library_load(const char *const *names, const ckv_symbol *symbols, size_t count, void *table, char *reason,
                     size_t size)
{
    const char *name = "";
    void *handle = open_first(names, &name, reason, size);
    if (handle == NULL)
        return 0;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (symbol == NULL && !symbols[i].optional) {
            ckv_library_say(reason, size, "%s: no function %s", name, symbols[i].name);
            dlclose(handle);
            return 0;
        }
        /* POSIX: a function's pointer from dlsym has a data pointer's representation. */
        memcpy((char *)table + symbols[i].offset, &symbol, sizeof symbol);
    }
    reason[0] = '\0';
    return 1;
}

int ckv_library_begin(ckv_library_state *state, const char *backend, const char *const *names,
                      const ckv_symbol *symbols, size_t count, void *table)
{
    state->pid = (long)getpid();
    if (ckv_names_hold(getenv("CKV_DISABLE"), backend)) {
        ckv_library_say(state->reason, sizeof state->reason, "switched off by CKV_DISABLE");
        return 0;
    }
    return ckv_library_load(names, symbols, count, table, state->reason, sizeof state->reason);
}

int ckv_library_forked(const ckv_library_state *state)
{
    return state->pid != (long)getpid();
}

const char *ckv_library_reason(const ckv_library_state *state)
{
    if (state->reason[0] != '\0')
        return state->reason;
    return ckv_library_forked(state) ? CKV_GPU_FORKED_TEXT : NULL;
}

const char *ckv_library_error(int code)
{
    switch (code) {
    case CKV_GPU_OK:
        return "success";
    case CKV_GPU_FAILED:
        return "failed";
    case CKV_GPU_FORKED:
        return CKV_GPU_FORKED_TEXT;
    default:
        return NULL;
    }
}
