/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend as a module: a shared object ckv-NAME.so that exports one symbol,
 * ckv_module_entry.  Core and module are built from the same headers; the number says
 * whether they were.
 */
#ifndef CKV_LIB_MODULE_H
#define CKV_LIB_MODULE_H

#include <stdarg.h>

#include "backend.h"

/* Raised with every change of what core and modules share: the structs below, those of
 * backend.h, context.h, plan.h, projection.h, tensor.h and tuning.h, and what their functions mean. */
#define CKV_MODULE_ABI 2

#define CKV_MODULE_SYMBOL "ckv_module_entry"

/* What a module calls of the core: it may be out of reach of the loader's own search. */
typedef struct ckv_core {
    const char *version; /* ckv_version() */
    ckv_status (*fail)(ckv_status status, const char *format, va_list arguments);
    void *(*context_allocate)(const ckv_context *context, size_t bytes, const char *what);
    void (*context_release)(const ckv_context *context, void *memory);
    int32_t (*default_threads)(void);
    void (*for_each)(const ckv_context *context, int64_t items,
                     void (*body)(const void *argument, int64_t item, int32_t worker), const void *argument);
} ckv_core;

/* The core's own (core.c). */
extern const ckv_core ckv_core_functions;

/* Sizes of what both see, against a number that was not raised. */
typedef struct ckv_module_sizes {
    uint32_t backend, stages, context, plan, projection, core;
} ckv_module_sizes;

#define CKV_MODULE_SIZES                                                                                               \
    {                                                                                                                  \
        (uint32_t)sizeof(ckv_backend), (uint32_t)sizeof(ckv_device_stages), (uint32_t)sizeof(struct ckv_context),      \
            (uint32_t)sizeof(ckv_plan), (uint32_t)sizeof(struct ckv_projection), (uint32_t)sizeof(ckv_core)            \
    }

/* The one symbol.  abi and version stay where they are whatever else changes. */
typedef struct ckv_module {
    uint32_t abi;        /* CKV_MODULE_ABI */
    const char *version; /* of the library that it was built with */
    ckv_module_sizes sizes;
    const char *name; /* NAME of its file, and of its backend */
    /* The backend, or NULL with the reason.  Called once per context that looks for it, from
     * any thread; `core` lives as long as the process. */
    const ckv_backend *(*start)(const ckv_core *core, char *reason, size_t size);
} ckv_module;

#endif
