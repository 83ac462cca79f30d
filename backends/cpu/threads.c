/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: OpenMP's, the engine's own pool, or this thread alone. */
#define _POSIX_C_SOURCE 200809L
#include "threads.h"

#include <unistd.h>

#include "lib/sizes.h"

#ifdef _OPENMP
#include <omp.h>
#endif

int32_t ckv_cpu_default_threads(void)
{
#ifdef _OPENMP
    const int count = omp_get_max_threads();
    return count < CKV_LIMIT_THREADS ? (int32_t)count : CKV_LIMIT_THREADS;
#else
    return 1;
#endif
}

static void work(void *argument, int32_t worker)
{
    ckv_cpu_loop *loop = argument;
    int64_t item;
    while ((item = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed)) < loop->items)
        loop->body(loop->argument, item, worker);
}

#ifdef _OPENMP
/* 0 in a process that was forked from one where OpenMP had threads: they did not come
 * along, and libgomp would wait for them for ever. */
static int openmp_has_its_threads(void)
{
    static _Atomic long first; /* process that first asked; the same for every context */
    long here = (long)getpid(), none = 0;
    return atomic_compare_exchange_strong(&first, &none, here) || none == here;
}
#endif

static void run_workers(const ckv_context *context, int32_t workers, ckv_cpu_loop *loop)
{
    if (workers <= 1) {
        work(loop, 0);
        return;
    }
    if (context->parallel_for != NULL) {
        context->parallel_for(context->pool, workers, work, loop);
        return;
    }
#ifdef _OPENMP
    if (!omp_in_parallel() && openmp_has_its_threads()) {
#pragma omp parallel for num_threads(workers) schedule(static, 1)
        for (int32_t worker = 0; worker < workers; worker++)
            work(loop, worker);
        return;
    }
#endif
    work(loop, 0);
}

void ckv_cpu_for_each(const ckv_context *context, int64_t items,
                      void (*body)(const void *argument, int64_t item, int32_t worker), const void *argument)
{
    ckv_cpu_loop loop = {.items = items, .body = body, .argument = argument};
    int32_t workers = context->threads < items ? context->threads : (int32_t)items;
    run_workers(context, workers, &loop);
}
