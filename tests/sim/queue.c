/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: one list of work in the order it was asked for, from which
 * whatever nothing earlier stands in the way of may be next. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "runtime.h"

typedef struct entry {
    struct entry *next;
    const sim_device *device;
    const sim_stream *stream; /* NULL: the device's default one */
    int64_t serial;
    sim_work work;
} entry;

static entry *queue, *kept; /* kept: what was captured */
static int64_t serials;
static int streams, events, logging, ignoring;
static char *log_text;
static size_t log_size;

sim_stream *sim_new_stream(const sim_device *device, int blocking)
{
    sim_stream *s = sim_new(SIM_STREAM, sizeof *s);
    s->device = device;
    s->blocking = blocking;
    s->number = ++streams;
    return s;
}

sim_event *sim_new_event(void)
{
    sim_event *e = sim_new(SIM_EVENT, sizeof *e);
    e->number = ++events;
    return e;
}

/* ---------------------------------------------------------------- what was asked for */

static int number_of(const entry *e)
{
    return e->stream == NULL ? 0 : e->stream->number;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[160];
    va_list list;
    va_start(list, format);
    const size_t length = (size_t)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    char *more = realloc(log_text, log_size + length + 1);
    if (more == NULL)
        abort();
    memcpy(more + log_size, line, length + 1);
    log_text = more;
    log_size += length;
}

static void write_down(const entry *e)
{
    const sim_work *w = &e->work;
    const int stream = number_of(e);
    const unsigned long long bytes = w->bytes;
    switch (w->command) {
    case SIM_UPLOAD:
        say("%d upload %llu %s\n", stream, bytes, sim_is_locked(w->from, w->bytes) ? "locked" : "pageable");
        break;
    case SIM_DOWNLOAD:
        say("%d download %llu %s\n", stream, bytes, sim_is_locked(w->to, w->bytes) ? "locked" : "pageable");
        break;
    case SIM_FILL:
        say("%d fill %llu\n", stream, bytes);
        break;
    case SIM_LAUNCH:
        say("%d launch %s\n", stream, sim_name_call(w->call));
        break;
    case SIM_RECORD:
        say("%d record %d\n", stream, w->event->number);
        break;
    case SIM_FOLLOW:
        say("%d follow %d\n", stream, w->event->number);
        break;
    }
}

void ckv_sim_log(int on)
{
    logging = on;
    log_size = 0;
    say("%s", "");
}

const char *ckv_sim_logged(void)
{
    return log_text == NULL ? "" : log_text;
}

void ckv_sim_ignore_events(int on)
{
    ignoring = on;
}

/* ---------------------------------------------------------------- what may run */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void append(entry **list, entry *e)
{
    while (*list != NULL)
        list = &(*list)->next;
    e->next = NULL;
    *list = e;
}

/* `later` must wait for `earlier`: of one stream, or one of them in the default stream
 * and the other in one that blocks. */
static int ordered(const entry *earlier, const entry *later)
{
    const sim_stream *a = earlier->stream, *b = later->stream;
    if (earlier->device != later->device)
        return 0;
    return a == b || (a == NULL && b->blocking) || (b == NULL && a->blocking);
}

static int may_run(const entry *e)
{
    for (const entry *earlier = queue; earlier != e; earlier = earlier->next)
        if (ordered(earlier, e) || (e->work.command == SIM_FOLLOW && earlier->serial == e->work.record && !ignoring))
            return 0;
    return 1;
}

/* The device's side of a copy is checked when the copy runs: it may be gone by then. */
static int perform(const entry *e)
{
    const sim_work *w = &e->work;
    void *to = w->to;
    const void *from = w->from;
    switch (w->command) {
    case SIM_UPLOAD:
    case SIM_FILL:
        to = sim_reach(e->device, w->to, w->bytes);
        break;
    case SIM_DOWNLOAD:
        from = sim_reach(e->device, w->from, w->bytes);
        break;
    case SIM_RECORD:
        w->event->time = now();
        w->event->pending--;
        w->event->recorded = 1;
        return SIM_OK;
    case SIM_FOLLOW:
        return SIM_OK;
    case SIM_LAUNCH:
        return sim_run_call(e->device, w->call);
    }
    if (to == NULL || (w->command != SIM_FILL && from == NULL)) {
        sim_complain("a copy or fill of %llu bytes outside any live block", (unsigned long long)w->bytes);
        return SIM_ILLEGAL_ADDRESS;
    }
    if (w->command == SIM_FILL)
        memset(to, w->value, w->bytes);
    else
        memcpy(to, from, w->bytes);
    return SIM_OK;
}

