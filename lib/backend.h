/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a backend is to the core.  Everything that reaches it is checked: views
 * fit the plan, outputs do not overlap, the workspace is large enough and
 * aligned.  Each stage returns the CKV_NONFINITE_* flags of what it read.
 */
#ifndef CKV_LIB_BACKEND_H
#define CKV_LIB_BACKEND_H

#include "identity.h"
#include "plan.h"
#include "projection.h"
#include "tensor.h"

typedef enum ckv_stage { CKV_SCORE, CKV_NORM, CKV_SELECT, CKV_COMPACT, CKV_EVICT, CKV_STAGES } ckv_stage;

/* A checked ckv_selection. */
typedef struct ckv_kept {
    int32_t *positions;
    int32_t *offsets;
    uint8_t *stages; /* may be NULL */
    void *buffer;    /* of the three, or NULL */
} ckv_kept;

/* What a call of a device backend works with beside its tensors. */
typedef struct ckv_launch {
    int32_t memory;  /* CKV_MEMORY_*: of every pointer of the call */
    void *stream;    /* of the caller's, or NULL */
    void *workspace; /* CKV_MEMORY_DEVICE only */
    void *buffer;    /* of workspace and flags, or NULL */
    void *device_flags;
    uint32_t flags;      /* out, with CKV_MEMORY_HOST */
    int64_t exact_norms; /* the same */
} ckv_launch;

/* The stages of a backend that has memory of its own, and can fail. */
typedef struct ckv_device_stages {
    ckv_status (*score)(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                        const ckv_tensor *attention, ckv_launch *launch);
    ckv_status (*norm)(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                       const ckv_tensor *norm, ckv_launch *launch);
    /* Also where the budget is all tokens or none, when the memory is the device's. */
    ckv_status (*select)(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm,
                         const ckv_kept *kept, ckv_launch *launch);
    ckv_status (*compact)(const ckv_plan *plan, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to,
                          ckv_launch *launch);
    ckv_status (*evict)(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                        const ckv_projection *projection, const ckv_kept *kept, ckv_launch *launch);

    /* The projection on the device, from the host's: p->packed. */
    ckv_status (*open_projection)(ckv_projection *projection);
    void (*close_projection)(ckv_projection *projection);

    /* One stage on copies of the inputs, which are on the host and fit it: seconds of each
     * repeat, by the device's events. */
    ckv_status (*measure)(const ckv_plan *plan, ckv_stage stage, const ckv_inputs *inputs, int32_t repeats,
                          double *seconds);
} ckv_device_stages;

/* What "auto" tries first; equal ranks in the order of the registry. */
enum {
    CKV_RANK_NEVER = -1, /* only when asked for by the backend's name */
    CKV_RANK_DISCRETE,
    CKV_RANK_INTEGRATED,
    CKV_RANK_CPU,
    CKV_RANK_REFERENCE,
    CKV_RANKS
};

typedef struct ckv_backend {
    const char *name;

    int32_t (*device_count)(void);
    const char *(*absence)(void); /* optional: why device_count is 0 */
    const char *(*device_name)(int32_t device);
    const char *(*context_device_name)(const ckv_context *context); /* what this context has of it */
    /* Optional: which of the backend's ways this context's calls go, such as an instruction set. */
    const char *(*context_variant)(const ckv_context *context);
    const char *(*device_reason)(int32_t device); /* why it cannot be used, "" when it can */

    int (*device_rank)(int32_t device); /* CKV_RANK_*: the place in "auto" */

    /* Optional, asked once for a context: what the environment asks of the backend and this machine
     * cannot give, with the variable, its value and what there is; "" untouched where it can.  The
     * backend has no devices then, and "auto" ends with that reason where they would have been tried. */
    void (*refusal)(char *reason, size_t size);

    /* Optional: settles what a context needs beside the device's number.  CKV_ERROR_INVALID_ARGUMENT:
     * the environment asks for what this device has not; where no other device of its kind has it,
     * "auto" ends with that too. */
    ckv_status (*open_device)(ckv_context *context);
    void (*close_device)(ckv_context *context); /* optional: undoes it */

    /* Optional: what the context's device is, as the vendor spells it (lib/identity.c makes
     * one spelling of several); zeroed before.  Without it no tuning file is used. */
    void (*identify)(const ckv_context *context, ckv_device_identity *identity);

    /* What may be tuned; of the functions, `allowed` is optional and says what the device
     * cannot run, `model` gives the value for want of a better one. */
    const ckv_tunable *tunables;
    int32_t tunable_count;
    int (*tunable_allowed)(const ckv_context *context, int32_t index, int32_t value);
    int32_t (*tunable_model)(const ckv_context *context, const ckv_problem *problem, int32_t index);
    void (*apply_parameters)(ckv_context *context); /* optional: those of CKV_TUNE_CONTEXT are settled */
    /* Optional: seconds of a stage with the plan's parameters, by counted work; 0: unknown. */
    double (*estimate)(const ckv_plan *plan, ckv_stage stage);

    /* Optional pair: the projection in a layout of the backend's own, made once with
     * it; size 0 on overflow. */
    size_t (*projection_size)(const ckv_context *context, const ckv_projection *projection);
    ckv_status (*projection_pack)(const ckv_context *context, const ckv_projection *projection, void *memory);

    /* Bytes that any stage of the plan, and the whole, needs; 0 when that overflows. */
    size_t (*workspace_size)(const ckv_plan *plan);

    const ckv_device_stages *device; /* NULL: the stages below, in host memory, which cannot fail */

    uint32_t (*score)(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *attention,
                      void *workspace);
    uint32_t (*norm)(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                     const ckv_tensor *norm, void *workspace);
    uint32_t (*select)(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept,
                       void *workspace);
    void (*compact)(const ckv_plan *plan, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to);

    /* Score, norm and select of a plan with 0 < budget < tokens; norms that cannot change
     * what is kept may be left out where the plan says so.  *exact_norms: rows of V whose
     * norm was computed. */
    uint32_t (*evict)(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                      const ckv_projection *projection, const ckv_kept *kept, void *workspace, int64_t *exact_norms);
} ckv_backend;

/* Of the context's backend; "" where it has but one. */
static inline const char *ckv_backend_variant(const ckv_context *context)
{
    const char *variant = context->backend->context_variant == NULL ? "" : context->backend->context_variant(context);
    return variant == NULL ? "" : variant;
}

extern const ckv_backend ckv_backend_cpu;
extern const ckv_backend ckv_backend_cuda;
extern const ckv_backend ckv_backend_hip;
extern const ckv_backend ckv_backend_opencl;
extern const ckv_backend ckv_backend_ref;

#endif
