/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, inside the library. */
#ifndef CKV_LIB_CONTEXT_H
#define CKV_LIB_CONTEXT_H

#include <ckv/ckv.h>

#include "tuning.h"

struct ckv_backend;
struct ckv_registry;

#define CKV_CONTEXT_FAILURES 16 /* later ones are not noted */

/* Why a device that seemed usable was not opened. */
typedef struct ckv_device_failure {
    const char *backend;
    int32_t device;
    char reason[200];
} ckv_device_failure;

struct ckv_context {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory);
    void *user;
    struct ckv_registry *registry;
    const struct ckv_backend *backend; /* NULL until one is chosen */
    int32_t device;
    const void *backend_state; /* what the backend's open_device left here */
    int32_t threads; /* at most this many work at once; 0, where nobody says, until a backend with threads settles it */
    void (*parallel_for)(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument);
    void *pool;
    void *native_context;            /* a cl_context, or NULL */
    ckv_parameters given;            /* by override or environment; source 0: not given */
    ckv_parameters parameters;       /* CKV_TUNE_CONTEXT */
    struct ckv_tuning_store *tuning; /* what tuning files hold for this device */
    int failures;                    /* devices tried and not opened */
    ckv_device_failure failed[CKV_CONTEXT_FAILURES];
};

/* A context without a choice: its allocator (NULL: the default) and its list of backends,
 * which the caller destroys. */
ckv_status ckv_context_draft(ckv_context *draft, const ckv_context_options *options);

/* Zeroed memory of a handle, aligned to 64 bytes; NULL with the detail set. */
void *ckv_context_allocate(const ckv_context *context, size_t bytes, const char *what);
void ckv_context_release(const ckv_context *context, void *memory);

#endif
