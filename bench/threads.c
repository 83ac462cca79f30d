/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the limits and the peers: OpenMP's, as the library's are. */
#include "threads.h"

#include "lib/sizes.h"
#include "lib/threads.h"
#include "tools/message.h"

#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif

int32_t threads_default(void)
{
    const char *text = getenv(CKV_THREADS_VARIABLE);
    int32_t count = 0;

    if (!ckv_threads_read(text, &count)) {
        message_error("%s '%s', wanted a number of threads from 1 to %d", CKV_THREADS_VARIABLE, text,
                      CKV_LIMIT_THREADS);
        return 0;
    }
    if (count > 0)
        return count;
#ifdef _OPENMP
    count = omp_get_max_threads();
    return count < CKV_LIMIT_THREADS ? count : CKV_LIMIT_THREADS;
#else
    return 1;
#endif
}

int32_t threads_usable(int32_t threads)
{
#ifdef _OPENMP
    return threads;
#else
    (void)threads;
    return 1;
#endif
}

void threads_run(int32_t threads, int64_t items, void (*body)(void *argument, int64_t item, int32_t worker),
                 void *argument)
{
#ifdef _OPENMP
    if (threads > 1) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
        for (int64_t item = 0; item < items; item++)
            body(argument, item, omp_get_thread_num());
        return;
    }
#endif
    (void)threads;
    for (int64_t item = 0; item < items; item++)
        body(argument, item, 0);
}
