/* SPDX-License-Identifier: Apache-2.0 */
/* What one instruction set gives the CPU backend. */
#ifndef CKV_BACKENDS_CPU_KERNELS_H
#define CKV_BACKENDS_CPU_KERNELS_H

#include <stdint.h>

#include <ckv/ckv.h>

#define CKV_CPU_KEYS_MAX 24     /* upper bound of every key_tile */
#define CKV_CPU_TOP_LANES 16    /* running maxima kept for each query row */
#define CKV_CPU_ROWS_MAX 32     /* upper bound of every micro-tile's row count */
#define CKV_CPU_SUM_LANES 8     /* int64 partial sums kept for each row of V */
#define CKV_CPU_STEP_MAX 8      /* upper bound of every norm_step */
#define CKV_CPU_VALUE_MAX 32639 /* of |q|, spec 5.2 */
#define CKV_CPU_NO_EXPONENT (-1000)
#define CKV_CPU_TAKEN 0u /* in the array of stage-2 ranks, which are above 0 but for NaN, kept as 1 */

#define CKV_CPU_BOUND_COLUMNS 16                   /* of a factor, in one panel */
#define CKV_CPU_BOUND_STRIDE (512 + 16)            /* floats from one row to the next; odd in cache lines */
#define CKV_CPU_NO_CHANNEL (-(1 << 20))            /* E_k of a channel that no head of the group has */
#define CKV_CPU_NO_TOP (CKV_CPU_NO_CHANNEL + 1000) /* below every exponent that a row can have */

/* What bounds the norms of one KV head's rows (factor.c). */
typedef struct ckv_cpu_factor {
    int32_t dim;              /* dv */
    const int32_t *exponents; /* [dim] E_k, the greatest of the group's heads, or CKV_CPU_NO_CHANNEL */
    const float *lengths;     /* [dim, padded by 0 to whole panels] of the rows of L */
    const float *panels;      /* columns 0..15 of L from row 0 on, columns 16..31 from row 16 on, ... */
} ckv_cpu_factor;

/* Of one row v of V: with v'_k = v_k * 2^(E_k - top), below 1 in magnitude. */
typedef struct ckv_cpu_bound {
    float square; /* |L^T v'|^2 */
    float spread; /* sum of |v'_k| * length_k */
    int32_t top;  /* exponent of the greatest |v_k| * 2^E_k; CKV_CPU_NO_TOP or less: all are 0 */
} ckv_cpu_bound;

typedef struct ckv_cpu_kernels {
    const char *isa;
    int (*usable)(void); /* on this machine */

    /*
     * Score.  `query_rows` queries meet `key_tile` keys: queries [d][query_rows], keys
     * [d][key_tile], logits of query i at logits + i * stride.  tops + i * CKV_CPU_TOP_LANES
     * gathers query i's greatest, in lanes.
     */
    int query_rows, key_tile;
    /* `count` (1 to the tile) rows of keys to a tile, sanitised but for the sign of zeros, which
     * no logit shows; absent keys as 0; scratch [key_tile][d rounded up to 8].  Returns 1 if
     * some was NaN or infinite. */
    uint32_t (*load_keys)(float *keys, const void *from, ckv_dtype dtype, int64_t token_stride, int64_t element_stride,
                          int count, int head_dim, float *scratch);
    void (*logits)(const float *queries, const float *keys, int head_dim, float *logits, int64_t stride, float *tops);
    float (*greatest)(const float *row, int count, float start);
    /* Replaces logits by weights (spec 4.3) and returns the sum of rne(e * 2^40). */
    int64_t (*weights)(float *row, int count, float greatest);
    /* mean[i] = fma(rows[q * stride + i], r[q], mean[i]), q ascending. */
    void (*accumulate)(float *mean, const float *rows, int64_t stride, const float *r, int queries, int count);

    /* Select.  The ranks of a, and the greatest magnitudes that it and v have so far. */
    void (*rank)(uint32_t *ranks, const float *a, const float *v, int64_t count, uint32_t *greatest_a,
                 uint32_t *greatest_v);
    /* Replaces ranks of at least `taken` by CKV_CPU_TAKEN, others by those of stage 2. */
    void (*score)(uint32_t *ranks, const float *a, const float *v, int64_t count, uint32_t taken, float epsilon);
    /* Those of n ranks in [low, high] to bin, which holds n; returns how many, and
     * adds to *above how many are above. */
    int64_t (*gather)(const uint32_t *ranks, int64_t n, uint32_t low, uint32_t high, uint32_t *bin, int64_t *above);
    /* Positions, from `first` on, of the ranks CKV_CPU_TAKEN and those of at least `least`, and
     * their stages; returns how many.  Both arrays hold `count`. */
    int64_t (*keep)(const uint32_t *rank, int32_t first, int64_t count, uint32_t least, int32_t *positions,
                    uint8_t *stages);

    /* Norm: `count` elements to a row, sanitised; returns 1 if some was NaN or infinite. */
    uint32_t (*load_row)(float *row, const void *from, ckv_dtype dtype, int64_t stride, int64_t count);

    /*
     * A panel holds norm_columns columns of W, `norm_step` channels side by side:
     * [steps][columns][norm_step] of integers of norm_weight_size bytes.  `norm_rows`
     * rows of q [steps][norm_rows][norm_step], two bytes each in the kernel's own
     * form, meet it; sums[row][lane] += |T| << shift.
     */
    int norm_step, norm_rows, norm_columns, norm_weight_size;
    /* One row (spec 5.2) to its place at q, by way of values [steps * norm_step]; R, or
     * CKV_CPU_NO_EXPONENT and zeros, as for no row (NULL). */
    int32_t (*quantize)(const float *row, const int16_t *exponents, int32_t dim, int32_t bits, int16_t *values,
                        int16_t *q);
    void (*norm_panel)(const void *panel, const int16_t *q, int steps, int shift, int64_t *sums);
    /* What makes the norms of weights that do not fit norm_weight_size; NULL: this. */
    const struct ckv_cpu_kernels *norm_wide;

    /* Bounds of `count` rows of V, rows[first ...], NULL for the rows first ..., which may have
     * errors of rounding (bounds.c); without a factor rows are only read.  Scratch [CKV_CPU_ROWS_MAX][CKV_CPU_BOUND_STRIDE].  Returns 1 if
     * some element was NaN or infinite. */
    uint32_t (*bound_rows)(const ckv_cpu_factor *factor, const ckv_tensor *value, int64_t head, const int32_t *rows,
                           int64_t first, int count, float *scratch, ckv_cpu_bound *bounds);
} ckv_cpu_kernels;

/* Best first; NULL ends the list.  The last is usable everywhere. */
extern const ckv_cpu_kernels *const ckv_cpu_kernels_list[];

extern const ckv_cpu_kernels ckv_cpu_kernels_avx512vnni;
extern const ckv_cpu_kernels ckv_cpu_kernels_avxvnni;
extern const ckv_cpu_kernels ckv_cpu_kernels_avx512;
extern const ckv_cpu_kernels ckv_cpu_kernels_avx2;
extern const ckv_cpu_kernels ckv_cpu_kernels_neon_i8mm;
extern const ckv_cpu_kernels ckv_cpu_kernels_neon_dotprod;
extern const ckv_cpu_kernels ckv_cpu_kernels_neon;
extern const ckv_cpu_kernels ckv_cpu_kernels_portable;

#endif
