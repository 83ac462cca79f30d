/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on host memory: what the call reads is copied to the device, what it writes is
 * copied back and only then put where the caller wants it, so that a failure on the way
 * leaves all of the caller's memory as it was.
 *
 * Copies and kernels go on two streams of a lane (lane.h).  Of an eviction Q and K are
 * sent first; the score runs while V is on its way, and what reads V is launched to wait
 * for it.  All device memory is allocated before the first launch, since allocating and
 * freeing stop what runs.
 */
#include <string.h>

#include "gpu.h"
#include "lane.h"
#include "lib/status.h"

#define BLOCKS 10

typedef struct staging {
    ckv_gpu_call call;
    ckv_gpu_lane *lane;
    ckv_gpu_memory block[BLOCKS]; /* on the device */
    void *host[BLOCKS];           /* results that are too large for the lane */
    int blocks, hosts;
    ckv_status status; /* NO_MEMORY on the host; the device's failures stand in the call */
} staging;

static int is_good(const staging *s)
{
    return s->status == CKV_OK && s->call.code == CKV_GPU_OK;
}

/* Where a result of the device goes. */
static void *take_host(staging *s, size_t size)
{
    void *memory = is_good(s) ? ckv_gpu_land(s->lane, size) : NULL;
    if (memory != NULL || !is_good(s))
        return memory;
    memory = ckv_context_allocate(s->call.plan->context, size, "results of the device");
    if (memory == NULL)
        s->status = CKV_ERROR_NO_MEMORY;
    else
        s->host[s->hosts++] = memory;
    return memory;
}

static ckv_gpu_memory take_device(staging *s, size_t size)
{
    ckv_gpu_memory memory = {NULL, 0};
    if (!is_good(s))
        return memory;
    s->call.doing = "allocating";
    s->call.code = s->call.gpu->driver->allocate(s->call.gpu->device, size == 0 ? 1 : size, &memory);
    if (s->call.code == CKV_GPU_OK)
        s->block[s->blocks++] = memory;
    return memory;
}

static void send(staging *s, ckv_gpu_memory to, const ckv_tensor *view, const void *from, size_t size)
{
    if (!is_good(s))
        return;
    s->call.doing = "copying to the device";
    s->call.code = ckv_gpu_send(s->call.gpu, s->call.plan->context, s->lane, to, view, from, size);
}

/* What was sent is there for the kernels that are launched from now on. */
static void arrive(staging *s)
{
    if (!is_good(s))
        return;
    s->call.doing = "ordering copies and kernels";
    s->call.code = ckv_gpu_arrive(s->call.gpu, s->lane);
}

static void download(staging *s, void *to, ckv_gpu_memory from, size_t size)
{
    if (!is_good(s) || size == 0)
        return;
    s->call.doing = "copying from the device";
    s->call.code = s->call.gpu->driver->download(s->call.gpu->device, s->lane->kernels, to, from, size);
}

/* A view of `memory`, of the shape of `like`, dense. */
static ckv_tensor dense_view(const ckv_tensor *like, ckv_gpu_memory memory)
{
    ckv_tensor view;
    if (like->rank == 2)
        ckv_tensor_init_2d(&view, like->dtype, (void *)(intptr_t)memory.offset, like->shape[0], like->shape[1]);
    else
        ckv_tensor_init_3d(&view, like->dtype, (void *)(intptr_t)memory.offset, like->shape[0], like->shape[1],
                           like->shape[2]);
    view.buffer = memory.base;
    return view;
}

static size_t dense_size(const ckv_tensor *view)
{
    size_t size = ckv_dtype_size(view->dtype);
    for (int32_t i = 0; i < view->rank; i++)
        size *= (size_t)view->shape[i];
    return size;
}

/* Dense rows on the host to where the caller wants them. */
static void deliver_rows(const ckv_tensor *view, const char *dense)
{
    size_t size = ckv_dtype_size(view->dtype);
    int64_t width = view->rank == 3 ? view->shape[2] : 1;
    int together = width <= 1 || view->stride[2] == (int64_t)size;
    for (int64_t h = 0; h < view->shape[0]; h++)
        for (int64_t i = 0; i < view->shape[1]; i++)
            for (int64_t c = 0; c < width; c += together ? width : 1) {
                size_t bytes = together ? size * (size_t)width : size;
                memcpy(ckv_at(view, h, i, c), dense, bytes);
                dense += bytes;
            }
}

/* An input, and its copy on the device: the range of bytes as it stands where most of it
 * is wanted, else the rows gathered. */
typedef struct input {
    ckv_tensor here, there;
    ckv_gpu_memory memory;
    const void *first; /* of the range; NULL: gathered */
    size_t size;
} input;

