/* SPDX-License-Identifier: Apache-2.0 */
/* Trials in a worker's process. */
#ifndef CKV_AUTOTUNE_REMOTE_H
#define CKV_AUTOTUNE_REMOTE_H

#include "bench/shapes.h"
#include "search.h"
#include "worker.h"

struct remote {
    struct worker worker;
    const struct space *space;
    const char *backend, *device; /* device may be NULL */
    int32_t threads;

    /* Of the present search. */
    const struct shape *shape;
    int64_t tokens;
    const ckv_plan *plan; /* that the model is asked about */
    struct candidate base;
    void (*note)(void *user, int done, int of);
    void *user;
};

/* Trials on `remote`, which lives as long as they do. */
struct trials remote_trials(struct remote *remote);

#endif
