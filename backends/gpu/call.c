/* SPDX-License-Identifier: Apache-2.0 */
/* A call: views, launches, the first failure. */
#include <string.h>

#include "gpu.h"
#include "lib/status.h"

#define GRID_Y_MAX 65535 /* CUDA's and HIP's limit of the second dimension */

void ckv_gpu_set_workspace(ckv_gpu_call *call, void *buffer, void *workspace, void *device_flags)
{
    ckv_params *p = &call->params;
    int64_t *const places[] = {&p->flags,    &p->at_query,     &p->at_partial, &p->at_greatest, &p->at_factor,
                               &p->at_heads, &p->at_attention, &p->at_norm,    &p->at_bound,    &p->at_taken,
                               &p->at_list,  &p->at_count,     &p->at_matrix,  &p->at_totals};
    int64_t first = 0;
    call->workspace = ckv_gpu_pointer(buffer, workspace, &first);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        *places[i] += first;
    if (device_flags != NULL) /* in the same buffer or, as an address, relative to the workspace's */
        p->flags = (int64_t)((intptr_t)device_flags - (buffer == NULL ? (intptr_t)workspace : 0));
}

void ckv_gpu_begin(ckv_gpu_call *call, const ckv_plan *plan, const ckv_launch *launch)
{
    memset(call, 0, sizeof *call);
    call->gpu = ckv_gpu_of(plan->context);
    call->plan = plan;
    call->stream = launch->stream;
    ckv_gpu_lay_out(plan, &call->params);
    ckv_gpu_set_workspace(call, launch->buffer, launch->workspace, launch->device_flags);
    call->doing = "making the device current";
    call->code = call->gpu->driver->enter(call->gpu->device, &call->saved);
    call->entered = call->code == CKV_GPU_OK;
    if (call->entered && call->gpu->driver->takes != NULL &&
        !call->gpu->driver->takes(call->gpu->device, launch->stream)) {
        call->foreign_stream = 1;
        call->code = CKV_GPU_FAILED;
    }
}

void ckv_gpu_check_memory(ckv_gpu_call *call, const char *name, const void *base)
{
    if (call->code != CKV_GPU_OK || base == NULL || call->gpu->driver->owns(call->gpu->device, base))
        return;
    call->foreign = name;
    call->code = CKV_GPU_FAILED;
}

ckv_status ckv_gpu_end(ckv_gpu_call *call)
{
    const ckv_gpu_driver *driver = call->gpu->driver;
    if (call->entered)
        driver->leave(call->gpu->device, call->saved);
    if (call->foreign_stream)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "run: stream: not a queue of %s '%s' in the context's cl_context",
                        driver->name, call->gpu->info.name);
    if (call->foreign != NULL)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: not memory of %s '%s', wanted the context's device",
                        call->foreign, driver->name, call->gpu->info.name);
    if (call->code == CKV_GPU_OK)
        return CKV_OK;
    return ckv_fail(CKV_ERROR_DEVICE, "%s '%s': %s failed: %s", driver->name, call->gpu->info.name, call->doing,
                    driver->error(call->code));
}

void *ckv_gpu_pointer(void *buffer, void *pointer, int64_t *offset)
{
    *offset = buffer == NULL ? 0 : (int64_t)(intptr_t)pointer;
    return buffer == NULL ? pointer : buffer;
}

void *ckv_gpu_base(const ckv_tensor *view)
{
    return view->buffer == NULL ? view->data : view->buffer;
}

ckv_view ckv_gpu_view(const ckv_tensor *view)
{
    ckv_view v = {.head = view->stride[0], .token = view->stride[1], .element = view->stride[2]};
    uint64_t all = (uint64_t)(intptr_t)view->data | (uint64_t)v.head | (uint64_t)v.token | (uint64_t)v.element;
    v.offset = view->buffer == NULL ? 0 : (int64_t)(intptr_t)view->data;
    v.dtype = (i32)view->dtype;
    v.aligned = all % ckv_dtype_size(view->dtype) == 0;
    return v;
}

const ckv_gpu_kernel_info ckv_gpu_kernel_list[CKV_GPU_KERNELS] = {
#define CKV_KERNEL(name, buffers, group, route, local)                                                                 \
    [CKV_GPU_##name] = {#name, buffers, group, local, CKV_GPU_##route},
#include "kernels.def"
#undef CKV_KERNEL
};

void ckv_gpu_run(ckv_gpu_call *call, int kernel, int64_t groups_x, int64_t groups_y, void *const *buffers)
{
    ckv_gpu_argument arguments[8];
    const ckv_gpu_kernel_info *info = &ckv_gpu_kernel_list[kernel];
    int count = info->buffers;
    for (int i = 0; i < count; i++)
        arguments[i] = (ckv_gpu_argument){buffers[i], 0};
    arguments[count] = (ckv_gpu_argument){&call->params, sizeof call->params};
    for (int64_t first = 0; first < groups_y && groups_x > 0 && call->code == CKV_GPU_OK; first += GRID_Y_MAX) {
        int64_t rest = groups_y - first;
        ckv_gpu_launch launch = {.kernel = call->gpu->kernels[kernel],
                                 .groups = {(uint32_t)groups_x, (uint32_t)(rest < GRID_Y_MAX ? rest : GRID_Y_MAX), 1},
                                 .group_size = {info->group, 1, 1},
                                 .arguments = arguments,
                                 .count = count + 1};
        call->params.first_group = (i32)first;
        call->doing = info->name;
        call->code = call->gpu->driver->launch(call->gpu->device, call->stream, &launch);
    }
}
