/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the compaction (kernels/compact.h). */
#include "gpu.h"

/* The greatest unit that all of the addresses and strides are multiples of. */
static i32 unit_of(uint64_t all)
{
    return all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

void ckv_gpu_compact(ckv_gpu_call *call, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to)
{
    ckv_params *p = &call->params;
    int64_t size = (int64_t)ckv_dtype_size(from->dtype), elements = from->shape[2], units;
    int dense = elements <= 1 || (from->stride[2] == size && to->stride[2] == size);
    uint64_t all = (uint64_t)(intptr_t)from->data | (uint64_t)(intptr_t)to->data;
    void *positions = ckv_gpu_pointer(kept->buffer, kept->positions, &p->positions);
    void *moved[] = {ckv_gpu_base(from), ckv_gpu_base(to), positions, call->workspace};
    p->from = ckv_gpu_view(from);
    p->to = ckv_gpu_view(to);
    p->row_elements = dense ? 1 : (i32)elements;
    p->element_bytes = (i32)(dense ? elements * size : size);
    for (int i = 0; i < (dense ? 2 : 3); i++)
        all |= (uint64_t)from->stride[i] | (uint64_t)to->stride[i];
    p->unit = unit_of(all | (uint64_t)p->element_bytes);
    units = (int64_t)p->row_elements * (p->element_bytes / p->unit);
    if (from->data == to->data && from->buffer == to->buffer) {
        void *in_place[] = {moved[0], positions, call->workspace};
        ckv_gpu_run(call, CKV_GPU_ckv_compact_in_place, (units + COMPACT_SLICE - 1) / COMPACT_SLICE, p->kv_heads,
                    in_place);
        return;
    }
    ckv_gpu_run(call, CKV_GPU_ckv_compact, (p->budget * units + COMPACT_GROUP - 1) / COMPACT_GROUP, p->kv_heads, moved);
}
