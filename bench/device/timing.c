/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated timing by the device's events.  Several runs are enqueued at once, so that the
 * device, not the host, is what is timed wherever it is the slower of the two. */
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define BATCH 8
#define LEAST 3

struct events {
    ckv_gpu_event start[BATCH], end[BATCH];
};

static void release(const ckv_gpu *gpu, struct events *events)
{
    for (int i = 0; i < BATCH; i++) {
        gpu->driver->release_event(gpu->device, events->start[i]);
        gpu->driver->release_event(gpu->device, events->end[i]);
    }
}

static int create(const ckv_gpu *gpu, struct events *events)
{
    int code = CKV_GPU_OK;
    memset(events, 0, sizeof *events);
    for (int i = 0; i < BATCH && code == CKV_GPU_OK; i++) {
        code = gpu->driver->create_event(gpu->device, &events->start[i]);
        if (code == CKV_GPU_OK)
            code = gpu->driver->create_event(gpu->device, &events->end[i]);
    }
    return code;
}

/* Runs `count` times; seconds of each. */
static int batch(const struct subject *subject, struct events *events, int count, call_function call, void *argument,
                 double *samples)
{
    const ckv_gpu *gpu = subject->gpu;
    void *stream = subject->run.stream;
    int code = CKV_GPU_OK;
    float milliseconds = 0;
    for (int i = 0; i < count && code == CKV_GPU_OK; i++) {
        code = gpu->driver->record(gpu->device, stream, events->start[i]);
        if (code == CKV_GPU_OK && !call(argument))
            return 0;
        if (code == CKV_GPU_OK)
            code = gpu->driver->record(gpu->device, stream, events->end[i]);
    }
    for (int i = 0; i < count && code == CKV_GPU_OK; i++) {
        code = gpu->driver->elapsed(gpu->device, events->start[i], events->end[i], &milliseconds);
        samples[i] = (double)milliseconds * 1e-3;
    }
    return code == CKV_GPU_OK ? 1 : failed(subject, "timing", code);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(double *samples, int count, struct times *times)
{
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    times->median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    times->least = samples[0];
    times->most = samples[count - 1];
    times->lower = samples[(count - 1) / 4];
    times->upper = samples[count - 1 - (count - 1) / 4];
    times->repeats = count;
}

int measure(const struct subject *subject, const struct options *options, call_function call, void *argument,
            struct times *times)
{
    const ckv_gpu *gpu = subject->gpu;
    struct events events;
    double *samples = malloc((size_t)options->repeats * sizeof *samples), first = 0, ignored[BATCH];
    int repeats = options->repeats, good = samples != NULL, code = create(gpu, &events);
    memset(times, 0, sizeof *times);
    if (code != CKV_GPU_OK)
        good = failed(subject, "making events", code);
    for (int i = 0; i < options->warm_up && good; i++) {
        good = batch(subject, &events, 1, call, argument, ignored);
        first = ignored[0];
        if (first * (options->warm_up + options->repeats) > options->most)
            break; /* slow enough to need no more */
    }
    if (first > 0 && first * repeats > options->most)
        repeats = (int)(options->most / first);
    if (repeats < LEAST)
        repeats = options->repeats < LEAST ? options->repeats : LEAST;
    for (int done = 0, count; done < repeats && good; done += count) {
        count = repeats - done < BATCH ? repeats - done : BATCH;
        good = batch(subject, &events, count, call, argument, samples + done);
    }
    if (good)
        summarise(samples, repeats, times);
    release(gpu, &events);
    free(samples);
    return good;
}
