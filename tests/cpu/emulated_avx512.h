/* SPDX-License-Identifier: Apache-2.0 */
/* SIMDe's AVX-512 in plain C, with what its version 0.7.4 lacks or misnames. */
#include <simde/x86/avx512.h>

#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)

static inline __m512d ckv_emulated_cvtps_pd(__m256 x)
{
    simde__m512d_private wide;
    simde__m256_private narrow = simde__m256_to_private(x);
    for (int i = 0; i < 8; i++)
        wide.f64[i] = (double)narrow.f32[i];
    return simde__m512d_from_private(wide);
}
#define _mm512_cvtps_pd(x) ckv_emulated_cvtps_pd(x)
