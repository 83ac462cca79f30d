/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of plain C: eight lanes that a compiler may map to what it has. */
#include <math.h>

#include "lib/numeric.h"

#define LANES 8
#define KEY_TILE 16
#define QUERY_VECTORS 2
#define QUERY_ROWS 2
#define BOUND_VECTORS 2
#define BOUND_ROWS 2
#define UNROLL_CHANNELS

typedef struct {
    float lane[LANES];
} vf;
typedef struct {
    uint32_t lane[LANES];
} vu;

#define EACH(i) for (int i = 0; i < LANES; i++)

static inline vf vf_load(const float *p)
{
    vf v;
    EACH(i) v.lane[i] = p[i];
    return v;
}
static inline void vf_store(float *p, vf v)
{
    EACH(i) p[i] = v.lane[i];
}
static inline vf vf_set(float x)
{
    vf v;
    EACH(i) v.lane[i] = x;
    return v;
}
static inline vf vf_add(vf a, vf b)
{
    EACH(i) a.lane[i] = a.lane[i] + b.lane[i];
    return a;
}
static inline vf vf_sub(vf a, vf b)
{
    EACH(i) a.lane[i] = a.lane[i] - b.lane[i];
    return a;
}
static inline vf vf_mul(vf a, vf b)
{
    EACH(i) a.lane[i] = a.lane[i] * b.lane[i];
    return a;
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    EACH(i) c.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}
static inline vf vf_max(vf a, vf b)
{
    EACH(i) a.lane[i] = b.lane[i] > a.lane[i] ? b.lane[i] : a.lane[i];
    return a;
}
static inline vf vf_min(vf a, vf b)
{
    EACH(i) a.lane[i] = b.lane[i] < a.lane[i] ? b.lane[i] : a.lane[i];
    return a;
}
static inline vf vf_zero_below(vf v, float limit)
{
    EACH(i) v.lane[i] = v.lane[i] < limit ? 0.0f : v.lane[i];
    return v;
}
static inline vf vf_add_exponent(vf y, vf t)
{
    EACH(i) y.lane[i] = ckv_float(ckv_bits(y.lane[i]) + (ckv_bits(t.lane[i]) << 23));
    return y;
}

/* Sums of the words of floats, modulo 2^32. */
static inline vu vu_zero(void)
{
    vu s = {{0}};
    return s;
}
static inline vu vu_add(vu sum, vf v)
{
    EACH(i) sum.lane[i] += ckv_bits(v.lane[i]);
    return sum;
}
static inline void vu_store(uint32_t *p, vu sum)
{
    EACH(i) p[i] = sum.lane[i];
}

/* keys[c][t] = rows[t][c] */
static void transpose(float *keys, const float *rows, int head_dim, int width)
{
    for (int c = 0; c < head_dim; c++)
        for (int t = 0; t < KEY_TILE; t++)
            keys[c * KEY_TILE + t] = rows[t * width + c];
}
