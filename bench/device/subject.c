/* SPDX-License-Identifier: Apache-2.0 */
/* A layer in device memory: an address for CUDA and HIP, a cl_mem and offsets for OpenCL. */
#include <string.h>

#include "device.h"

int failed(const struct subject *subject, const char *doing, int code)
{
    fprintf(stderr, "ckv-device-bench: %s failed: %s\n", doing, subject->gpu->driver->error(code));
    return 0;
}

/* How a pointer into a place is written. */
static void *pointer(const struct subject *subject, enum place place, size_t offset)
{
    const ckv_gpu_memory *memory = &subject->memory[place];
    int64_t at = memory->offset + (int64_t)offset;
    if (subject->gpu->driver->target == CKV_GPU_OPENCL)
        return (void *)(intptr_t)at;
    return (void *)((intptr_t)memory->base + (intptr_t)at);
}

static void *buffer(const struct subject *subject, enum place place)
{
    return subject->gpu->driver->target == CKV_GPU_OPENCL ? subject->memory[place].base : NULL;
}

static int allocate(struct subject *subject, enum place place, size_t bytes)
{
    int code = subject->gpu->driver->allocate(subject->gpu->device, bytes == 0 ? 1 : bytes, &subject->memory[place]);
    return code == CKV_GPU_OK ? 1 : failed(subject, "allocating on the device", code);
}

static int upload(struct subject *subject, enum place place, const ckv_tensor *from)
{
    const ckv_gpu *gpu = subject->gpu;
    int code = gpu->driver->upload(gpu->device, NULL, subject->memory[place], from->data, tensor_bytes(from));
    if (code == CKV_GPU_OK)
        code = gpu->driver->wait(gpu->device, NULL);
    return code == CKV_GPU_OK ? 1 : failed(subject, "copying to the device", code);
}

int subject_fill(struct subject *subject)
{
    return upload(subject, KEY, &subject->layer->key) && upload(subject, VALUE, &subject->layer->value);
}

static void view_all(struct subject *subject)
{
    const struct layer *l = subject->layer;
    ckv_dtype dtype = l->key.dtype;
    int64_t budget = subject->info.budget;
    ckv_tensor_init_3d(&subject->tensor[QUERY], dtype, NULL, l->query_heads, l->queries, l->head_dim);
    ckv_tensor_init_3d(&subject->tensor[KEY], dtype, NULL, l->kv_heads, l->tokens, l->head_dim);
    ckv_tensor_init_3d(&subject->tensor[VALUE], dtype, NULL, l->kv_heads, l->tokens, l->value_dim);
    ckv_tensor_init_2d(&subject->tensor[ATTENTION], CKV_F32, NULL, l->kv_heads, l->tokens);
    ckv_tensor_init_2d(&subject->tensor[NORMS], CKV_F32, NULL, l->kv_heads, l->tokens);
    ckv_tensor_init_3d(&subject->tensor[KEPT_KEY], dtype, NULL, l->kv_heads, budget, l->head_dim);
    ckv_tensor_init_3d(&subject->tensor[KEPT_VALUE], dtype, NULL, l->kv_heads, budget, l->value_dim);
}

int subject_open(struct subject *subject, const struct layer *layer, const ckv_plan *plan,
                 const ckv_projection *projection)
{
    memset(subject, 0, sizeof *subject);
    subject->layer = layer;
    subject->gpu = ckv_gpu_of(plan->context);
    subject->plan = plan;
    subject->projection = projection;
    subject->info.struct_size = sizeof subject->info;
    if (ckv_plan_query(plan, &subject->info) != CKV_OK)
        return 0;
    view_all(subject);
    subject->positions = ((size_t)layer->kv_heads + 1) * sizeof(int32_t);
    subject->stages = subject->positions + (size_t)subject->info.positions * sizeof(int32_t);
    subject->selection_bytes = subject->stages + (size_t)subject->info.positions;
    subject->flags = (subject->info.workspace + 3) / 4 * 4;
    for (int i = QUERY; i < SELECTION; i++)
        if (!allocate(subject, (enum place)i, tensor_bytes(&subject->tensor[i])))
            return 0;
    if (!allocate(subject, SELECTION, subject->selection_bytes) ||
        !allocate(subject, WORKSPACE, subject->flags + sizeof(uint32_t)))
        return 0;
    for (int i = QUERY; i < SELECTION; i++) {
        subject->tensor[i].data = pointer(subject, (enum place)i, 0);
        subject->tensor[i].buffer = buffer(subject, (enum place)i);
    }
    ckv_selection_init(&subject->selection, pointer(subject, SELECTION, subject->positions), subject->info.positions,
                       pointer(subject, SELECTION, 0));
    subject->selection.stages = pointer(subject, SELECTION, subject->stages);
    subject->selection.buffer = buffer(subject, SELECTION);
    ckv_run_init(&subject->run, pointer(subject, WORKSPACE, 0), subject->info.workspace);
    subject->run.buffer = buffer(subject, WORKSPACE);
    subject->run.memory = CKV_MEMORY_DEVICE;
    subject->run.device_flags = pointer(subject, WORKSPACE, subject->flags);
    return upload(subject, QUERY, &layer->query) && subject_fill(subject);
}

void subject_close(struct subject *subject)
{
    for (int i = 0; i < PLACES; i++)
        if (subject->memory[i].base != NULL)
            subject->gpu->driver->release(subject->gpu->device, subject->memory[i]);
    memset(subject, 0, sizeof *subject);
}

int subject_call(struct subject *subject, enum stage stage)
{
    const ckv_plan *plan = subject->plan;
    const ckv_tensor *t = subject->tensor;
    ckv_run *run = &subject->run;
    ckv_status status;
    switch (stage) {
    case SCORE:
        status = ckv_score(plan, &t[QUERY], &t[KEY], &t[ATTENTION], run);
        break;
    case NORM:
        status = ckv_norm(plan, &t[VALUE], subject->projection, &t[NORMS], run);
        break;
    case SELECT:
        status = ckv_select(plan, &t[ATTENTION], &t[NORMS], &subject->selection, run);
        break;
    case COMPACT:
    case IN_PLACE:
        status = ckv_compact(plan, &t[KEY], &subject->selection, &t[stage == COMPACT ? KEPT_KEY : KEY], run);
        if (status == CKV_OK)
            status = ckv_compact(plan, &t[VALUE], &subject->selection, &t[stage == COMPACT ? KEPT_VALUE : VALUE], run);
        break;
    default:
        status = ckv_evict(plan, &t[QUERY], &t[KEY], &t[VALUE], subject->projection, &subject->selection, run);
        break;
    }
    if (status != CKV_OK)
        fprintf(stderr, "ckv-device-bench: %s: %s: %s\n", stage_names[stage], ckv_status_string(status),
                ckv_error_detail());
    return status == CKV_OK;
}
