/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the worker does: a candidate's bits compared with the reference's and with the
 * default's, and its times taken.  Layers and handles stay from one request to the next.
 *
 * Requests have "op" ("check" or "time"), "stage", "parameters" and "base" (a candidate and
 * the default, as ckv_context_options.parameters), "backend", "device" (or null),
 * "threads", "tokens", "shape" (as in bench's files) and, to time, "repeats".
 */
#ifndef CKV_AUTOTUNE_WORKBENCH_H
#define CKV_AUTOTUNE_WORKBENCH_H

#include "worker.h"

/* Of a made-up layer that is tuned for. */
#define WORKBENCH_QUERIES 32

/* `ckv tune-worker`; the exit status. */
int workbench_serve(void);

#endif
