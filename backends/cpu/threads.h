/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: a loop over items, shared out among the threads that a context allows. */
#ifndef CKV_BACKENDS_CPU_THREADS_H
#define CKV_BACKENDS_CPU_THREADS_H

#include <stdatomic.h>

#include "lib/context.h"

/* Takes items until none is left: for (i = ckv_cpu_next(loop); i < items; ...). */
typedef struct ckv_cpu_loop {
    _Atomic int64_t next;
    int64_t items;
    void (*body)(const void *argument, int64_t item, int32_t worker);
    const void *argument;
} ckv_cpu_loop;

/* OpenMP's, where neither the caller nor the environment says how many. */
int32_t ckv_cpu_default_threads(void);

/* Calls body for every item once, on up to context->threads workers.  Which worker
 * takes which item is left to chance: a body must not let it matter. */
void ckv_cpu_for_each(const ckv_context *context, int64_t items,
                      void (*body)(const void *argument, int64_t item, int32_t worker), const void *argument);

#endif
