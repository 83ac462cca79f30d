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
static inline vf vf_where_less(vf x, float limit, vf yes, vf no)
{
    EACH(i) no.lane[i] = x.lane[i] < limit ? yes.lane[i] : no.lane[i];
    return no;
}
static inline vf vf_add_exponent(vf y, vf t)
{
    EACH(i) y.lane[i] = ckv_float(ckv_bits(y.lane[i]) + (ckv_bits(t.lane[i]) << 23));
    return y;
}

/* Partial sums of rne(e * 2^40). */
typedef struct {
    int64_t sum;
} vsum;
static inline vsum vsum_zero(void)
{
    vsum s = {0};
    return s;
}
static inline vsum vsum_add(vsum s, vf e)
{
    EACH(i) s.sum += ckv_rne(e.lane[i], 40);
    return s;
}
static inline int64_t vsum_total(vsum s, int64_t added)
{
    (void)added;
    return s.sum;
}

/* keys[c][t] = rows[t][c] */
static void transpose(float *keys, const float *rows, int head_dim, int width)
{
    for (int c = 0; c < head_dim; c++)
        for (int t = 0; t < KEY_TILE; t++)
            keys[c * KEY_TILE + t] = rows[t * width + c];
}
