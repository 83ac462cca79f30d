/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend's table, its choice of instruction set, its memory. */
#include <string.h>

#include "bounds.h"
#include "cpu.h"
#include "evict.h"
#include "gram.h"
#include "identity.h"
#include "lib/pipeline.h"
#include "lib/sizes.h"
#include "tunables.h"

const ckv_cpu_kernels *const ckv_cpu_kernels_list[] = {
/* What the compiler took (m4/ckv_isa.m4). */
#ifdef CKV_CPU_AVX512VNNI
    &ckv_cpu_kernels_avx512vnni,
#endif
#ifdef CKV_CPU_AVXVNNI
    &ckv_cpu_kernels_avxvnni,
#endif
#ifdef CKV_CPU_AVX512
    &ckv_cpu_kernels_avx512,
#endif
#ifdef CKV_CPU_AVX2
    &ckv_cpu_kernels_avx2,
#endif
#ifdef CKV_CPU_NEON_I8MM
    &ckv_cpu_kernels_neon_i8mm,
#endif
#ifdef CKV_CPU_NEON_DOTPROD
    &ckv_cpu_kernels_neon_dotprod,
#endif
#ifdef CKV_CPU_NEON
    &ckv_cpu_kernels_neon,
#endif
    &ckv_cpu_kernels_portable,     NULL,
};

static int32_t device_count(void)
{
    return 1;
}

/* The best instruction set of this machine, or the one that CKV_CPU_ISA names; NULL
 * when it names none that this machine has. */
static const ckv_cpu_kernels *choose_kernels(void)
{
    ckv_parameters given = {0};
    if (!ckv_cpu_read_isa(&given))
        return NULL;
    return ckv_cpu_kernels_list[given.source[CKV_CPU_ISA] != 0 ? given.value[CKV_CPU_ISA]
                                                               : ckv_cpu_tunable_model(NULL, NULL, CKV_CPU_ISA)];
}

static int device_rank(int32_t device)
{
    (void)device;
    return CKV_RANK_CPU;
}

static const char *device_name(int32_t device)
{
    const ckv_cpu_kernels *kernels = choose_kernels();
    (void)device;
    return kernels == NULL ? "" : kernels->isa;
}

/* The choice that was made when the context was, whatever the environment says now. */
static const char *context_device_name(const ckv_context *context)
{
    const ckv_cpu_kernels *kernels = context->backend_state;
    return kernels->isa;
}

static const char *device_reason(int32_t device)
{
    (void)device;
    return "";
}

static ckv_status open_device(ckv_context *context)
{
    ckv_cpu_read_isa(&context->given);
    if (context->threads == 0)
        context->threads = ckv_cpu_default_threads();
    return CKV_OK;
}

static void apply_parameters(ckv_context *context)
{
    context->backend_state = ckv_cpu_kernels_list[context->parameters.value[CKV_CPU_ISA]];
}

static size_t workspace_size(const ckv_plan *plan)
{
    int skips = ckv_cpu_skip_pays(plan), fits = 1;
    ckv_cpu_sizes sizes[3] = {{0, 0, 0}};
    size_t greatest = 0, workers = (size_t)plan->context->threads;
    fits &= ckv_cpu_score_sizes(plan, &sizes[0]);
    fits &= ckv_cpu_norm_sizes(plan, &sizes[1]);
    fits &= ckv_cpu_select_sizes(plan, &sizes[2]);
    for (int i = 0; i < 3; i++) {
        size_t stage = sizes[i].shared;
        fits &= ckv_add_product(&stage, sizes[i].worker, workers < sizes[i].items ? workers : sizes[i].items);
        greatest = stage > greatest ? stage : greatest;
    }
    if (skips)
        fits &= ckv_cpu_skip_sizes(plan, &greatest);
    return fits ? ckv_pipeline_workspace(plan, greatest) : 0;
}

/* Panels for the norm, and behind them what bounds need. */
static size_t projection_size(const ckv_context *context, const ckv_projection *projection)
{
    size_t panels = ckv_cpu_panels_size(context, projection), gram = ckv_cpu_gram_size(projection);
    return panels == 0 || gram == 0 || gram > SIZE_MAX - panels ? 0 : panels + gram;
}

static ckv_status projection_pack(const ckv_context *context, const ckv_projection *projection, void *memory)
{
    size_t panels = ckv_cpu_panels_size(context, projection);
    ckv_cpu_panels_make(context, projection, memory);
    return ckv_cpu_gram_make(context, projection, (char *)memory + panels);
}

const ckv_backend ckv_backend_cpu = {
    .name = "cpu",
    .device_count = device_count,
    .device_name = device_name,
    .context_device_name = context_device_name,
    .context_variant = context_device_name, /* the instruction set */
    .device_reason = device_reason,
    .device_rank = device_rank,
    .refusal = ckv_cpu_refusal,
    .open_device = open_device,
    .identify = ckv_cpu_identify,
    .tunables = ckv_cpu_tunables,
    .tunable_count = CKV_CPU_TUNABLES,
    .tunable_allowed = ckv_cpu_tunable_allowed,
    .tunable_model = ckv_cpu_tunable_model,
    .apply_parameters = apply_parameters,
    .estimate = ckv_cpu_estimate,
    .projection_size = projection_size,
    .projection_pack = projection_pack,
    .workspace_size = workspace_size,
    .score = ckv_cpu_score,
    .norm = ckv_cpu_norm,
    .select = ckv_cpu_select,
    .compact = ckv_cpu_compact,
    .evict = ckv_cpu_evict,
};
