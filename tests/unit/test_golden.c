/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed problems give the bits that tests/golden/reference.txt records, on every
 * machine and by every compiler.  After a change of docs/specification.md that changes
 * bits, write the file anew and look at the difference:
 *   CKV_UPDATE_GOLDEN=1 make check TESTS=tests/unit/test_golden
 */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "backends/ref/ref.h"
#include "golden.h"
#include "numeric.h"
#include "plan.h"

static void open_file(FILE **file, const char *mode)
{
    char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/reference.txt", top == NULL ? "." : top);
    *file = fopen(path, mode);
    if (*file == NULL)
        fail_msg("cannot open %s", path);
}

static void test_recorded_bits(void **state)
{
    (void)state;
    char want[GOLDEN_LINE], got[GOLDEN_LINE];
    const char *update = getenv("CKV_UPDATE_GOLDEN");
    int differ = 0;
    FILE *file;
    if (update != NULL && strcmp(update, "1") == 0) {
        open_file(&file, "w");
        for (int i = 0; i < golden_lines; i++) {
            golden_line(i, got);
            fprintf(file, "%s\n", got);
        }
        fclose(file);
        print_message("# tests/golden/reference.txt is written anew\n");
    }
    open_file(&file, "r");
    for (int i = 0; i < golden_lines; i++) {
        if (fgets(want, sizeof want, file) == NULL)
            want[0] = '\0';
        if (golden_is_long(i) && test_light())
            continue;
        golden_line(i, got);
        want[strcspn(want, "\n")] = '\0';
        if (strcmp(got, want) != 0) {
            print_message("# recorded: %s\n# computed: %s\n", want, got);
            differ++;
        }
    }
    assert_int_equal(differ, 0);
    assert_null(fgets(want, sizeof want, file));
    fclose(file);
}

/* The pipeline gives what the stages give. */
static void test_pipeline(void **state)
{
    (void)state;
    for (int i = 0; i < golden_count; i++) {
        test_problem p;
        if (golden_is_long(i) && test_light())
            continue;
        golden_open(i, &p);
        assert_ok(test_stages(&p));
        uint64_t want = test_hash_selection(&p);
        memset(p.positions.data, 0, p.positions.size);
        memset(p.workspace.data, 0xff, p.workspace.size);
        assert_ok(test_evict(&p));
        assert_int_equal(test_hash_selection(&p), want);
        assert_true(test_all_intact(&p));
        test_problem_close(&p);
    }
}

/* ---------------------------------------------------------------- written again */

/* Spec 4 once more, with one sum turned round or fused otherwise: the problems must
 * tell those apart, or the record would not notice a backend that goes wrong there. */
enum turn {
    NOTHING,
    CHANNELS, /* the logit's chain */
    QUERIES,  /* the mean over the window */
    POOL,     /* the sum of an average pool */
    HEADS,    /* the mean over the group */
    UNFUSED,  /* the logit's products rounded */
    FUSED,    /* an average pool's share added unrounded */
    TURNS
};

static int64_t turned(int64_t i, int64_t count, int reverse)
{
    return reverse ? count - 1 - i : i;
}

static float logit(const test_problem *p, enum turn turn, int64_t h, int64_t j, int64_t i)
{
    int64_t d = p->shape.head_dim, first = p->shape.queries - p->info.window;
    float l = 0.0f;
    for (int64_t c = 0; c < d; c++) {
        int64_t at = turned(c, d, turn == CHANNELS);
        float q = (float)test_get(&p->tensor[TEST_QUERY], h, first + j, at) * p->plan->scale;
        float k = (float)test_get(&p->tensor[TEST_KEY], h / p->plan->group, i, at);
        q = fabsf(q) < 0x1p-39f ? 0.0f : q; /* nothing here is NaN or above 2^40 */
        k = fabsf(k) < 0x1p-39f ? 0.0f : k;
        if (turn == UNFUSED) {
            volatile float product = q * k;
            l = l + product;
        } else {
            l = fmaf(q, k, l);
        }
    }
    return l;
}

