/* SPDX-License-Identifier: Apache-2.0 */
/* Flush-to-zero modes change no bit, since no value is ever subnormal: the reference
 * runs over hostile inputs with the modes off and on. */
#include "unit.h"

#include <fenv.h>
#include <math.h>

#include "backends/ref/ref.h"
#include "numeric.h"

#if defined __SSE2__
#include <xmmintrin.h>
#define MODES 1
#define FLUSH 0x8040u /* FTZ: results; DAZ: operands */
#define SUBNORMAL_OPERAND 0x2u
typedef unsigned modes;
static modes get_modes(void)
{
    return _mm_getcsr();
}
static void set_modes(modes m)
{
    _mm_setcsr(m);
}
#elif defined __aarch64__
#define MODES 1
#define FLUSH (UINT64_C(1) << 24)     /* FPCR.FZ */
#define SUBNORMAL_OPERAND UINT64_C(0) /* not in this register */
typedef uint64_t modes;
static modes get_modes(void)
{
    modes m;
    __asm__ volatile("mrs %0, fpcr" : "=r"(m));
    return m;
}
static void set_modes(modes m)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(m) : "memory");
}
#else
#define MODES 0
#define FLUSH 0u
#define SUBNORMAL_OPERAND 0u
typedef unsigned modes;
static modes get_modes(void)
{
    return 0;
}
static void set_modes(modes m)
{
    (void)m;
}
#endif

/* Everything of one run, as bits. */
typedef struct result {
    uint64_t attention, norm, kept, evicted;
    uint32_t flags;
    ckv_status status;
} result;

static modes usual;

static int is_subnormal_or_worse(uint32_t bits)
{
    uint32_t magnitude = bits & 0x7fffffffu;
    return (magnitude != 0 && magnitude < 0x00800000u) || magnitude >= 0x7f800000u || bits == 0x80000000u;
}

/* Handles are made in the mode as well: scale, reciprocals and weights come from there. */
static result run_in(test_problem inputs, modes mode, int *bad)
{
    result r = {0};
    test_problem *p = &inputs;
    set_modes(mode);
    r.status = test_problem_open(p);
    if (r.status == CKV_OK)
        r.status = test_stages(p);
    r.flags = p->run.flags;
    set_modes(usual);
    if (r.status != CKV_OK)
        return r;
    r.attention = test_hash_attention(p);
    r.norm = test_hash_norm(p);
    r.kept = test_hash_selection(p);
    for (int64_t h = 0; h < p->shape.kv_heads; h++)
        for (int64_t i = 0; i < p->shape.tokens; i++)
            *bad += is_subnormal_or_worse(test_bits(test_attention(p, h, i))) +
                    is_subnormal_or_worse(test_bits(test_norm_at(p, h, i)));
    memset(p->positions.data, 0, p->positions.size);
    set_modes(mode);
    r.status = test_evict(p);
    set_modes(usual);
    r.evicted = test_hash_selection(p);
    for (int t = 0; t < TEST_TENSORS; t++) /* these stay with the caller */
        memset(&p->tensor[t], 0, sizeof p->tensor[t]);
    test_problem_close(p);
    return r;
}

/* Both ways; the inputs are freed. */
static void check_problem(test_problem *p)
{
    int bad = 0;
    result off = run_in(*p, usual, &bad), on = run_in(*p, usual | FLUSH, &bad);
    if (off.status != CKV_OK)
        fail_msg("%s", ckv_error_detail());
    assert_int_equal(off.status, on.status);
    assert_int_equal(off.attention, on.attention);
    assert_int_equal(off.norm, on.norm);
    assert_int_equal(off.kept, on.kept);
    assert_int_equal(off.evicted, on.evicted);
    assert_int_equal(off.kept, off.evicted);
    assert_int_equal(off.flags, on.flags);
    assert_int_equal(bad, 0);
    for (int t = 0; t < TEST_TENSORS; t++)
        test_tensor_free(&p->tensor[t]);
}