static input stage_in(staging *s, const ckv_tensor *view)
{
    uintptr_t first = 0, last = 0;
    input in = {.here = *view, .size = dense_size(view)};
    ckv_tensor_range(view, &first, &last);
    if (last - first <= 2 * in.size) {
        in.size = last - first;
        in.first = (const void *)first;
        in.memory = take_device(s, in.size);
        in.there = *view;
        in.there.buffer = in.memory.base;
        in.there.data = (void *)(intptr_t)(in.memory.offset + (int64_t)((uintptr_t)view->data - first));
    } else {
        in.memory = take_device(s, in.size);
        in.there = dense_view(view, in.memory);
    }
    return in;
}

static void send_input(staging *s, const input *in)
{
    send(s, in->memory, in->first == NULL ? &in->here : NULL, in->first, in->size);
}

/* Of Q only the window's rows travel. */
static input stage_query(staging *s, const ckv_tensor *query)
{
    ckv_tensor window = *query;
    window.data = ckv_at(query, 0, s->call.params.first_query, 0);
    window.shape[1] = s->call.params.window;
    s->call.params.first_query = 0;
    return stage_in(s, &window);
}

static void start(staging *s, const ckv_plan *plan)
{
    ckv_launch launch = {.memory = CKV_MEMORY_HOST};
    ckv_gpu_memory workspace;
    memset(s, 0, sizeof *s);
    ckv_gpu_begin(&s->call, plan, &launch);
    if (is_good(s)) {
        s->call.doing = "making streams for a call on host memory";
        s->call.code = ckv_gpu_take_lane(s->call.gpu, &s->lane);
        if (is_good(s))
            s->call.stream = s->lane->kernels;
    }
    workspace = take_device(s, plan->workspace);
    ckv_gpu_set_workspace(&s->call, workspace.base, (void *)(intptr_t)workspace.offset, NULL);
}

static void clear_flags(staging *s)
{
    if (!is_good(s))
        return;
    s->call.doing = "clearing the flags";
    s->call.code = s->call.gpu->driver->clear(s->call.gpu->device, s->lane->kernels,
                                              (ckv_gpu_memory){s->call.workspace, s->call.params.flags}, sizeof(u32));
}

/* Fetches the flags and waits for everything, results too. */
static void wait_for_results(staging *s, ckv_launch *launch)
{
    u32 *flags = take_host(s, sizeof *flags);
    download(s, flags, (ckv_gpu_memory){s->call.workspace, s->call.params.flags}, sizeof *flags);
    if (!is_good(s))
        return;
    s->call.doing = "waiting for the device";
    s->call.code = s->call.gpu->driver->wait(s->call.gpu->device, s->lane->kernels);
    if (is_good(s))
        launch->flags = *flags;
}

/* Gives everything back; the device has nothing left to do with it. */
static ckv_status finish(staging *s)
{
    const ckv_gpu *gpu = s->call.gpu;
    ckv_status status;
    if (!is_good(s) && s->lane != NULL) { /* what is under way; it failed already */
        (void)gpu->driver->wait(gpu->device, s->lane->copies);
        (void)gpu->driver->wait(gpu->device, s->lane->kernels);
    }
    for (int i = 0; i < s->blocks; i++)
        gpu->driver->release(gpu->device, s->block[i]);
    for (int i = 0; i < s->hosts; i++)
        ckv_context_release(s->call.plan->context, s->host[i]);
    if (s->lane != NULL)
        ckv_gpu_return_lane(gpu, s->lane, is_good(s));
    status = ckv_gpu_end(&s->call);
    return s->status != CKV_OK ? s->status : status;
}

/* A result [Hkv, n] F32. */
typedef struct result {
    ckv_tensor there;
    char *here;
} result;

static result stage_out(staging *s, const ckv_tensor *view)
{
    result r;
    r.there = dense_view(view, take_device(s, dense_size(view)));
    r.here = take_host(s, dense_size(view));
    return r;
}

static ckv_gpu_memory memory_of(const ckv_tensor *there)
{
    return (ckv_gpu_memory){there->buffer, (int64_t)(intptr_t)there->data};
}

/* A selection's arrays in one block: offsets, positions, stages. */
typedef struct kept_result {
    ckv_kept there;
    ckv_gpu_memory memory;
    char *here;
    size_t positions, stages, size;
} kept_result;