/* Adds e * r of every window row to mean[n]; e [w][n] and r [w] are scratch. */
static void mean_of_head(const test_problem *p, enum turn turn, int64_t h, float *e, float *r, float *mean)
{
    int64_t n = p->info.tokens, w = p->info.window;
    for (int64_t j = 0; j < w; j++) {
        int64_t visible = n - w + j + 1, sum = 0;
        float top = -INFINITY;
        for (int64_t i = 0; i < visible; i++) {
            e[j * n + i] = logit(p, turn, h, j, i);
            top = fmaxf(top, e[j * n + i]);
        }
        for (int64_t i = 0; i < n; i++) {
            float x = i < visible ? e[j * n + i] - top : -100.0f;
            e[j * n + i] = x < -60.0f ? 0.0f : ckv_ref_exp(x);
            sum += ckv_rne(e[j * n + i], 40);
        }
        r[j] = ckv_inverse(sum) * p->plan->window_inverse;
    }
    for (int64_t i = 0; i < n; i++) {
        mean[i] = 0.0f;
        for (int64_t j = 0; j < w; j++) {
            int64_t at = turned(j, w, turn == QUERIES);
            mean[i] = fmaf(e[at * n + i], r[at], mean[i]);
        }
    }
}

/* Before the average is divided. */
static float pooled(const test_problem *p, const float *mean, enum turn turn, int64_t i)
{
    int64_t prefix = p->info.tokens - p->info.window, width = p->plan->pool_width;
    float x = 0.0f;
    for (int64_t o = 0; o < width; o++) {
        int64_t at = i - width / 2 + turned(o, width, turn == POOL);
        if (at < 0 || at >= prefix)
            continue;
        x = p->plan->pool == CKV_POOL_AVERAGE ? x + mean[at] : fmaxf(x, mean[at]);
    }
    return x;
}

static uint64_t score_again(const test_problem *p, enum turn turn)
{
    int64_t n = p->info.tokens, w = p->info.window;
    int32_t group = p->plan->group;
    float *e = calloc((size_t)(n * w), sizeof *e), *r = calloc((size_t)w, sizeof *r);
    float *mean = calloc((size_t)(n * group), sizeof *mean);
    assert_true(e != NULL && r != NULL && mean != NULL);
    for (int32_t g = 0; g < p->shape.kv_heads; g++) {
        for (int32_t h = 0; h < group; h++)
            mean_of_head(p, turn, g * group + h, e, r, mean + h * n);
        for (int64_t i = 0; i < n; i++) {
            float sum = 0.0f;
            for (int32_t h = 0; h < group && i < n - w; h++) {
                const float *row = mean + turned(h, group, turn == HEADS) * n;
                float share = p->plan->pool == CKV_POOL_AVERAGE ? p->plan->pool_inverse : 1.0f;
                if (turn == FUSED)
                    sum = fmaf(pooled(p, row, turn, i), share, sum);
                else
                    sum = sum + pooled(p, row, turn, i) * share;
            }
            sum = sum * p->plan->group_inverse;
            test_put_bits(&p->attention, 0, g, i, test_bits(sum));
        }
    }
    free(e);
    free(r);
    free(mean);
    return test_hash_attention(p);
}

static void test_orders_tell(void **state)
{
    (void)state;
    int differ[TURNS] = {0};
    for (int i = 0; i < golden_count; i++) {
        test_problem p;
        if (golden_is_long(i) && test_light())
            continue;
        golden_open(i, &p);
        assert_ok(test_score(&p));
        uint64_t want = test_hash_attention(&p);
        for (int turn = NOTHING; turn < TURNS; turn++)
            differ[turn] += score_again(&p, (enum turn)turn) != want;
        test_problem_close(&p);
    }
    assert_int_equal(differ[NOTHING], 0);
    for (int turn = NOTHING + 1; turn < TURNS; turn++) {
        print_message("# change %d: %d of %d problems differ\n", turn, differ[turn], golden_count);
        assert_true(differ[turn] >= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_bits),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_orders_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