static int need_modes(void)
{
    if (!MODES)
        printf("# skip: no flush-to-zero mode is known for this processor\n");
    return MODES;
}

/* ---------------------------------------------------------------- the modes are on */

static void test_modes_are_on(void **state)
{
    (void)state;
    if (!need_modes())
        skip();
    volatile float tiny = 0x1p-70f, least = 0x1p-126f, subnormal = 0x1p-130f, large = 0x1p20f;
    volatile float product, difference, operand; /* so that no operation leaves its mode */
    set_modes(usual | FLUSH);
    product = tiny * tiny;
    difference = least * 1.5f - least;
    operand = subnormal * large;
    set_modes(usual);
    assert_int_equal(test_bits(product), 0);
    assert_int_equal(test_bits(difference), 0);
    assert_int_equal(test_bits(operand), 0);
    assert_int_not_equal(test_bits(tiny * tiny), 0);
    assert_int_not_equal(test_bits(subnormal * large), 0);
}

/* What would happen to these inputs without the safeguards. */
static void test_safeguards_matter(void **state)
{
    (void)state;
    if (!need_modes())
        skip();
    volatile float q = 0x1p-70f, k = 0x1.8p-70f, wide = 0x1p40f, x = -0x1p-70f, eps = 0x1p-24f, norm = 0x1p-110f;
    volatile float weight = ckv_ref_exp(-60.0f) * 0x1p-22f, share = 0x1p-18f;
    volatile float chain[2], square[2], part[2], score[2];
    for (int on = 0; on < 2; on++) {
        set_modes(on ? usual | FLUSH : usual);
        chain[on] = fmaf(q, k, 0.0f) * wide * wide * wide; /* elements below 2^-39 not cut */
        square[on] = x * x;                                /* exp beyond -2^-26 without the short cut */
        part[on] = weight * share;                         /* window * group * width beyond 2^17 */
        score[on] = eps * norm;                            /* norms below 2^-100 not cut */
        set_modes(usual);
    }
    assert_int_not_equal(test_bits(chain[0]), test_bits(chain[1]));
    assert_int_not_equal(test_bits(square[0]), test_bits(square[1]));
    assert_int_not_equal(test_bits(part[0]), test_bits(part[1]));
    assert_int_not_equal(test_bits(score[0]), test_bits(score[1]));
}

/* ---------------------------------------------------------------- hostile inputs */

/* Elements of every kind that a number can be, most of them at an edge. */
static uint32_t hostile(test_random *random, ckv_dtype dtype, int mix)
{
    static const uint32_t edges[] = {0x00000001u, 0x007fffffu, 0x00800000u, 0x2bffffffu, 0x2c000000u, 0x2c000001u,
                                     0x53800000u, 0x53800001u, 0x537fffffu, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u,
                                     0x7f800001u, 0x00000000u, 0x3f800000u, 0x2b800000u, 0x32800000u};
    uint32_t word = (uint32_t)(test_next(random) >> 32);
    if (dtype != CKV_F32) {
        if (mix == 0) /* subnormals of the 16-bit formats */
            return (word & 0x8000u) | (word & (dtype == CKV_F16 ? 0x3ffu : 0x7fu));
        return mix == 1 ? word & 0xffffu : test_element(random, dtype, -14, 2);
    }
    switch (mix) {
    case 0:
        return edges[test_between(random, 0, (int64_t)(sizeof edges / sizeof edges[0]) - 1)] | (word & 0x80000000u);
    case 1:
        return word;
    case 2:
        return test_element(random, dtype, -39, -38);
    case 3:
        return test_element(random, dtype, 39, 40);
    case 4:
        return test_element(random, dtype, -39, 40);
    case 5:
        return test_element(random, dtype, -126, -30);
    case 6: /* neighbours, whose products nearly cancel */
        return (0x2c000000u + (word & 3u)) | (word & 0x80000000u);
    default:
        return test_element(random, dtype, -4, 2);
    }
}

