/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 with VNNI. */
#include "backends/cpu/optimize.h"

#define INTEGER(i) __asm__ volatile("vpdpwssd %1, %2, %0" : "+v"(a##i) : "v"(x), "v"(y));

#include "isa_avx512.h"

static int usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct isa isa_avx512vnni = {
    .name = "avx512vnni",
    .usable = usable,
    .fma_name = "vfmadd231ps zmm",
    .integer_name = "vpdpwssd zmm",
    .fma_macs = ACCUMULATORS * 16,
    .integer_macs = ACCUMULATORS * 32,
    .fma = fma_rounds,
    .integer = integer_rounds,
    ISA_LOOPS,
};
