/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated timing: several things in turn, so that drift of the machine meets all. */
#define _POSIX_C_SOURCE 200809L
#include "timing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_ITEMS 4
#define MOST_SAMPLES 1000

struct samples {
    double seconds[MOST_SAMPLES];
    size_t count;
    double total;
};

double timing_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* Between the samples where the share falls between two. */
static double at_share(const double *sorted, size_t count, double share)
{
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    double rest = place - (double)below;

    return below + 1 < count ? sorted[below] + rest * (sorted[below + 1] - sorted[below]) : sorted[below];
}

void timing_summarise(double *samples, size_t count, struct times *times)
{
    memset(times, 0, sizeof *times);
    if (count == 0)
        return;
    qsort(samples, count, sizeof *samples, ascending);
    times->least = samples[0];
    times->most = samples[count - 1];
    times->lower = at_share(samples, count, 0.25);
    times->median = at_share(samples, count, 0.5);
    times->upper = at_share(samples, count, 0.75);
    times->repeats = count;
}

static bool run_once(const struct timed *item, double *seconds)
{
    double start;
    bool good;

    if (item->before != NULL)
        item->before(item->before_argument);
    start = timing_clock();
    good = item->run(item->argument);
    *seconds = timing_clock() - start;
    return good;
}

static bool enough(const struct samples *samples, const struct effort *effort)
{
    return samples->count == MOST_SAMPLES || (samples->count > 0 && samples->total >= effort->most) ||
           (samples->count >= effort->repeats && samples->total >= effort->least);
}

static void add(struct samples *samples, double seconds)
{
    samples->seconds[samples->count++] = seconds;
    samples->total += seconds;
}

static bool take_turns(struct timed *items, size_t count, const struct effort *effort, struct samples *samples)
{
    double seconds;
    bool all_done = false;

    for (size_t i = 0; i < count; i++) {
        if (!run_once(&items[i], &seconds))
            return false;
        if (seconds >= effort->most)
            add(&samples[i], seconds);
    }
    while (!all_done) {
        all_done = true;
        for (size_t i = 0; i < count; i++) {
            if (enough(&samples[i], effort))
                continue;
            all_done = false;
            if (!run_once(&items[i], &seconds))
                return false;
            add(&samples[i], seconds);
        }
    }
    return true;
}

bool timing_measure(struct timed *items, size_t count, const struct effort *effort)
{
    struct samples samples[MOST_ITEMS];
    bool good;

    if (count > MOST_ITEMS)
        return false;
    for (size_t i = 0; i < count; i++) {
        samples[i].count = 0;
        samples[i].total = 0;
    }
    good = take_turns(items, count, effort, samples);
    for (size_t i = 0; good && i < count; i++)
        timing_summarise(samples[i].seconds, samples[i].count, &items[i].times);
    return good;
}

double timing_spread(const struct times *times)
{
    return times->median > 0 ? (times->upper - times->lower) / 2 / times->median : 0;
}
