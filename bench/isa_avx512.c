/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 (F and BW). */
#include "backends/cpu/optimize.h"

#define INTEGER(i)                                                                                                     \
    do {                                                                                                               \
        __m512i product;                                                                                               \
        __asm__ volatile("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0" : "+v"(a##i), "=&v"(product) : "v"(x), "v"(y));    \
    } while (0);

#include "isa_avx512.h"

static int usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}

const struct isa isa_avx512 = {
    .name = "avx512",
    .usable = usable,
    .fma_name = "vfmadd231ps zmm",
    .integer_name = "vpmaddwd + vpaddd zmm",
    .fma_macs = ACCUMULATORS * 16,
    .integer_macs = ACCUMULATORS * 32,
    .fma = fma_rounds,
    .integer = integer_rounds,
    ISA_LOOPS,
};
