/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the limits and the peers: OpenMP's, as the library's are. */
#include "threads.h"

#include "lib/sizes.h"

#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif

int32_t threads_default(void)
{
    const char *text = getenv("CKV_NUM_THREADS");
    char *end = NULL;
    long count = text == NULL ? 0 : strtol(text, &end, 10);

    if (count >= 1 && count <= CKV_LIMIT_THREADS && *end == '\0')
        return (int32_t)count;
#ifdef _OPENMP
    count = omp_get_max_threads();
    return count < CKV_LIMIT_THREADS ? (int32_t)count : CKV_LIMIT_THREADS;
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
