/* SPDX-License-Identifier: Apache-2.0 */
/* The key tile's transposition with AVX2, also where wider vectors do the rest. */

/* Eight by eight words. */
static inline void transpose_words(__m256 r[8])
{
    __m256 s[8];
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
    for (int i = 0; i < 8; i++)
        r[i] = s[i];
}

/* keys[c][t] = rows[t][c]; `width` is a multiple of 8. */
static void transpose(float *keys, const float *rows, int head_dim, int width)
{
    for (int t = 0; t < KEY_TILE; t += 8)
        for (int c = 0; c < head_dim; c += 8) {
            __m256 r[8];
            int left = head_dim - c < 8 ? head_dim - c : 8;
            for (int i = 0; i < 8; i++)
                r[i] = _mm256_loadu_ps(rows + (t + i) * width + c);
            transpose_words(r);
            for (int i = 0; i < left; i++)
                _mm256_storeu_ps(keys + (c + i) * KEY_TILE + t, r[i]);
        }
}

/* Whether the sanitising rule changes none of a row's `bytes` (a multiple of 16) but zeros'
 * signs: of every magnitude m, m <= most and, but for 0, m >= least. */
static inline __m256i plain_words(const unsigned char *p, int64_t bytes, __m256i sign, __m256i most,
                                  __m256i below_least, int words)
{
    const __m256i one = words ? _mm256_set1_epi32(1) : _mm256_set1_epi16(1);
    __m256i top = _mm256_setzero_si256(), bottom = _mm256_set1_epi32(-1);
    for (int64_t i = 0; i < bytes; i += 32) {
        __m256i u = i + 32 <= bytes ? _mm256_loadu_si256((const __m256i *)(const void *)(p + i))
                                    : _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p + i)));
        u = _mm256_andnot_si256(sign, u);
        if (words) {
            top = _mm256_max_epu32(top, u);
            bottom = _mm256_min_epu32(bottom, _mm256_sub_epi32(u, one));
        } else {
            top = _mm256_max_epu16(top, u);
            bottom = _mm256_min_epu16(bottom, _mm256_sub_epi16(u, one));
        }
    }
    if (words)
        return _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_max_epu32(top, most), most),
                                _mm256_cmpeq_epi32(_mm256_max_epu32(bottom, below_least), bottom));
    return _mm256_and_si256(_mm256_cmpeq_epi16(_mm256_max_epu16(top, most), most),
                            _mm256_cmpeq_epi16(_mm256_max_epu16(bottom, below_least), bottom));
}

static inline int is_plain(const unsigned char *p, ckv_dtype dtype, int64_t bytes)
{
    __m256i plain;
    if (dtype == CKV_F32)
        plain = plain_words(p, bytes, _mm256_set1_epi32((int32_t)CKV_SIGN_BIT), _mm256_set1_epi32(CKV_TOP_BITS),
                            _mm256_set1_epi32(CKV_BOTTOM_BITS - 1), 1);
    else if (dtype == CKV_BF16)
        plain = plain_words(p, bytes, _mm256_set1_epi16((int16_t)0x8000), _mm256_set1_epi16(CKV_TOP_BITS >> 16),
                            _mm256_set1_epi16((CKV_BOTTOM_BITS >> 16) - 1), 0);
    else /* every finite half is within the rule's limits */
        plain = plain_words(p, bytes, _mm256_set1_epi16((int16_t)0x8000), _mm256_set1_epi16(0x7bff),
                            _mm256_setzero_si256(), 0);
    return _mm256_movemask_epi8(plain) == -1;
}

static inline void store_column(float *keys, __m256i column)
{
    _mm256_storeu_si256((__m256i *)(void *)keys, column);
}

/* Pairs of channels of bf16 are transposed as one word and taken apart after that. */
static inline void load_pairs(float *keys, const unsigned char *p, int64_t stride)
{
    const __m256i upper = _mm256_set1_epi32((int32_t)0xffff0000u);
    __m256 r[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps((const float *)(const void *)(p + i * stride));
    transpose_words(r);
    for (int i = 0; i < 8; i++) {
        __m256i pair = _mm256_castps_si256(r[i]);
        store_column(keys + 2 * i * KEY_TILE, _mm256_slli_epi32(pair, 16));
        store_column(keys + (2 * i + 1) * KEY_TILE, _mm256_and_si256(pair, upper));
    }
}

#define LOAD_EIGHT_KEYS(bits)                                                                                          \
    do {                                                                                                               \
        __m256 r[8];                                                                                                   \
        for (int i = 0; i < 8; i++)                                                                                    \
            r[i] = _mm256_castsi256_ps(bits(p + i * stride));                                                          \
        transpose_words(r);                                                                                            \
        for (int i = 0; i < 8; i++)                                                                                    \
            _mm256_storeu_ps(to + i * KEY_TILE, r[i]);                                                                 \
    } while (0)

#define LOAD_KEYS_PLAIN load_keys_plain

/* A whole tile of adjacent channels, a multiple of 8; 0 where the rule would change some. */
static int load_keys_plain(float *keys, const void *from, ckv_dtype dtype, int64_t stride, int head_dim)
{
    const int64_t size = (int64_t)ckv_dtype_size(dtype);
    for (int t = 0; t < KEY_TILE; t++)
        if (!is_plain((const unsigned char *)from + t * stride, dtype, head_dim * size))
            return 0;
    for (int t = 0; t < KEY_TILE; t += 8) {
        const unsigned char *rows = (const unsigned char *)from + t * stride;
        int c = 0;
        for (; dtype == CKV_BF16 && c + 16 <= head_dim; c += 16)
            load_pairs(keys + c * KEY_TILE + t, rows + 2 * (int64_t)c, stride);
        for (; c < head_dim; c += 8) {
            const unsigned char *p = rows + c * size;
            float *to = keys + c * KEY_TILE + t;
            if (dtype == CKV_F32)
                LOAD_EIGHT_KEYS(bits_f32);
            else if (dtype == CKV_BF16)
                LOAD_EIGHT_KEYS(bits_bf16);
            else
                LOAD_EIGHT_KEYS(bits_f16);
        }
    }
    return 1;
}