/* Few outputs, whose weights get 10 bits; in some rounds so many that they get 7. */
static int32_t hidden_of(int round, test_random *random)
{
    return (round % 20 == 7 ? 1023 : 0) + (int32_t)test_between(random, 1, 6);
}

static void test_hostile_inputs(void **state)
{
    (void)state;
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F32, CKV_F16, CKV_BF16};
    const float scales[] = {0.0f, 0x1p-40f, 0x1p40f, 1.0f, 0x1.fffffep39f};
    test_random random = test_seed(200);
    if (!need_modes())
        skip();
    for (int round = 0; round < (test_light() ? 60 : 1200); round++) {
        test_problem p;
        int64_t n = test_between(&random, 2, 24);
        test_problem_init(&p, (int32_t)test_between(&random, 1, 2), (int32_t)test_between(&random, 1, 8), n,
                          test_between(&random, 1, 6), (int32_t)test_between(&random, 1, 6),
                          (int32_t)test_between(&random, 1, 6), hidden_of(round, &random));
        for (int t = 0; t < TEST_TENSORS; t++)
            p.dtype[t] = dtypes[test_between(&random, 0, 3)];
        p.policy.scale = scales[test_between(&random, 0, 4)];
        p.policy.epsilon = round % 2 == 0 ? 0x1p-24f : 1e-4f;
        p.policy.budget = test_between(&random, 1, n - 1);
        p.policy.alpha = (ckv_ratio){test_between(&random, 0, 2), 4};
        p.policy.window = (int32_t)test_between(&random, 1, 6);
        p.policy.recent = (int32_t)test_between(&random, 0, 2);
        p.policy.pool = (ckv_pool)test_between(&random, 0, 2);
        p.policy.pool_width = (int32_t)test_between(&random, 1, 5);
        test_problem_build(&p);
        for (int t = 0; t < TEST_TENSORS; t++) {
            const int64_t *shape = p.tensor[t].cells.shape;
            int mix = (int)test_between(&random, 0, 8);
            for (int64_t h = 0; h < shape[0]; h++)
                for (int64_t i = 0; i < shape[1]; i++)
                    for (int64_t c = 0; c < shape[2]; c++)
                        test_put_bits(&p.tensor[t], h, i, c,
                                      hostile(&random, p.dtype[t], mix == 8 ? (int)test_between(&random, 0, 7) : mix));
        }
        check_problem(&p);
    }
}

/* The processor's own word for it: no operation underflows, overflows or meets NaN, nor
 * (on x86, which tells) takes a subnormal operand.  Of queries the multiplication by the
 * scale may do so, since it comes before the cut; here they are such that it does not. */
static void test_no_exceptions(void **state)
{
    (void)state;
#if defined(__clang__) && (defined(__AVX2__) || defined(__aarch64__))
    skip_because("this compiler computes lanes that it then throws away, and those may raise exceptions");
#endif
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F32, CKV_F16, CKV_BF16};
    test_random random = test_seed(205);
    for (int round = 0; round < (test_light() ? 60 : 600); round++) {
        test_problem p;
        int64_t n = test_between(&random, 2, 24);
        test_problem_init(&p, (int32_t)test_between(&random, 1, 2), (int32_t)test_between(&random, 1, 8), n,
                          test_between(&random, 1, 6), (int32_t)test_between(&random, 1, 6),
                          (int32_t)test_between(&random, 1, 6), hidden_of(round, &random));
        p.policy.scale = 1.0f;
        p.policy.epsilon = 0x1p-24f;
        p.policy.budget = test_between(&random, 1, n - 1);
        p.policy.window = (int32_t)test_between(&random, 1, 6);
        p.policy.recent = 0;
        p.policy.pool = (ckv_pool)test_between(&random, 0, 2);
        for (int t = TEST_KEY; t < TEST_TENSORS; t++)
            p.dtype[t] = dtypes[test_between(&random, 0, 3)];
        test_problem_build(&p);
        for (int t = 0; t < TEST_TENSORS; t++) {
            const int64_t *shape = p.tensor[t].cells.shape;
            int mix = t == TEST_QUERY ? (int)test_between(&random, 2, 4) : (int)test_between(&random, 0, 7);
            for (int64_t at = 0; at < shape[0] * shape[1] * shape[2]; at++)
                test_put_bits(&p.tensor[t], at / (shape[1] * shape[2]), at / shape[2] % shape[1], at % shape[2],
                              hostile(&random, p.dtype[t], mix));
        }
        feclearexcept(FE_ALL_EXCEPT);
        set_modes(get_modes() & ~SUBNORMAL_OPERAND);
        ckv_status status = test_problem_open(&p);
        if (status == CKV_OK)
            status = test_stages(&p);
        int raised = fetestexcept(FE_UNDERFLOW | FE_OVERFLOW | FE_INVALID | FE_DIVBYZERO);
        int operand = (get_modes() & SUBNORMAL_OPERAND) != 0;
        assert_ok(status);
        assert_int_equal(raised, 0);
        assert_int_equal(operand, 0);
        test_problem_close(&p);
    }
}

