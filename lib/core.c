/* SPDX-License-Identifier: Apache-2.0 */
/* The core's functions as modules get them. */
#include "backends/cpu/threads.h"
#include "module.h"
#include "status.h"
#include "version.h"

/* Threads are the core's, so that a process has them once: it must know after a fork
 * whether it had any. */
const ckv_core ckv_core_functions = {
    .version = CKV_VERSION_TEXT,
    .fail = ckv_fail_list,
    .context_allocate = ckv_context_allocate,
    .context_release = ckv_context_release,
    .default_threads = ckv_cpu_default_threads,
    .for_each = ckv_cpu_for_each,
};
