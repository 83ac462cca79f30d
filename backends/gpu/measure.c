/* SPDX-License-Identifier: Apache-2.0 */
/* A stage timed by the device's events, on copies of its inputs in device memory. */
#include <string.h>

#include "gpu.h"
#include "lib/status.h"

#define BATCH 8 /* runs enqueued at once, so that the device is timed and not the host */

enum { QUERY, KEY, VALUE, ATTENTION, NORM, POSITIONS, OFFSETS, KEPT_KEY, KEPT_VALUE, WORKSPACE, BLOCKS };

typedef struct subject {
    const ckv_gpu *gpu;
    const ckv_plan *plan;
    const ckv_projection *projection;
    ckv_gpu_memory block[BLOCKS];
    int taken[BLOCKS];
    ckv_tensor tensor[BLOCKS];
    ckv_kept kept;
    ckv_gpu_event start[BATCH], end[BATCH];
    int events;
    int code;
    const char *doing; /* when it failed */
} subject;

static void take(subject *s, int block, size_t bytes)
{
    if (s->code != CKV_GPU_OK)
        return;
    s->doing = "allocating";
    s->code = s->gpu->driver->allocate(s->gpu->device, bytes == 0 ? 1 : bytes, &s->block[block]);
    s->taken[block] = s->code == CKV_GPU_OK;
}

static void send(subject *s, int block, const void *from, size_t bytes)
{
    if (s->code != CKV_GPU_OK || bytes == 0)
        return;
    s->doing = "copying to the device";
    s->code = s->gpu->driver->upload(s->gpu->device, NULL, s->block[block], from, bytes);
}

/* The range of bytes as it stands, whatever lies between the rows. */
static void send_tensor(subject *s, int block, const ckv_tensor *from)
{
    ckv_tensor *there = &s->tensor[block];
    uintptr_t first = 0, last = 0;
    if (from == NULL)
        return;
    *there = *from;
    ckv_tensor_range(from, &first, &last);
    take(s, block, last - first);
    send(s, block, (const void *)first, last - first);
    there->buffer = s->block[block].base;
    there->data = (void *)(intptr_t)(s->block[block].offset + (int64_t)((uintptr_t)from->data - first));
}

static void *place(const subject *s, int block)
{
    return (void *)(intptr_t)s->block[block].offset;
}

static void take_scores(subject *s, int block)
{
    ckv_tensor *there = &s->tensor[block];
    take(s, block, (size_t)s->plan->kv_heads * (size_t)s->plan->tokens * sizeof(float));
    ckv_tensor_init_2d(there, CKV_F32, place(s, block), s->plan->kv_heads, s->plan->tokens);
    there->buffer = s->block[block].base;
}

static void take_rows(subject *s, int block, const ckv_tensor *like)
{
    ckv_tensor *there = &s->tensor[block];
    take(s, block, (size_t)(s->plan->kv_heads * s->plan->budget * like->shape[2]) * ckv_dtype_size(like->dtype));
    ckv_tensor_init_3d(there, like->dtype, place(s, block), s->plan->kv_heads, s->plan->budget, like->shape[2]);
    there->buffer = s->block[block].base;
}

/* A selection is one buffer: offsets, then positions. */
static void take_kept(subject *s, const ckv_selection *from)
{
    size_t offsets = ((size_t)s->plan->kv_heads + 1) * sizeof(int32_t);
    size_t positions = (size_t)(s->plan->kv_heads * s->plan->budget) * sizeof(int32_t);
    ckv_gpu_memory all;
    take(s, POSITIONS, offsets + positions);
    all = s->block[POSITIONS];
    s->kept = (ckv_kept){.positions = (void *)(intptr_t)(all.offset + (int64_t)offsets),
                         .offsets = (void *)(intptr_t)all.offset,
                         .buffer = all.base};
    if (from == NULL)
        return;
    send(s, POSITIONS, from->offsets, offsets);
    s->block[POSITIONS].offset += (int64_t)offsets;
    send(s, POSITIONS, from->positions, positions);
    s->block[POSITIONS] = all;
}

static void prepare(subject *s, ckv_stage stage, const ckv_inputs *in)
{
    take(s, WORKSPACE, s->plan->workspace);
    if (stage == CKV_SCORE || stage == CKV_EVICT)
        send_tensor(s, QUERY, in->query);
    if (stage == CKV_SCORE || stage == CKV_EVICT || stage == CKV_COMPACT)
        send_tensor(s, KEY, in->key);
    if (stage == CKV_NORM || stage == CKV_EVICT || stage == CKV_COMPACT)
        send_tensor(s, VALUE, in->value);
    if (stage == CKV_SELECT) {
        send_tensor(s, ATTENTION, in->attention);
        send_tensor(s, NORM, in->norm);
    } else if (stage != CKV_COMPACT && stage != CKV_EVICT) {
        take_scores(s, ATTENTION);
    }
    if (stage == CKV_SELECT || stage == CKV_EVICT || stage == CKV_COMPACT)
        take_kept(s, stage == CKV_COMPACT ? in->selection : NULL);
    if (stage == CKV_COMPACT) {
        take_rows(s, KEPT_KEY, in->key);
        take_rows(s, KEPT_VALUE, in->value);
    }
    if (s->code != CKV_GPU_OK)
        return;
    s->doing = "waiting for the device"; /* for the copies, which read the caller's memory */
    s->code = s->gpu->driver->wait(s->gpu->device, NULL);
}

