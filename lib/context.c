/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and the allocator of their handles. */
#define _POSIX_C_SOURCE 200809L
#include "context.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "dispatch.h"
#include "registry.h"
#include "sizes.h"
#include "status.h"
#include "threads.h"
#include "tuning_store.h"
#include "version.h"

const char *ckv_version(void)
{
    return CKV_VERSION_TEXT;
}

static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    void *memory = NULL;
    (void)user;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void default_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

void *ckv_context_allocate(const ckv_context *context, size_t bytes, const char *what)
{
    void *memory = context->allocate(context->user, bytes, 64);
    if (memory == NULL)
        ckv_fail(CKV_ERROR_NO_MEMORY, "%s: could not allocate %zu bytes", what, bytes);
    else
        memset(memory, 0, bytes);
    return memory;
}

void ckv_context_release(const ckv_context *context, void *memory)
{
    context->release(context->user, memory);
}

void ckv_context_options_init(ckv_context_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
}

ckv_status ckv_context_draft(ckv_context *draft, const ckv_context_options *options)
{
    memset(draft, 0, sizeof *draft);
    draft->allocate = options == NULL || options->allocate == NULL ? default_allocate : options->allocate;
    draft->release = options == NULL || options->release == NULL ? default_release : options->release;
    draft->user = options == NULL ? NULL : options->user;
    return ckv_registry_create(draft, &draft->registry);
}

/* At most so many threads: as the options say, else as the environment does; 0: neither says. */
static ckv_status read_threads(const ckv_context_options *options, int32_t *threads)
{
    const char *text = getenv(CKV_THREADS_VARIABLE);
    *threads = options->threads;
    if (options->threads < 0 || options->threads > CKV_LIMIT_THREADS)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "options: threads %d, wanted 0 to %d", (int)options->threads,
                        CKV_LIMIT_THREADS);
    if (options->parallel_for != NULL && options->threads == 0)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "options: threads 0, wanted the width of parallel_for");
    if (options->threads == 0 && !ckv_threads_read(text, threads))
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s '%.40s', wanted a number of threads from 1 to %d",
                        CKV_THREADS_VARIABLE, text, CKV_LIMIT_THREADS);
    return CKV_OK;
}

/* Closes what the draft has opened; its own memory is the caller's. */
static void close_context(ckv_context *context)
{
    ckv_tuning_close(context);
    if (context->backend != NULL && context->backend->close_device != NULL)
        context->backend->close_device(context);
    ckv_registry_destroy(context->registry);
}

ckv_status ckv_context_create(const ckv_context_options *given, ckv_context **out)
{
    ckv_context_options options;
    ckv_context draft;
    ckv_status status;
    int32_t threads;
    if (out == NULL)
        return ckv_fail_null("context");
    *out = NULL;
    ckv_context_options_init(&options);
    if (given != NULL) {
        status = ckv_struct_read(&options, sizeof options, offsetof(ckv_context_options, pool) + sizeof options.pool,
                                 given, "options");
        if (status != CKV_OK)
            return status;
    }
    if ((options.allocate == NULL) != (options.release == NULL))
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT,
                        "options: only one of allocate and release is set, wanted both or none");
    status = read_threads(&options, &threads);
    if (status == CKV_OK)
        status = ckv_context_draft(&draft, &options);
    if (status != CKV_OK)
        return status;
    draft.threads = threads;
    draft.parallel_for = options.parallel_for;
    draft.pool = options.pool;
    draft.native_context = options.native_context;
    status = ckv_dispatch(&draft, &options);
    if (status == CKV_OK)
        status = ckv_tuning_read(&draft, options.parameters);
    if (status == CKV_OK)
        status = ckv_tuning_open(&draft);
    if (status == CKV_OK) {
        static const ckv_problem none = {0};
        ckv_tuning_settle(&draft, CKV_TUNE_CONTEXT, &none, &draft.parameters);
        if (draft.backend->apply_parameters != NULL)
            draft.backend->apply_parameters(&draft);
        *out = ckv_context_allocate(&draft, sizeof draft, "context");
        status = *out == NULL ? CKV_ERROR_NO_MEMORY : CKV_OK;
    }
    if (status != CKV_OK) {
        close_context(&draft);
        return status;
    }
    **out = draft;
    return CKV_OK;
}

void ckv_context_destroy(ckv_context *context)
{
    if (context == NULL)
        return;
    close_context(context);
    ckv_context_release(context, context);
}
