/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on host memory: what the call reads is copied to the device, what it writes is
 * copied back and only then put where the caller wants it, so that a failure on the way
 * leaves all of the caller's memory as it was.
 */
#include <string.h>

#include "gpu.h"
#include "lib/status.h"

#define BLOCKS 10

typedef struct staging {
    ckv_gpu_call call;
    ckv_gpu_memory block[BLOCKS]; /* on the device */
    void *host[BLOCKS];           /* gathered rows, results */
    int blocks, hosts;
    ckv_status status; /* NO_MEMORY on the host; the device's failures stand in the call */
} staging;

static int is_good(const staging *s)
{
    return s->status == CKV_OK && s->call.code == CKV_GPU_OK;
}

static void *take_host(staging *s, size_t size, const char *what)
{
    void *memory = is_good(s) ? ckv_context_allocate(s->call.plan->context, size == 0 ? 1 : size, what) : NULL;
    if (memory == NULL)
        s->status = is_good(s) ? CKV_ERROR_NO_MEMORY : s->status;
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

static void upload(staging *s, ckv_gpu_memory to, const void *from, size_t size)
{
    if (!is_good(s) || size == 0)
        return;
    s->call.doing = "copying to the device";
    s->call.code = s->call.gpu->driver->upload(s->call.gpu->device, NULL, to, from, size);
}

static void download(staging *s, void *to, ckv_gpu_memory from, size_t size)
{
    if (!is_good(s) || size == 0)
        return;
    s->call.doing = "copying from the device";
    s->call.code = s->call.gpu->driver->download(s->call.gpu->device, NULL, to, from, size);
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

/* Copies between a view and dense rows on the host, either way. */
static void copy_rows(const ckv_tensor *view, char *dense, int to_view)
{
    size_t size = ckv_dtype_size(view->dtype);
    int64_t width = view->rank == 3 ? view->shape[2] : 1;
    int together = width <= 1 || view->stride[2] == (int64_t)size;
    for (int64_t h = 0; h < view->shape[0]; h++)
        for (int64_t i = 0; i < view->shape[1]; i++)
            for (int64_t c = 0; c < width; c += together ? width : 1) {
                size_t bytes = together ? size * (size_t)width : size;
                void *at = ckv_at(view, h, i, c);
                memcpy(to_view ? at : dense, to_view ? dense : at, bytes);
                dense += bytes;
            }
}

/* The device's copy of an input: the range of bytes as it stands where most of it is
 * wanted, else the rows gathered. */
static ckv_tensor stage_in(staging *s, const ckv_tensor *view)
{
    uintptr_t first = 0, last = 0;
    size_t wanted = dense_size(view);
    ckv_gpu_memory memory;
    ckv_tensor there = *view;
    ckv_tensor_range(view, &first, &last);
    if (last - first <= 2 * wanted) {
        memory = take_device(s, last - first);
        upload(s, memory, (const void *)first, last - first);
        there.buffer = memory.base;
        there.data = (void *)(intptr_t)(memory.offset + (int64_t)((uintptr_t)view->data - first));
        return there;
    }
    char *rows = take_host(s, wanted, "rows for the device");
    memory = take_device(s, wanted);
    if (is_good(s))
        copy_rows(view, rows, 0);
    upload(s, memory, rows, wanted);
    return dense_view(view, memory);
}

static void start(staging *s, const ckv_plan *plan)
{
    ckv_launch launch = {.memory = CKV_MEMORY_HOST};
    ckv_gpu_memory workspace;
    memset(s, 0, sizeof *s);
    ckv_gpu_begin(&s->call, plan, &launch);
    workspace = take_device(s, plan->workspace);
    ckv_gpu_set_workspace(&s->call, workspace.base, (void *)(intptr_t)workspace.offset, NULL);
    if (!is_good(s))
        return;
    s->call.doing = "clearing the flags";
    s->call.code = s->call.gpu->driver->clear(s->call.gpu->device, NULL,
                                              (ckv_gpu_memory){s->call.workspace, s->call.params.flags}, sizeof(u32));
}

/* Fetches the flags and waits for everything, results too. */
static void wait_for_results(staging *s, ckv_launch *launch)
{
    download(s, &launch->flags, (ckv_gpu_memory){s->call.workspace, s->call.params.flags}, sizeof launch->flags);
    if (!is_good(s))
        return;
    s->call.doing = "waiting for the device";
    s->call.code = s->call.gpu->driver->wait(s->call.gpu->device, NULL);
}

/* Gives everything back; the device has nothing left to do with it. */
static ckv_status finish(staging *s)
{
    const ckv_gpu *gpu = s->call.gpu;
    ckv_status status;
    if (!is_good(s) && s->call.entered)
        (void)gpu->driver->wait(gpu->device, NULL); /* copies under way; it failed already */
    for (int i = 0; i < s->blocks; i++)
        gpu->driver->release(gpu->device, s->block[i]);
    for (int i = 0; i < s->hosts; i++)
        ckv_context_release(s->call.plan->context, s->host[i]);
    status = ckv_gpu_end(&s->call);
    return s->status != CKV_OK ? s->status : status;
}

/* Of Q only the window's rows travel. */
static ckv_tensor stage_query(staging *s, const ckv_tensor *query)
{
    ckv_tensor window = *query;
    window.data = ckv_at(query, 0, s->call.params.first_query, 0);
    window.shape[1] = s->call.params.window;
    s->call.params.first_query = 0;
    return stage_in(s, &window);
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
    r.here = take_host(s, dense_size(view), "results of the device");
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
    r.here = take_host(s, r.size, "results of the device");
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
    ckv_tensor q = stage_query(&s, query), k = stage_in(&s, key);
    result a = stage_out(&s, attention);
    if (is_good(&s))
        ckv_gpu_score(&s.call, &q, &k, &a.there);
    download(&s, a.here, memory_of(&a.there), dense_size(attention));
    wait_for_results(&s, launch);
    if (is_good(&s))
        copy_rows(attention, a.here, 1);
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
    ckv_tensor v = stage_in(&s, value);
    result n = stage_out(&s, out);
    if (is_good(&s))
        ckv_gpu_norm(&s.call, &v, projection, &n.there, 0);
    launch->exact_norms = plan->kv_heads * plan->tokens;
    download(&s, n.here, memory_of(&n.there), dense_size(out));
    wait_for_results(&s, launch);
    if (is_good(&s))
        copy_rows(out, n.here, 1);
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
    ckv_tensor a = stage_in(&s, attention), n = stage_in(&s, norms);
    kept_result r = stage_kept(&s, plan, kept);
    if (is_good(&s))
        ckv_gpu_select(&s.call, &a, &n, &r.there);
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
    int32_t *counts = ckv_gpu_skips(plan) ? take_host(s, size, "results of the device") : NULL;
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
        if (ckv_plan_is_trivial(plan))
            ckv_gpu_keep_all(&s.call, kept);
        else
            ckv_gpu_evict(&s.call, query, key, value, projection, kept);
        return ckv_gpu_end(&s.call);
    }
    start(&s, plan);
    ckv_tensor q = stage_query(&s, query), k = stage_in(&s, key), v = stage_in(&s, value);
    kept_result r = stage_kept(&s, plan, kept);
    if (is_good(&s))
        ckv_gpu_evict(&s.call, &q, &k, &v, projection, &r.there);
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
    ckv_tensor rows = *to, source = stage_in(&s, from);
    size_t entries = (size_t)(plan->budget * plan->kv_heads) * sizeof(int32_t);
    ckv_gpu_memory positions = take_device(&s, entries);
    ckv_kept there = {.positions = (void *)(intptr_t)positions.offset, .buffer = positions.base};
    rows.shape[1] = plan->budget;
    upload(&s, positions, kept->positions, entries);
    result r = stage_out(&s, &rows);
    if (is_good(&s))
        ckv_gpu_compact(&s.call, &source, &there, &r.there);
    download(&s, r.here, memory_of(&r.there), dense_size(&rows));
    wait_for_results(&s, launch);
    if (is_good(&s))
        copy_rows(&rows, r.here, 1);
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
