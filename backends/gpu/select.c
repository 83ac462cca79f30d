/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the selection (kernels/select.h). */
#include "gpu.h"

static void set_outputs(ckv_gpu_call *call, const ckv_kept *kept, void *buffers[3])
{
    ckv_params *p = &call->params;
    buffers[0] = ckv_gpu_pointer(kept->buffer, kept->positions, &p->positions);
    buffers[1] = ckv_gpu_pointer(kept->buffer, kept->offsets, &p->offsets);
    buffers[2] = ckv_gpu_pointer(kept->buffer, kept->stages, &p->stages);
    p->want_stages = kept->stages != NULL;
}

void ckv_gpu_select(ckv_gpu_call *call, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept)
{
    void *buffers[6] = {ckv_gpu_base(attention), ckv_gpu_base(norm), NULL, NULL, NULL, call->workspace};
    set_outputs(call, kept, buffers + 2);
    call->params.attention = ckv_gpu_view(attention);
    call->params.norm = ckv_gpu_view(norm);
    ckv_gpu_run(call, CKV_GPU_ckv_select, call->plan->kv_heads, 1, buffers);
}

void ckv_gpu_keep_all(ckv_gpu_call *call, const ckv_kept *kept)
{
    void *buffers[3];
    set_outputs(call, kept, buffers);
    ckv_gpu_run(call, CKV_GPU_ckv_keep_all, call->plan->kv_heads, 1, buffers);
}
