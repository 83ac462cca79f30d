/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the norm (kernels/norm_*.h). */
#include "tunables.h"

void ckv_gpu_norm(ckv_gpu_call *call, const ckv_tensor *value, const ckv_projection *projection, const ckv_tensor *norm,
                  int listed)
{
    const ckv_gpu_projection *packed = projection->packed;
    ckv_params *p = &call->params;
    void *buffers[] = {ckv_gpu_base(value), packed->memory.base, ckv_gpu_base(norm), call->workspace};
    int64_t at = packed->memory.offset, rows;
    const ckv_gpu_sizes sizes = {call->plan->parameters.value[CKV_GPU_INT_ROWS],
                                 call->plan->parameters.value[CKV_GPU_NORM_TILES]};
    rows = ckv_gpu_norm_rows(packed->route, packed->steps, sizes);
    p->value = ckv_gpu_view(value);
    p->norm = ckv_gpu_view(norm);
    p->at_exponents = at + packed->exponents;
    p->at_bases = at + packed->bases;
    p->at_panels = at + packed->panels;
    p->at_shifts = at + packed->shifts;
    p->at_weights = at + packed->weights;
    p->columns = packed->columns;
    p->value_bits = projection->value_bits;
    p->listed = listed;
    ckv_gpu_run(call, ckv_gpu_norm_kernel(packed->route, packed->steps, sizes), (p->tokens + rows - 1) / rows,
                p->kv_heads, buffers);
}
