/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at most, measured. */
#define _DEFAULT_SOURCE
#include "limits.h"

#include "threads.h"
#include "tools/message.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 20e-3 /* of one repeat */
#define QUICK_SECONDS 5e-3
#define LEAST_BYTES ((size_t)128 << 20) /* and four times the last cache, where that is known */

static volatile uint64_t sink;

static void work_loop(void *argument, int64_t item, int32_t worker)
{
    const struct limits_loop *loop = argument;
    const struct limits *limits = loop->limits;
    size_t share = limits->bytes / (size_t)loop->threads / 64 * 64, words = share / sizeof *limits->from;
    size_t start = (size_t)item * words;

    (void)worker;
    switch (loop->bound) {
    case BOUND_FMA:
        limits->isa->fma(loop->rounds);
        break;
    case BOUND_INTEGER:
        limits->isa->integer(loop->rounds);
        break;
    case BOUND_READ:
        sink = limits->isa->read(limits->from + start, words);
        break;
    default:
        memcpy(limits->to + start, limits->from + start, share);
        break;
    }
}

static bool run_loop(void *argument)
{
    struct limits_loop *loop = argument;

    threads_run(loop->threads, loop->threads, work_loop, loop);
    return true;
}

static double amount_of(const struct limits_loop *loop)
{
    const struct isa *isa = loop->limits->isa;
    double bytes = (double)(loop->limits->bytes / (size_t)loop->threads / 64 * 64) * loop->threads;

    switch (loop->bound) {
    case BOUND_FMA:
        return (double)loop->rounds * isa->fma_macs * loop->threads;
    case BOUND_INTEGER:
        return (double)loop->rounds * isa->integer_macs * loop->threads;
    case BOUND_READ:
        return bytes;
    default:
        return 2 * bytes; /* read and written */
    }
}

/* Rounds that take so many seconds on one thread. */
static int64_t rounds_for(struct limits_loop loop, double seconds)
{
    double taken = 0;

    if (loop.bound == BOUND_READ || loop.bound == BOUND_COPY)
        return 1;
    loop.threads = 1;
    for (loop.rounds = 1000; taken < 1e-3; loop.rounds *= 4) {
        double start = timing_clock();

        run_loop(&loop);
        taken = timing_clock() - start;
    }
    return (int64_t)((double)loop.rounds / 4 * seconds / taken) + 1;
}

/* An item of timing_measure whose runs take so many seconds. */
static void set_up(const struct limits *limits, enum bound bound, int32_t threads, double seconds,
                   struct limits_loop *loop, struct timed *item)
{
    *loop = (struct limits_loop){limits, bound, threads, 0};
    loop->rounds = rounds_for(*loop, seconds);
    *item = (struct timed){.run = run_loop, .argument = loop};
}

static bool measure(const struct limits *limits, enum bound bound, int32_t threads, bool quick, struct limit *limit)
{
    const struct effort effort = {quick ? 5 : 12, 0, quick ? 0.1 : 1};
    struct limits_loop loop;
    struct timed timed;

    set_up(limits, bound, threads, quick ? QUICK_SECONDS : SECONDS, &loop, &timed);
    if (!timing_measure(&timed, 1, &effort))
        return false;
    limit->times = timed.times;
    limit->amount = amount_of(&loop);
    limit->rate = limit->amount / timed.times.least;
    return true;
}

static size_t memory_needed(bool quick)
{
    long cache = -1;
    size_t bytes = LEAST_BYTES;

#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (cache > 0 && (size_t)cache * 4 > bytes)
        bytes = (size_t)cache * 4;
    return quick ? bytes / 4 : bytes;
}

bool limits_measure(struct limits *limits, const struct isa *isa, int32_t threads, bool quick)
{
    bool good = true;

    memset(limits, 0, sizeof *limits);
    limits->isa = isa;
    limits->threads = threads;
    limits->bytes = memory_needed(quick);
    limits->from = malloc(limits->bytes);
    limits->to = malloc(limits->bytes);
    if (limits->from == NULL || limits->to == NULL) {
        message_error("out of memory for twice %zu bytes to measure the memory with", limits->bytes);
        return false;
    }
    /* Not zeros, which the kernel would give out as one page read many times. */
    memset(limits->from, 1, limits->bytes);
    memset(limits->to, 2, limits->bytes);
    for (int bound = 0; good && bound < BOUNDS; bound++) {
        good = measure(limits, (enum bound)bound, 1, quick, &limits->one[bound]);
        limits->all[bound] = limits->one[bound];
        if (good && threads > 1)
            good = measure(limits, (enum bound)bound, threads, quick, &limits->all[bound]);
        /* On a busy machine they hinder each other, but what one can do all can. */
        if (good && limits->all[bound].rate < limits->one[bound].rate)
            limits->all[bound] = limits->one[bound];
    }
    return good;
}

void limits_turn(const struct limits *limits, enum bound bound, struct limits_loop *loop, struct timed *item)
{
    set_up(limits, bound, limits->threads, SECONDS, loop, item);
}

double limits_rate(const struct limits_loop *loop, const struct times *times)
{
    return amount_of(loop) / times->median;
}

void limits_close(struct limits *limits)
{
    free(limits->from);
    free(limits->to);
    memset(limits, 0, sizeof *limits);
}

void limits_clear_caches(const void *argument)
{
    const struct limits *limits = argument;
    struct limits_loop loop = {limits, BOUND_READ, limits->threads, 1};

    run_loop(&loop);
}

const char *limits_unit(enum bound bound)
{
    return bound == BOUND_FMA || bound == BOUND_INTEGER ? "GMAC/s" : "GB/s";
}

const char *limits_name(const struct limits *limits, enum bound bound)
{
    switch (bound) {
    case BOUND_FMA:
        return limits->isa->fma_name;
    case BOUND_INTEGER:
        return limits->isa->integer_name;
    case BOUND_READ:
        return "memory read";
    default:
        return "memory copy";
    }
}

const char *limits_method(const struct limits *limits, enum bound bound)
{
    switch (bound) {
    case BOUND_READ:
        return "sums of 64-bit words";
    case BOUND_COPY:
        return "memcpy";
    default:
        return limits_name(limits, bound);
    }
}
