/* SPDX-License-Identifier: Apache-2.0 */
/* The selection's moves with AVX2, also where wider vectors do the rest: eight numbers at
 * a time, each four of them put in order by one shuffle. */

#define GATHER_EIGHTS gather_eights
#define KEEP_EIGHTS keep_eights

/* For each set of four: its members in order, as bytes, and as bytes of words. */
#define WORD(i) 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3
#define ORDER(a, b, c, d)                                                                                              \
    {                                                                                                                  \
        {a, b, c, d, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},                          \
        {                                                                                                              \
            WORD(a), WORD(b), WORD(c), WORD(d)                                                                         \
        }                                                                                                              \
    }
static const uint8_t orders[16][2][16] = {ORDER(0, 0, 0, 0), ORDER(0, 0, 0, 0), ORDER(1, 0, 0, 0), ORDER(0, 1, 0, 0),
                                          ORDER(2, 0, 0, 0), ORDER(0, 2, 0, 0), ORDER(1, 2, 0, 0), ORDER(0, 1, 2, 0),
                                          ORDER(3, 0, 0, 0), ORDER(0, 3, 0, 0), ORDER(1, 3, 0, 0), ORDER(0, 1, 3, 0),
                                          ORDER(2, 3, 0, 0), ORDER(0, 2, 3, 0), ORDER(1, 2, 3, 0), ORDER(0, 1, 2, 3)};
static const uint8_t members[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};

static inline __m128i ordered(__m128i four, unsigned set, int words)
{
    return _mm_shuffle_epi8(four, _mm_loadu_si128((const __m128i *)(const void *)orders[set][words]));
}

/* a >= b, unsigned. */
static inline __m256i at_least(__m256i a, __m256i b)
{
    return _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a);
}

static inline unsigned set_of(__m256i mask)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(mask));
}

/* What is written past the members is overwritten by the next, or is room not used yet. */
static inline int64_t gather_eights(const uint32_t *ranks, int64_t n, uint32_t low, uint32_t high, uint32_t *bin,
                                    int64_t *inside, int64_t *above)
{
    const __m256i lows = _mm256_set1_epi32((int32_t)low), highs = _mm256_set1_epi32((int32_t)high);
    __m256i not_above = _mm256_setzero_si256();
    int64_t i = 0, at = 0;
    int32_t lane[8];
    for (; i + 8 <= n; i += 8) {
        __m256i rank = _mm256_loadu_si256((const __m256i *)(const void *)(ranks + i));
        __m256i below = at_least(highs, rank);
        unsigned set = set_of(_mm256_and_si256(below, at_least(rank, lows)));
        not_above = _mm256_sub_epi32(not_above, below);
        _mm_storeu_si128((__m128i *)(void *)(bin + at), ordered(_mm256_castsi256_si128(rank), set & 15u, 1));
        at += members[set & 15u];
        _mm_storeu_si128((__m128i *)(void *)(bin + at), ordered(_mm256_extracti128_si256(rank, 1), set >> 4, 1));
        at += members[set >> 4];
    }
    _mm256_storeu_si256((__m256i *)(void *)lane, not_above);
    *above += i;
    for (int v = 0; v < 8; v++)
        *above -= lane[v];
    *inside = at;
    return i;
}

static inline void keep_four(__m128i rank, int32_t first, unsigned set, int32_t *positions, uint8_t *stages)
{
    __m128i untaken = _mm_xor_si128(_mm_cmpeq_epi32(rank, _mm_setzero_si128()), _mm_set1_epi32(-1));
    __m128i stage = _mm_sub_epi32(_mm_set1_epi32(CKV_KEPT_STAGE1), untaken);
    __m128i place = _mm_add_epi32(_mm_set1_epi32(first), _mm_setr_epi32(0, 1, 2, 3));
    __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(stage, stage), stage);
    int32_t four = _mm_cvtsi128_si32(ordered(bytes, set, 0));
    _mm_storeu_si128((__m128i *)(void *)positions, ordered(place, set, 1));
    memcpy(stages, &four, sizeof four);
}

static inline int64_t keep_eights(const uint32_t *ranks, int32_t first, int64_t count, uint32_t least,
                                  int32_t *positions, uint8_t *stages, int64_t *kept)
{
    const __m256i one = _mm256_set1_epi32(1), limit = _mm256_set1_epi32((int32_t)(least - 1u));
    int64_t i = 0, at = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i rank = _mm256_loadu_si256((const __m256i *)(const void *)(ranks + i));
        unsigned set = set_of(at_least(_mm256_sub_epi32(rank, one), limit));
        keep_four(_mm256_castsi256_si128(rank), first + (int32_t)i, set & 15u, positions + at, stages + at);
        at += members[set & 15u];
        keep_four(_mm256_extracti128_si256(rank, 1), first + (int32_t)i + 4, set >> 4, positions + at, stages + at);
        at += members[set >> 4];
    }
    *kept = at;
    return i;
}
