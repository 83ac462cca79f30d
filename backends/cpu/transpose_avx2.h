/* SPDX-License-Identifier: Apache-2.0 */
/* The key tile's transposition with AVX2, also where wider vectors do the rest. */

/* keys[c][t] = rows[t][c], eight by eight; `width` is a multiple of 8. */
static void transpose(float *keys, const float *rows, int head_dim, int width)
{
    for (int t = 0; t < 16; t += 8)
        for (int c = 0; c < head_dim; c += 8) {
            __m256 r[8], s[8];
            int left = head_dim - c < 8 ? head_dim - c : 8;
            for (int i = 0; i < 8; i++)
                r[i] = _mm256_loadu_ps(rows + (t + i) * width + c);
            for (int i = 0; i < 8; i += 2) {
                s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
                s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
            }
            for (int i = 0; i < 8; i += 4) {
                r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
                r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
                r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
                r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
            }
            for (int i = 0; i < 4; i++) {
                s[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
                s[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
            }
            for (int i = 0; i < left; i++)
                _mm256_storeu_ps(keys + (c + i) * 16 + t, s[i]);
        }
}
