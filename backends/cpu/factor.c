/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upper bound of the norms of one KV head (spec 5), for far less than a norm costs.
 *
 * The bound.  Let h run over the group's query heads, c_hj = 2^(Fmin_h + sh_hj), and
 * y_hj = sum_k v_k 2^(E_hk) w_hkj.  The norm of a head sums c_hj |T_hj| 2^(R - bits), and
 * T_hj 2^(R - bits) is y_hj but for the rounding of q_k, at most 1/2 each.  So
 *
 *     G * N <= sum_hj c_hj |y_hj| + sum_h 2^(R_h - bits + Fmin_h) / 2 * sum_jk 2^sh_hj |w_hkj|.
 *
 * By Cauchy-Schwarz the first sum is at most sqrt(C) sqrt(v^T S v), with C = sum of the c_hj
 * whose w is not 0 and S_kl = sum_hj c_hj 2^(E_hk + E_hl) w_hkj w_hlj.  (Weights w_hj are
 * balanced, so that the |y_hj| of a row are alike and little is lost: about as much as between
 * mean and root mean square of a normal distribution, 0.8.)
 *
 * Scaling.  With E_k the greatest E_hk and top the exponent of the greatest |v_k| 2^(E_k),
 * v'_k = v_k 2^(E_k - top) is below 1 and R_h <= top, or top + 1 where R may grow (B = 7 only).
 * So the bound is 2^top times what follows from v' and S'_kl = S_kl 2^(-E_k - E_l).
 *
 * Factor.  S' is made in binary64 out of exact integers and then factored as L L^T, rows
 * without weights left out.  Of S'_kl, G additions and the factorisation are wrong by at most
 * (G + dv + 2) 2^-53 sqrt(S'_kk S'_ll) (Higham, Accuracy and Stability, theorem 10.3); with
 * G <= 2^17 and dv <= 512, in the metric of the diagonal, that is a matrix of norm below
 * 512 * 2^17.1 * 2^-53 < 2^-26.  The diagonal is raised by 2^-24 of itself first, so that
 * L L^T - S' is positive definite and |L^T v'|^2 is above v'^T S' v'.
 *
 * Rounding.  L is divided by a power of two, `unit`, to have rows of length at most 1, and
 * rounded to binary32; L^T v' is a chain of at most dv fma in binary32 for each column.
 * Together they are wrong by a vector of length at most (dv + 2) 2^-24 sum_k |v'_k| |L_k|,
 * |L_k| the length of row k: `rounding` = (dv + 16) 2^-24 times `spread` covers it, and the
 * rounding of the spread.  The sum of squares, of at most dv + 16 roundings, is covered by
 * the same number.
 *
 * Underflow, where a mode or a size makes numbers below 2^-126 into 0, takes less than 2^-58
 * off |L^T v'|.  The slack is at least 2^-24 in the same unit: since 1 <= |w| < 2^B where C
 * counts an output, the slack is at least C 2^(B - 23), while unit * sqrt(C) <= 2^(B + 1) C.
 *
 * In the end, the sums and products of spec 5.3 and 5.4 in binary32 may round up G + 2 times;
 * a factor 1 + (G + 16) 2^-23 covers them, the underflow, and the rounding of the bound itself.
 */
#include "factor.h"

#include <math.h>
#include <string.h>

#include "gram.h"
#include "lib/sizes.h"
#include "panels.h"

#define COLUMNS CKV_CPU_BOUND_COLUMNS
#define JITTER 0x1p-24

typedef struct layout {
    size_t exponents, lengths, panels, total;
} layout;

static int lay_out(const ckv_plan *plan, layout *l)
{
    size_t dim = (size_t)plan->value_dim, at = 0, columns = (dim + COLUMNS - 1) / COLUMNS, rows = 0;
    int fits = 1;
    for (size_t first = 0; first < dim; first += COLUMNS)
        rows += dim - first;
    l->exponents = at;
    fits &= ckv_add_block(&at, dim, sizeof(int32_t));
    l->lengths = at;
    fits &= ckv_add_block(&at, columns * COLUMNS, sizeof(float));
    l->panels = at;
    fits &= ckv_add_block(&at, rows * COLUMNS, sizeof(float));
    l->total = at;
    return fits;
}

size_t ckv_cpu_bounds_size(const ckv_plan *plan)
{
    layout l;
    return lay_out(plan, &l) ? l.total : 0;
}

size_t ckv_cpu_bounds_scratch(const ckv_plan *plan)
{
    size_t total = 0, dim = (size_t)plan->value_dim;
    return ckv_add_block(&total, (2 * dim + 1) * dim, sizeof(double)) ? total : 0;
}