static kept_result stage_kept(staging *s, const ckv_plan *plan, const ckv_kept *kept)
{
    size_t entries = (size_t)(plan->budget * plan->kv_heads);
    kept_result r;
    r.positions = ((size_t)plan->kv_heads + 1) * sizeof(int32_t);
    r.stages = r.positions + entries * sizeof(int32_t);
    r.size = r.stages + entries;
    r.memory = take_device(s, r.size);
    r.here = take_host(s, r.size);
    r.there = (ckv_kept){(void *)(intptr_t)(r.memory.offset + (int64_t)r.positions), (void *)(intptr_t)r.memory.offset,
                         kept->stages == NULL ? NULL : (void *)(intptr_t)(r.memory.offset + (int64_t)r.stages),
                         r.memory.base};
    return r;
}

static void deliver_kept(const kept_result *r, const ckv_kept *kept)
{
    size_t entries = r->size - r->stages;
    memcpy(kept->offsets, r->here, r->positions);
    if (entries > 0)
        memcpy(kept->positions, r->here + r->positions, entries * sizeof(int32_t));
    if (kept->stages != NULL)
        memcpy(kept->stages, r->here + r->stages, entries);
}

/* ------------------------------------------------------------------ the calls */

/* A call on device memory: the workspace, and `count` tensors, are the device's. */
static void begin(ckv_gpu_call *call, const ckv_plan *plan, const ckv_launch *launch, int count,
                  const char *const *names, const ckv_tensor *const *tensors)
{
    ckv_gpu_begin(call, plan, launch);
    ckv_gpu_check_memory(call, "run: workspace", call->workspace);
    for (int i = 0; i < count; i++)
        ckv_gpu_check_memory(call, names[i], ckv_gpu_base(tensors[i]));
}

static void check_kept(ckv_gpu_call *call, const ckv_kept *kept)
{
    if (kept->buffer != NULL) {
        ckv_gpu_check_memory(call, "selection", kept->buffer);
        return;
    }
    ckv_gpu_check_memory(call, "selection: positions", kept->positions);
    ckv_gpu_check_memory(call, "selection: offsets", kept->offsets);
    ckv_gpu_check_memory(call, "selection: stages", kept->stages);
}

static ckv_status score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                        const ckv_tensor *attention, ckv_launch *launch)
{
    staging s;
    if (launch->memory == CKV_MEMORY_DEVICE) {
        static const char *const names[] = {"query", "key", "attention"};
        const ckv_tensor *const tensors[] = {query, key, attention};
        begin(&s.call, plan, launch, 3, names, tensors);
        ckv_gpu_score(&s.call, query, key, attention);
        return ckv_gpu_end(&s.call);
    }
    start(&s, plan);
    const input q = stage_query(&s, query), k = stage_in(&s, key);
    const result a = stage_out(&s, attention);
    clear_flags(&s);
    send_input(&s, &q);
    send_input(&s, &k);
    arrive(&s);
    if (is_good(&s))
        ckv_gpu_score(&s.call, &q.there, &k.there, &a.there);
    download(&s, a.here, memory_of(&a.there), dense_size(attention));
    wait_for_results(&s, launch);
    if (is_good(&s))
        deliver_rows(attention, a.here);
    return finish(&s);
}

static ckv_status norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                       const ckv_tensor *out, ckv_launch *launch)
{
    staging s;
    if (launch->memory == CKV_MEMORY_DEVICE) {
        static const char *const names[] = {"value", "norm"};
        const ckv_tensor *const tensors[] = {value, out};
        begin(&s.call, plan, launch, 2, names, tensors);
        ckv_gpu_norm(&s.call, value, projection, out, 0);
        return ckv_gpu_end(&s.call);
    }
    start(&s, plan);
    const input v = stage_in(&s, value);
    const result n = stage_out(&s, out);
    clear_flags(&s);
    send_input(&s, &v);
    arrive(&s);
    if (is_good(&s))
        ckv_gpu_norm(&s.call, &v.there, projection, &n.there, 0);
    launch->exact_norms = plan->kv_heads * plan->tokens;
    download(&s, n.here, memory_of(&n.there), dense_size(out));
    wait_for_results(&s, launch);
    if (is_good(&s))
        deliver_rows(out, n.here);
    return finish(&s);
}

static ckv_status select_kept(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norms,
                              const ckv_kept *kept, ckv_launch *launch)
{
    staging s;
    if (launch->memory == CKV_MEMORY_DEVICE) {
        static const char *const names[] = {"attention", "norm"};
        const ckv_tensor *const tensors[] = {attention, norms};
        begin(&s.call, plan, launch, 2, names, tensors);
        check_kept(&s.call, kept);
        if (ckv_plan_is_trivial(plan))
            ckv_gpu_keep_all(&s.call, kept);
        else
            ckv_gpu_select(&s.call, attention, norms, kept);
        return ckv_gpu_end(&s.call);
    }
    start(&s, plan);
    const input a = stage_in(&s, attention), n = stage_in(&s, norms);
    const kept_result r = stage_kept(&s, plan, kept);
    clear_flags(&s);
    send_input(&s, &a);
    send_input(&s, &n);
    arrive(&s);
    if (is_good(&s))
        ckv_gpu_select(&s.call, &a.there, &n.there, &r.there);
    download(&s, r.here, r.memory, r.size);
    wait_for_results(&s, launch);
    if (is_good(&s))
        deliver_kept(&r, kept);
    return finish(&s);
}