/* window * group * width at its limit, weights at exp(-60), average pool: the smallest
 * attention there is. */
static void test_smallest_attention(void **state)
{
    (void)state;
    if (!need_modes())
        skip();
    const int32_t limits[][3] = {{1, 1, 1 << 17}, {1, 1 << 9, 1 << 8}, {1 << 6, 1 << 5, 1 << 6}, {1, 1 << 17, 1}};
    for (int c = 0; c < 4; c++) {
        test_problem p;
        int64_t w = limits[c][0], n = w + 40;
        if (test_light() && c == 3)
            continue;
        test_problem_init(&p, 1, limits[c][1], n, w, 1, 1, 1);
        p.policy.window = limits[c][0];
        p.policy.pool = CKV_POOL_AVERAGE;
        p.policy.pool_width = limits[c][2];
        p.policy.scale = 1.0f;
        p.policy.recent = 0;
        p.policy.epsilon = 0x1p-24f;
        p.policy.budget = 20;
        test_problem_build(&p);
        test_fill(&p.tensor[TEST_WEIGHT], 1.0f);
        for (int64_t i = 0; i < n; i++) { /* the prefix far below the window, all at the cut or past it */
            test_put(&p.tensor[TEST_VALUE], 0, i, 0, 0x1p-39f);
            test_put(&p.tensor[TEST_KEY], 0, i, 0, i >= n - w ? 0.0f : i % 3 == 1 ? -60.0f : -61.0f);
        }
        for (int64_t j = 0; j < w; j++)
            test_put(&p.tensor[TEST_QUERY], 0, j, 0, 1.0f);
        for (int64_t h = 1; h < limits[c][1]; h++) /* the other heads see nothing there */
            for (int64_t j = 0; j < w; j++)
                test_put(&p.tensor[TEST_QUERY], h, j, 0, 2.0f);
        check_problem(&p);
    }
}

/* Means over a group below 2^-100, where stage 2 would meet subnormal scores; the
 * numbers are those of test_norm's least norm, for weights of 10 and of 7 bits. */
