/* SPDX-License-Identifier: Apache-2.0 */
/* What may be tuned of the CPU backend: the search space, and what is taken untuned. */
#include "tunables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of ckv_cpu_kernels_list. */
static const char *const isas[] = {
#ifdef CKV_CPU_AVX512VNNI
    "avx512vnni",
#endif
#ifdef CKV_CPU_AVXVNNI
    "avxvnni",
#endif
#ifdef CKV_CPU_AVX512
    "avx512",
#endif
#ifdef CKV_CPU_AVX2
    "avx2",
#endif
#ifdef CKV_CPU_NEON_I8MM
    "neon_i8mm",
#endif
#ifdef CKV_CPU_NEON_DOTPROD
    "neon_dotprod",
#endif
#ifdef CKV_CPU_NEON
    "neon",
#endif
    "portable",
};

static const int32_t isa_values[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Multiples of every kernel's norm_rows; at dv 128 a row of q is 256 bytes. */
static const int32_t norm_blocks[] = {96, 192, 288, 384};

/* Quarters of the greatest, which select.c has room for. */
static const int32_t samples[] = {512, 2048, 8192};

static const int32_t bound_blocks[] = {48, 96, 192, 384};

/* 64: hardly ever. */
static const int32_t skip_factors[] = {1, 2, 4, 8, 16, 64};

/* Measured on AVX2, and taken for all. */
static const int32_t untuned[CKV_CPU_TUNABLES] = {
    [CKV_CPU_NORM_BLOCK] = 96, [CKV_CPU_SELECT_SAMPLE] = 2048, [CKV_CPU_BOUND_BLOCK] = 96, [CKV_CPU_SKIP_FACTOR] = 4};

#define COUNT(list) ((int32_t)(sizeof(list) / sizeof(list)[0]))

const ckv_tunable ckv_cpu_tunables[CKV_CPU_TUNABLES] = {
    [CKV_CPU_ISA] = {"all", "isa", "instruction set", CKV_TUNE_CONTEXT, isa_values, isas, COUNT(isas)},
    [CKV_CPU_NORM_BLOCK] = {"norm", "norm_block", "rows of V in a work item of the norm", CKV_TUNE_PLAN, norm_blocks,
                            NULL, COUNT(norm_blocks)},
    [CKV_CPU_SELECT_SAMPLE] = {"select", "select_sample", "ranks sampled to bracket the cut", CKV_TUNE_PLAN, samples,
                               NULL, COUNT(samples)},
    [CKV_CPU_BOUND_BLOCK] = {"evict", "bound_block", "rows of V in a work item of the norms' bounds", CKV_TUNE_PLAN,
                             bound_blocks, NULL, COUNT(bound_blocks)},
    [CKV_CPU_SKIP_FACTOR] = {"evict", "skip_factor", "times that bounds must be cheaper than norms left out",
                             CKV_TUNE_PLAN, skip_factors, NULL, COUNT(skip_factors)},
};

int ckv_cpu_tunable_allowed(const ckv_context *context, int32_t index, int32_t value)
{
    (void)context;
    return index != CKV_CPU_ISA || ckv_cpu_kernels_list[value]->usable();
}

int32_t ckv_cpu_tunable_model(const ckv_context *context, const ckv_problem *problem, int32_t index)
{
    int32_t best = 0;
    (void)context;
    (void)problem;
    if (index != CKV_CPU_ISA)
        return untuned[index];
    while (!ckv_cpu_kernels_list[best]->usable())
        best++;
    return best;
}

int ckv_cpu_read_isa(ckv_parameters *given)
{
    const char *forced = getenv("CKV_CPU_ISA");
    if (forced == NULL || forced[0] == '\0')
        return 1;
    for (int32_t i = 0; i < COUNT(isas); i++)
        if (strcmp(forced, isas[i]) == 0 && ckv_cpu_kernels_list[i]->usable()) {
            given->value[CKV_CPU_ISA] = i;
            given->source[CKV_CPU_ISA] = CKV_SOURCE_ENVIRONMENT;
            return 1;
        }
    return 0;
}

/* Those that this machine has, or has not, with commas. */
static void list_isas(char *text, size_t size, int usable)
{
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < COUNT(isas) && used < size; i++)
        if ((ckv_cpu_kernels_list[i]->usable() != 0) == usable)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ", isas[i]);
}

void ckv_cpu_refusal(char *reason, size_t size)
{
    ckv_parameters ignored = {0};
    char has[150], lacks[150];
    int known = 0;
    if (ckv_cpu_read_isa(&ignored))
        return;
    for (int32_t i = 0; i < COUNT(isas); i++)
        known |= strcmp(getenv("CKV_CPU_ISA"), isas[i]) == 0;
    list_isas(has, sizeof has, 1);
    list_isas(lacks, sizeof lacks, 0);
    snprintf(reason, size, "CKV_CPU_ISA '%.40s': %s, wanted one of: %s%s%s", getenv("CKV_CPU_ISA"),
             known ? "not on this machine" : "no such instruction set", has,
             lacks[0] == '\0' ? "" : "; not on this machine: ", lacks);
}