static ckv_status run_once(subject *s, ckv_stage stage)
{
    ckv_launch launch = {
        .memory = CKV_MEMORY_DEVICE, .workspace = place(s, WORKSPACE), .buffer = s->block[WORKSPACE].base};
    ckv_tensor *t = s->tensor;
    ckv_status status;
    switch (stage) {
    case CKV_SCORE:
        return ckv_gpu_stages.score(s->plan, &t[QUERY], &t[KEY], &t[ATTENTION], &launch);
    case CKV_NORM:
        return ckv_gpu_stages.norm(s->plan, &t[VALUE], s->projection, &t[ATTENTION], &launch);
    case CKV_SELECT:
        return ckv_gpu_stages.select(s->plan, &t[ATTENTION], &t[NORM], &s->kept, &launch);
    case CKV_COMPACT:
        status = ckv_gpu_stages.compact(s->plan, &t[KEY], &s->kept, &t[KEPT_KEY], &launch);
        return status != CKV_OK ? status
                                : ckv_gpu_stages.compact(s->plan, &t[VALUE], &s->kept, &t[KEPT_VALUE], &launch);
    default:
        return ckv_gpu_stages.evict(s->plan, &t[QUERY], &t[KEY], &t[VALUE], s->projection, &s->kept, &launch);
    }
}

static void create_events(subject *s)
{
    const ckv_gpu_driver *driver = s->gpu->driver;
    while (s->code == CKV_GPU_OK && s->events < 2 * BATCH) {
        ckv_gpu_event *event = s->events < BATCH ? &s->start[s->events] : &s->end[s->events - BATCH];
        s->doing = "making events";
        s->code = driver->create_event(s->gpu->device, event);
        s->events += s->code == CKV_GPU_OK;
    }
}

/* Runs `count` times.  A stage's own failure has its detail set already. */
static ckv_status time_batch(subject *s, ckv_stage stage, int count, double *seconds)
{
    const ckv_gpu_driver *driver = s->gpu->driver;
    ckv_status status = CKV_OK;
    float milliseconds = 0;
    s->doing = "timing";
    for (int i = 0; i < count && s->code == CKV_GPU_OK && status == CKV_OK; i++) {
        s->code = driver->record(s->gpu->device, NULL, s->start[i]);
        if (s->code == CKV_GPU_OK)
            status = run_once(s, stage);
        if (s->code == CKV_GPU_OK && status == CKV_OK)
            s->code = driver->record(s->gpu->device, NULL, s->end[i]);
    }
    for (int i = 0; i < count && s->code == CKV_GPU_OK && status == CKV_OK; i++) {
        s->code = driver->elapsed(s->gpu->device, s->start[i], s->end[i], &milliseconds);
        seconds[i] = (double)milliseconds * 1e-3;
    }
    return status;
}

static void release(subject *s)
{
    const ckv_gpu_driver *driver = s->gpu->driver;
    (void)driver->wait(s->gpu->device, NULL); /* what a failure left under way */
    for (int i = 0; i < s->events; i++)
        driver->release_event(s->gpu->device, i < BATCH ? s->start[i] : s->end[i - BATCH]);
    for (int i = 0; i < BLOCKS; i++)
        if (s->taken[i])
            driver->release(s->gpu->device, s->block[i]);
}

ckv_status ckv_gpu_measure(const ckv_plan *plan, ckv_stage stage, const ckv_inputs *inputs, int32_t repeats,
                           double *seconds)
{
    subject s;
    ckv_status status = CKV_OK;
    void *saved;
    memset(&s, 0, sizeof s);
    s.gpu = ckv_gpu_of(plan->context);
    s.plan = plan;
    s.projection = inputs->projection;
    s.doing = "making the device current";
    s.code = s.gpu->driver->enter(s.gpu->device, &saved);
    if (s.code == CKV_GPU_OK) {
        prepare(&s, stage, inputs);
        create_events(&s);
        for (int32_t done = 0, count; done < repeats && s.code == CKV_GPU_OK && status == CKV_OK; done += count) {
            count = repeats - done < BATCH ? repeats - done : BATCH;
            status = time_batch(&s, stage, count, seconds + done);
        }
        release(&s);
        s.gpu->driver->leave(s.gpu->device, saved);
    }
    if (s.code == CKV_GPU_OK || status != CKV_OK)
        return status;
    return ckv_fail(CKV_ERROR_DEVICE, "%s '%s': %s failed: %s", s.gpu->driver->name, s.gpu->info.name, s.doing,
                    s.gpu->driver->error(s.code));
}