static void check_smallest_norms(int32_t hidden, int32_t group)
{
    const int few = hidden < 1024;
    test_problem p;
    test_problem_init(&p, 1, group, 30, 1, 1, 2, hidden);
    p.policy.pool_width = 1;
    p.policy.epsilon = 0x1p-24f;
    p.policy.recent = 0;
    p.policy.alpha = (ckv_ratio){0, 1};
    p.policy.budget = 7;
    p.policy.scale = 1.0f;
    test_problem_build(&p);
    for (int64_t i = 0; i < 30; i++) {
        float grow = ldexpf(1.0f, (int)(i * 7 % 11));
        test_put(&p.tensor[TEST_VALUE], 0, i, 0, (few ? 2049.0f * 0x1p-50f : 16385.0f * 0x1p-53f) * grow);
        test_put(&p.tensor[TEST_VALUE], 0, i, 1, (few ? 2053.0f * 0x1p-50f : 16641.0f * 0x1p-53f) * grow);
        test_put(&p.tensor[TEST_KEY], 0, i, 0, i % 2 == 0 ? -61.0f : 0.0f);
    }
    test_fill(&p.tensor[TEST_QUERY], 1.0f);
    /* Of head 0: the others are zero. */
    test_put(&p.tensor[TEST_WEIGHT], 0, 0, 0, few ? 513.0f * 0x1p-48f : 65.0f * 0x1p-45f);
    test_put(&p.tensor[TEST_WEIGHT], 0, 0, 1, few ? -512.0f * 0x1p-48f : -64.0f * 0x1p-45f);
    check_problem(&p);
}

static void test_smallest_norms(void **state)
{
    (void)state;
    if (!need_modes())
        skip();
    for (int32_t group = 1; group <= 512; group *= 2)
        check_smallest_norms(1, group);
    for (int32_t group = 1; group <= (test_light() ? 4 : 64); group *= 4)
        check_smallest_norms(1024, group);
}

/* A caller's own scores may be subnormal; selection reads them alike in both modes. */
static void test_foreign_scores(void **state)
{
    (void)state;
    test_random random = test_seed(210);
    if (!need_modes())
        skip();
    for (int round = 0; round < (test_light() ? 50 : 1000); round++) {
        test_problem p;
        uint64_t want;
        int64_t n = test_between(&random, 2, 30);
        test_problem_init_select(&p, 1, n, test_between(&random, 1, n - 1));
        p.policy.alpha = (ckv_ratio){test_between(&random, 0, 2), 4};
        p.policy.epsilon = round % 2 == 0 ? 0x1p-24f : 1.0f;
        assert_ok(test_problem_open(&p));
        for (int64_t i = 0; i < n; i++) {
            uint32_t a = hostile(&random, CKV_F32, (int)test_between(&random, 0, 5));
            uint32_t b = hostile(&random, CKV_F32, (int)test_between(&random, 0, 5));
            if (round % 3 == 0) { /* subnormals and the norms around 2^-100 */
                a = (uint32_t)test_between(&random, 0, 0x00900000);
                b = 0x0d800000u + (uint32_t)test_between(&random, -9, 9) -
                    (uint32_t)(test_between(&random, 0, 9) << 23);
            }
            test_put_bits(&p.attention, 0, 0, i, a);
            test_put_bits(&p.norm, 0, 0, i, b);
        }
        assert_ok(test_select(&p));
        want = test_hash_selection(&p);
        set_modes(usual | FLUSH);
        ckv_status status = test_select(&p);
        set_modes(usual);
        assert_ok(status);
        assert_int_equal(test_hash_selection(&p), want);
        test_problem_close(&p);
    }
}

/* The exponential itself, over its whole range. */
static void test_exponential(void **state)
{
    (void)state;
    if (!need_modes())
        skip();
    uint32_t first = test_bits(-0x1p-26f), last = test_bits(-60.0f), step = test_light() ? 100003 : 1009;
    for (uint32_t u = first; u <= last; u += step) {
        float off = ckv_ref_exp(test_float(u));
        set_modes(usual | FLUSH);
        float on = ckv_ref_exp(test_float(u));
        set_modes(usual);
        assert_int_equal(test_bits(off), test_bits(on));
        assert_false(is_subnormal_or_worse(test_bits(off)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes_are_on),       cmocka_unit_test(test_safeguards_matter),
        cmocka_unit_test(test_hostile_inputs),     cmocka_unit_test(test_no_exceptions),
        cmocka_unit_test(test_smallest_attention), cmocka_unit_test(test_smallest_norms),
        cmocka_unit_test(test_foreign_scores),     cmocka_unit_test(test_exponential),
    };
    usual = get_modes();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
