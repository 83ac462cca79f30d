/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction sets that the compiler took (m4/ckv_isa.m4). */
#include "isa.h"

#include <string.h>

const struct isa *const isa_list[] = {
#ifdef CKV_CPU_AVX512VNNI
    &isa_avx512vnni,
#endif
#ifdef CKV_CPU_AVX512
    &isa_avx512,
#endif
#ifdef CKV_CPU_AVX2
    &isa_avx2,
#endif
#ifdef CKV_CPU_NEON
    &isa_neon,
#endif
    &isa_portable,   NULL,
};

const struct isa *isa_find(const char *name)
{
    for (size_t i = 0; isa_list[i] != NULL; i++) {
        if (strcmp(isa_list[i]->name, name) == 0)
            return isa_list[i];
    }
    return NULL;
}

const struct isa *isa_best(void)
{
    size_t i = 0;

    while (!isa_list[i]->usable())
        i++;
    return isa_list[i];
}
