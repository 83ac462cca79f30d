/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the limits and the peers: OpenMP's, as the library's are. */
#ifndef CKV_BENCH_THREADS_H
#define CKV_BENCH_THREADS_H

#include <stdint.h>

/* What the library takes when nothing is asked for: CKV_NUM_THREADS, else OpenMP's.  0 after one
 * error line: the former is none. */
int32_t threads_default(void);

/* Of so many asked for: 1 in a build without OpenMP, as in the library. */
int32_t threads_usable(int32_t threads);

/* body(argument, i, worker) once for each i in [0, items), worker in [0, threads). */
void threads_run(int32_t threads, int64_t items, void (*body)(void *argument, int64_t item, int32_t worker),
                 void *argument);

#endif