/* Where the counts of the last list go, for after the wait; NULL where every norm is computed. */
static int32_t *fetch_counts(staging *s, const ckv_plan *plan)
{
    size_t size = (size_t)plan->kv_heads * sizeof(int32_t);
    int32_t *counts = ckv_gpu_skips(plan) ? take_host(s, size) : NULL;
    if (counts != NULL)
        download(s, counts, (ckv_gpu_memory){s->call.workspace, s->call.params.at_count}, size);
    return counts;
}

static int64_t norms_of(const ckv_plan *plan, const int32_t *counts)
{
    int64_t total = 0;
    if (counts == NULL)
        return plan->kv_heads * plan->tokens;
    for (int64_t g = 0; g < plan->kv_heads; g++)
        total += ckv_plan_stage2_slots(plan) + counts[g];
    return total;
}

static ckv_status evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                        const ckv_projection *projection, const ckv_kept *kept, ckv_launch *launch)
{
    staging s;
    if (launch->memory == CKV_MEMORY_DEVICE) {
        static const char *const names[] = {"query", "key", "value"};
        const ckv_tensor *const tensors[] = {query, key, value};
        begin(&s.call, plan, launch, 3, names, tensors);
        check_kept(&s.call, kept);
        if (ckv_plan_is_trivial(plan)) {
            ckv_gpu_keep_all(&s.call, kept);
        } else {
            ckv_gpu_evict_score(&s.call, query, key);
            ckv_gpu_evict_rest(&s.call, value, projection, kept);
        }
        return ckv_gpu_end(&s.call);
    }
    start(&s, plan);
    const input q = stage_query(&s, query), k = stage_in(&s, key), v = stage_in(&s, value);
    const kept_result r = stage_kept(&s, plan, kept);
    clear_flags(&s);
    send_input(&s, &q);
    send_input(&s, &k);
    arrive(&s);
    if (is_good(&s))
        ckv_gpu_evict_score(&s.call, &q.there, &k.there);
    send_input(&s, &v);
    arrive(&s);
    if (is_good(&s))
        ckv_gpu_evict_rest(&s.call, &v.there, projection, &r.there);
    download(&s, r.here, r.memory, r.size);
    int32_t *counts = fetch_counts(&s, plan);
    wait_for_results(&s, launch);
    if (is_good(&s)) {
        deliver_kept(&r, kept);
        launch->exact_norms = norms_of(plan, counts);
    }
    return finish(&s);
}

static ckv_status compact(const ckv_plan *plan, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to,
                          ckv_launch *launch)
{
    staging s;
    if (launch->memory == CKV_MEMORY_DEVICE) {
        static const char *const names[] = {"from", "to"};
        const ckv_tensor *const tensors[] = {from, to};
        begin(&s.call, plan, launch, 2, names, tensors);
        check_kept(&s.call, kept);
        ckv_gpu_compact(&s.call, from, kept, to);
        return ckv_gpu_end(&s.call);
    }
    start(&s, plan);
    const input source = stage_in(&s, from);
    ckv_tensor rows = *to;
    size_t entries = (size_t)(plan->budget * plan->kv_heads) * sizeof(int32_t);
    ckv_gpu_memory positions = take_device(&s, entries);
    ckv_kept there = {.positions = (void *)(intptr_t)positions.offset, .buffer = positions.base};
    rows.shape[1] = plan->budget;
    const result r = stage_out(&s, &rows);
    clear_flags(&s);
    send(&s, positions, NULL, kept->positions, entries);
    send_input(&s, &source);
    arrive(&s);
    if (is_good(&s))
        ckv_gpu_compact(&s.call, &source.there, &there, &r.there);
    download(&s, r.here, memory_of(&r.there), dense_size(&rows));
    wait_for_results(&s, launch);
    if (is_good(&s))
        deliver_rows(&rows, r.here);
    return finish(&s);
}

const ckv_device_stages ckv_gpu_stages = {
    .score = score,
    .norm = norm,
    .select = select_kept,
    .compact = compact,
    .evict = evict,
    .open_projection = ckv_gpu_open_projection,
    .close_projection = ckv_gpu_close_projection,
    .measure = ckv_gpu_measure,
};
