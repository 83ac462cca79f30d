/* SPDX-License-Identifier: Apache-2.0 */
/* In a module: the core's functions under their own names, through the table that the
 * core gave, so that a backend's source need not know whether it is built in. */
#include <stdatomic.h>

#include "backends/cpu/threads.h"
#include "entry.h"
#include "lib/status.h"

static _Atomic(const ckv_core *) core;

int ckv_forward_to(const ckv_core *given)
{
    const ckv_core *none = NULL;
    return atomic_compare_exchange_strong(&core, &none, given) || none == given;
}

ckv_status ckv_fail(ckv_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    core->fail(status, format, arguments);
    va_end(arguments);
    return status;
}

ckv_status ckv_fail_null(const char *name)
{
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: NULL, wanted a pointer", name);
}

const char *ckv_version(void)
{
    return core->version;
}

void *ckv_context_allocate(const ckv_context *context, size_t bytes, const char *what)
{
    return core->context_allocate(context, bytes, what);
}

void ckv_context_release(const ckv_context *context, void *memory)
{
    core->context_release(context, memory);
}

int32_t ckv_cpu_default_threads(void)
{
    return core->default_threads();
}

void ckv_cpu_for_each(const ckv_context *context, int64_t items,
                      void (*body)(const void *argument, int64_t item, int32_t worker), const void *argument)
{
    core->for_each(context, items, body, argument);
}