/* 2^e, e in (-1023, 1024). */
static double power(int e)
{
    uint64_t u = (uint64_t)(e + 1023) << 52;
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* E_k of the group. */
static void find_exponents(const ckv_plan *plan, const ckv_projection *p, int64_t first, int32_t *exponents)
{
    for (int32_t k = 0; k < plan->value_dim; k++)
        exponents[k] = CKV_CPU_NO_CHANNEL;
    for (int64_t head = first; head < first + plan->group; head++)
        for (int32_t k = 0; k < plan->value_dim; k++) {
            int32_t e = p->exponents[head * plan->value_dim + k];
            if (e != CKV_CHANNEL_DROPPED && e > exponents[k])
                exponents[k] = e;
        }
}

/* Adds heads [first, end) to S', its lower triangle in rows of dv. */
static void add_heads(const ckv_projection *p, const ckv_cpu_gram *gram, int64_t first, int64_t end,
                      const int32_t *exponents, double *square, double *powers)
{
    int32_t dim = p->value_dim;
    for (int64_t head = first; head < end; head++) {
        const double *from = gram->squares + (size_t)head * gram->triangle;
        const int16_t *own = p->exponents + head * dim;
        for (int32_t k = 0; k < dim; k++)
            powers[k] = own[k] == CKV_CHANNEL_DROPPED ? 0.0 : power(own[k] - exponents[k]);
        for (int32_t k = 0; k < dim; from += ++k) {
            double unit = powers[k] * power(p->bases[head]);
            for (int32_t l = 0; l <= k; l++)
                square[(int64_t)k * dim + l] += unit * powers[l] * from[l];
        }
    }
}

static double dot(const double *a, const double *b, int32_t count)
{
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    int32_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sum[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* L in place of S'; a row and column of zeros stays so. */
static void factorise(double *square, int32_t dim)
{
    for (int32_t k = 0; k < dim; k++) {
        double *row = square + (int64_t)k * dim;
        double diagonal = row[k] * (1.0 + JITTER);
        for (int32_t l = 0; l < k; l++) {
            const double *other = square + (int64_t)l * dim;
            row[l] = other[l] == 0.0 ? 0.0 : (row[l] - dot(row, other, l)) / other[l];
        }
        row[k] = diagonal == 0.0 ? 0.0 : sqrt(diagonal - dot(row, row, k));
    }
}

/* Returns `unit`. */
static double store(const double *square, int32_t dim, float *lengths, float *panels)
{
    double greatest = 0.0, inverse;
    int exponent;
    for (int32_t k = 0; k < dim; k++) {
        const double *row = square + (int64_t)k * dim;
        double length = dot(row, row, k + 1);
        greatest = length > greatest ? length : greatest;
    }
    (void)frexp(sqrt(greatest), &exponent); /* 0 for 0 */
    inverse = power(-exponent);
    for (int32_t k = 0; k < dim; k++) {
        const double *row = square + (int64_t)k * dim;
        lengths[k] = (float)(inverse * sqrt(dot(row, row, k + 1)));
    }
    for (int32_t first = 0; first < dim; first += COLUMNS)
        for (int32_t k = first; k < dim; k++)
            for (int32_t l = first; l < first + COLUMNS; l++)
                *panels++ = l > k ? 0.0f : (float)(inverse * square[(int64_t)k * dim + l]);
    return power(exponent);
}

/* From S' of a part and all after it. */
static void make_part(const ckv_plan *plan, const int32_t *exponents, double *square, void *memory, double outputs,
                      double slack, ckv_cpu_bounds *bounds)
{
    double last = 1.0 + (double)(plan->group + 16) * 0x1p-23, unit;
    int32_t dim = plan->value_dim;
    layout l;
    lay_out(plan, &l);
    int32_t *own = (int32_t *)(void *)((char *)memory + l.exponents);
    float *lengths = (float *)(void *)((char *)memory + l.lengths);
    float *panels = (float *)(void *)((char *)memory + l.panels);
    if (own != exponents)
        memcpy(own, exponents, (size_t)dim * sizeof *own);
    factorise(square, dim);
    unit = store(square, dim, lengths, panels);
    *bounds = (ckv_cpu_bounds){
        .factor = {dim, own, lengths, panels},
        .scale = sqrt(outputs) * unit / (double)plan->group * last,
        .slack = slack / (double)plan->group * last,
        .rounding = (double)(dim + 16) * 0x1p-24,
    };
}

void ckv_cpu_bounds_make(const ckv_plan *plan, const ckv_projection *projection, int64_t kv_head, int32_t parts,
                         void *memory, void *scratch, ckv_cpu_bounds *bounds)
{
    const ckv_cpu_kernels *kernels = ckv_cpu_norm_kernels(plan->context->backend_state, projection);
    ckv_cpu_gram gram = ckv_cpu_gram_open(projection, ckv_cpu_panels_open(kernels, projection).end);
    size_t cells = (size_t)plan->value_dim * (size_t)plan->value_dim, size = ckv_cpu_bounds_size(plan);
    double *square = scratch, *factor = square + cells, *powers = factor + cells;
    int32_t grows = projection->weight_bits == 7, *exponents = memory; /* part 0's, where it keeps them */
    double outputs = 0.0, slack = 0.0;
    memset(memory, 0, (size_t)parts * size);
    memset(square, 0, cells * sizeof *square);
    find_exponents(plan, projection, kv_head * plan->group, exponents);
    for (int32_t part = parts - 1; part >= 0; part--) {
        int64_t first = kv_head * plan->group + ckv_cpu_part_start(plan, parts, part);
        int64_t end = kv_head * plan->group + ckv_cpu_part_start(plan, parts, part + 1);
        for (int64_t head = first; head < end; head++) {
            outputs += power(projection->bases[head]) * gram.outputs[head];
            slack += power(grows - projection->value_bits + projection->bases[head]) * 0.5 * gram.weights[head];
        }
        add_heads(projection, &gram, first, end, exponents, square, powers);
        memcpy(factor, square, cells * sizeof *factor);
        make_part(plan, exponents, factor, (char *)memory + (size_t)part * size, outputs, slack, &bounds[part]);
    }
}