static void discard(entry *e)
{
    sim_delete_call(e->work.call);
    free(e);
}

static void run(entry *e)
{
    const int error = sim_lost() == 0 || e->work.command == SIM_RECORD ? perform(e) : SIM_OK;
    if (error != SIM_OK)
        sim_lose(error);
    for (entry **at = &queue; *at != NULL; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    discard(e);
}

/* Any one that may run, by the seed: one of them all, or that of the oldest or of the
 * newest stream, so that one stream gets far ahead of another. */
static void run_one(void)
{
    const int order = sim_order();
    entry *chosen = NULL;
    uint64_t count = 0;
    for (entry *e = queue; e != NULL; e = e->next)
        if (may_run(e)) {
            count++;
            if (chosen == NULL || (order == 0 && sim_random() % count == 0) ||
                (order == 1 && number_of(e) < number_of(chosen)) || (order == 2 && number_of(e) > number_of(chosen)))
                chosen = e;
        }
    if (chosen != NULL)
        run(chosen);
}

void sim_progress(void)
{
    if (queue != NULL && sim_random() % 4 == 0)
        run_one();
}

int sim_enqueue(const sim_device *device, sim_stream *stream, const sim_work *work)
{
    entry *e = calloc(1, sizeof *e);
    if (e == NULL)
        abort();
    e->device = device;
    e->stream = stream;
    e->work = *work;
    e->serial = ++serials;
    if (work->command == SIM_FOLLOW)
        e->work.record = work->event->last;
    if (sim_capturing()) {
        /* What the host holds may be gone or other when the graph runs. */
        if (work->command == SIM_DOWNLOAD || work->command == SIM_UPLOAD || work->command == SIM_FOLLOW ||
            stream == NULL) {
            discard(e);
            return SIM_NOT_IN_CAPTURE;
        }
        append(&kept, e);
        return SIM_OK;
    }
    if (work->command == SIM_RECORD) {
        work->event->pending++;
        work->event->last = e->serial;
    }
    if (logging)
        write_down(e);
    append(&queue, e);
    return SIM_OK;
}

static int has_work(const sim_device *device, const sim_stream *stream)
{
    for (const entry *e = queue; e != NULL; e = e->next)
        if (e->device == device && e->stream == stream)
            return 1;
    return 0;
}

int sim_wait_stream(const sim_device *device, const sim_stream *stream)
{
    if (sim_capturing())
        return SIM_NOT_IN_CAPTURE;
    while (has_work(device, stream))
        run_one();
    sim_check_memory();
    return sim_lost();
}

int sim_wait_event(const sim_event *event)
{
    if (sim_capturing())
        return SIM_NOT_IN_CAPTURE;
    while (event->pending > 0)
        run_one();
    return sim_lost();
}

int sim_wait_all(void)
{
    while (queue != NULL)
        run_one();
    return sim_lost();
}

void sim_forget_kept(void)
{
    while (kept != NULL) {
        entry *e = kept;
        kept = e->next;
        discard(e);
    }
}

int sim_replay(void)
{
    int commands = 0;
    for (const entry *e = kept; e != NULL; e = e->next, commands++) {
        sim_work work = e->work;
        entry *copy = calloc(1, sizeof *copy);
        if (copy == NULL)
            abort();
        if (work.call != NULL)
            work.call = sim_copy_call(work.call);
        if (work.command == SIM_RECORD)
            work.event->pending++;
        *copy = *e;
        copy->work = work;
        append(&queue, copy);
    }
    sim_wait_all();
    return commands;
}
