/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of ckv verify: what problems are drawn, what counts as a difference, how a
 * problem is cut, made smaller, saved and read. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "tools/verify_digest.h"
#include "tools/verify_file.h"
#include "tools/verify_place.h"
#include "tools/verify_shrink.h"

static ckv_context *reference(void)
{
    ckv_context_options options;
    ckv_context *context;
    ckv_context_options_init(&options);
    options.backend = "ref";
    assert_ok(ckv_context_create(&options, &context));
    return context;
}

static size_t cell_bytes(const struct verify_problem *p, int input)
{
    return (size_t)verify_count(p, (enum verify_input)input) * ckv_dtype_size(p->dtype[input]);
}

static int same_problem(const struct verify_problem *a, const struct verify_problem *b)
{
    int same = memcmp(a->axis, b->axis, sizeof a->axis) == 0 && memcmp(&a->policy, &b->policy, sizeof a->policy) == 0 &&
               memcmp(a->place, b->place, sizeof a->place) == 0 && memcmp(a->to, b->to, sizeof a->to) == 0 &&
               a->threads == b->threads && a->moves_keys == b->moves_keys && a->as_bytes == b->as_bytes &&
               a->in_place == b->in_place && a->spare == b->spare;
    for (int i = 0; same && i < VERIFY_INPUTS; i++)
        same = (a->cells[i] == NULL) == (b->cells[i] == NULL) &&
               (a->cells[i] == NULL ||
                (a->dtype[i] == b->dtype[i] && memcmp(a->cells[i], b->cells[i], cell_bytes(a, i)) == 0));
    return same;
}

/* ---------------------------------------------------------------- drawing */

static void test_same_seed_same_problems(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 40; number++) {
        struct verify_problem one, two, other;
        assert_true(verify_draw(&one, 3, number) && verify_draw(&two, 3, number) && verify_draw(&other, 4, number));
        assert_true(same_problem(&one, &two));
        assert_false(same_problem(&one, &other));
        verify_free(&one);
        verify_free(&two);
        verify_free(&other);
    }
}

/* What was seen of all that there is to see. */
typedef struct seen {
    int kinds[ARRANGEMENTS], outs[ARRANGE_APART], dtypes[8], pools[3], threads[8], specials, crowds, ties;
    int budget_all, budget_none, by_share, skip, no_skip, in_place, as_bytes, keys, own, one_token, many_tokens,
        long_ones;
    int seven_bits, odd_group, unequal_dims, unrelated_hidden, great_epsilon, scale, offsets;
} seen;

static void look(const struct verify_problem *p, seen *s)
{
    const int64_t *a = p->axis;
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        int64_t specials = 0;
        s->kinds[p->place[i].kind]++;
        s->offsets += p->place[i].offset % 2;
        s->dtypes[p->dtype[i]]++;
        for (int64_t at = 0;
             p->cells[i] != NULL && p->dtype[i] == CKV_F32 && at < verify_count(p, (enum verify_input)i); at++) {
            const uint32_t *word = p->cells[i];
            specials += (word[at] & 0x7f800000u) == 0x7f800000u;
            s->ties += at > 0 && word[at] == word[at - 1];
        }
        s->specials += specials > 0;
        s->crowds += i < VERIFY_ATTENTION && specials > verify_count(p, (enum verify_input)i) / 10;
    }
    for (int i = 0; i < VERIFY_OUTPUTS; i++)
        s->outs[p->to[i].kind]++;
    s->pools[p->policy.pool]++;
    s->threads[p->threads]++;
    s->budget_all += p->policy.budget >= a[VERIFY_TOKENS];
    s->budget_none += p->policy.budget == 0;
    s->by_share += p->policy.budget < 0;
    s->skip += p->policy.skip == 1;
    s->no_skip += p->policy.skip == 0;
    s->in_place += p->in_place;
    s->as_bytes += p->as_bytes;
    s->keys += p->moves_keys;
    s->own += p->cells[VERIFY_ATTENTION] != NULL;
    s->one_token += a[VERIFY_TOKENS] == 1;
    s->many_tokens += a[VERIFY_TOKENS] > 300;
    s->long_ones += a[VERIFY_TOKENS] > 1500;
    s->seven_bits += a[VERIFY_HIDDEN] >= 1024;
    s->odd_group += a[VERIFY_GROUP] % 2 == 1 && a[VERIFY_GROUP] > 1;
    s->unequal_dims += a[VERIFY_HEAD_DIM] != a[VERIFY_VALUE_DIM];
    s->unrelated_hidden += a[VERIFY_HIDDEN] != a[VERIFY_KV_HEADS] * a[VERIFY_GROUP] * a[VERIFY_VALUE_DIM];
    s->great_epsilon += p->policy.epsilon == 1.0f;
    s->scale += p->policy.scale != 0.0f;
}

static void test_everything_is_drawn(void **state)
{
    seen s;
    (void)state;
    memset(&s, 0, sizeof s);
    for (uint64_t number = 0; number < 400; number++) {
        struct verify_problem p;
        assert_true(verify_draw(&p, 1, number));
        assert_true(verify_work(&p) < 2e8);
        look(&p, &s);
        verify_free(&p);
    }
    for (int i = 0; i < ARRANGEMENTS; i++)
        assert_true(s.kinds[i] > 5);
    for (int i = 0; i < ARRANGE_APART; i++)
        assert_true(s.outs[i] > 5);
    for (int i = CKV_F32; i <= CKV_BF16; i++)
        assert_true(s.dtypes[i] > 50);
    for (int i = 0; i < 3; i++)
        assert_true(s.pools[i] > 50);
    assert_true(s.threads[1] > 50 && s.threads[2] > 50 && s.threads[3] > 50 && s.threads[7] > 50);
    assert_true(s.specials > 50 && s.crowds > 5 && s.ties > 1000);
    assert_true(s.budget_all > 5 && s.budget_none > 5 && s.by_share > 20 && s.skip > 50 && s.no_skip > 50);
    assert_true(s.in_place > 20 && s.as_bytes > 20 && s.keys > 50 && s.own > 50 && s.offsets > 50);
    assert_true(s.one_token > 5 && s.many_tokens > 20 && s.long_ones > 10 && s.seven_bits > 20);
    assert_true(s.odd_group > 50 && s.unequal_dims > 300 && s.unrelated_hidden > 300);
    assert_true(s.great_epsilon > 3 && s.scale > 20);
}

/* Elements that share bytes hold what is read there. */
static void test_shared_bytes_agree(void **state)
{
    int shared = 0;
    (void)state;
    for (uint64_t number = 0; number < 60; number++) {
        struct verify_problem p;
        assert_true(verify_draw(&p, 9, number));
        for (int i = 0; i < VERIFY_INPUTS; i++) {
            void *before;
            if (p.cells[i] == NULL || p.place[i].kind < ARRANGE_APART)
                continue;
            before = malloc(cell_bytes(&p, i));
            assert_non_null(before);
            memcpy(before, p.cells[i], cell_bytes(&p, i));
            assert_true(verify_settle(&p, (enum verify_input)i));
            assert_memory_equal(before, p.cells[i], cell_bytes(&p, i));
            free(before);
            shared++;
        }
        verify_free(&p);
    }
    assert_true(shared > 20);
}

/* ---------------------------------------------------------------- comparing */

/* One bit of any block, a flag, a stray byte: each is a difference, and nothing else is. */
static void test_each_difference_shows(void **state)
{
    struct verify_result want[VERIFY_STAGES], got[VERIFY_STAGES];
    ckv_context *context = reference();
    struct verify_problem p;
    char text[VERIFY_TEXT];
    (void)state;
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    assert_true(verify_draw(&p, 1, 0) && verify_complete(context, &p));
    assert_true(verify_solve(context, NULL, &p, VERIFY_ALL, VERIFY_PLAIN, want));
    assert_true(verify_solve(context, NULL, &p, VERIFY_ALL, VERIFY_PLACED, got));
    for (int i = 0; i < VERIFY_STAGES; i++) {
        const enum verify_stage stage = (enum verify_stage)i;
        assert_ok(want[i].status);
        assert_true(verify_bits(&want[i]) > 0);
        assert_true(verify_same(stage, &want[i], &got[i], text));
        for (int b = 0; b < VERIFY_BLOCKS && got[i].block[b].cells != NULL; b++) {
            got[i].block[b].cells[0] ^= 0x10;
            assert_false(verify_same(stage, &want[i], &got[i], text));
            assert_non_null(strstr(text, want[i].block[b].name));
            got[i].block[b].cells[0] ^= 0x10;
        }
        got[i].flags ^= CKV_NONFINITE_VALUE;
        assert_false(verify_same(stage, &want[i], &got[i], text));
        assert_non_null(strstr(text, "flags"));
        got[i].flags ^= CKV_NONFINITE_VALUE;
        got[i].stray = "a byte";
        assert_false(verify_same(stage, &want[i], &got[i], text));
        assert_non_null(strstr(text, "a byte"));
        got[i].stray = NULL;
        got[i].status = CKV_ERROR_DEVICE;
        assert_false(verify_same(stage, &want[i], &got[i], text));
    }
    verify_results_free(want);
    verify_results_free(got);
    verify_free(&p);
    ckv_context_destroy(context);
}

/* A byte outside of the cells is seen, whatever the layout. */
static void test_stray_bytes_show(void **state)
{
    const int64_t extent[3] = {2, 3, 4};
    (void)state;
    for (int kind = 0; kind < ARRANGE_APART; kind++) {
        const struct verify_place place = {(enum arrangement)kind, 3};
        unsigned char cells[96], back[96];
        struct verify_memory m;
        int outside = 0;
        for (size_t i = 0; i < sizeof cells; i++)
            cells[i] = (unsigned char)(i + 1);
        assert_true(verify_memory_place(&m, &place, 4, extent, 0));
        verify_memory_remember(&m);
        verify_memory_put(&m, cells);
        verify_memory_get(&m, 3, back);
        assert_memory_equal(cells, back, sizeof cells);
        assert_false(verify_memory_unchanged(&m));
        verify_memory_restore(&m, 3);
        assert_true(verify_memory_unchanged(&m));
        for (size_t i = 0; i < m.whole; i++) {
            m.memory[i] ^= 1;
            verify_memory_restore(&m, 3);
            outside += !verify_memory_unchanged(&m);
            m.memory[i] = m.before[i];
        }
        assert_int_equal(outside, (int)m.whole - 96);
        verify_memory_free(&m);
    }
}

/* ---------------------------------------------------------------- cutting */

/* Each element of a cut is the one that its place in the whole had. */
static void test_cut(void **state)
{
    struct verify_problem p, part;
    (void)state;
    memset(&p, 0, sizeof p);
    for (int axis = 0; axis < VERIFY_AXES; axis++)
        p.axis[axis] = 3 + axis;
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        p.dtype[i] = CKV_F32;
        assert_true(verify_allocate(&p, (enum verify_input)i));
        for (int64_t at = 0; at < verify_count(&p, (enum verify_input)i); at++)
            ((uint32_t *)p.cells[i])[at] = (uint32_t)at;
    }
    for (int axis = 0; axis < VERIFY_AXES; axis++) {
        assert_true(verify_cut(&part, &p, (enum verify_axis)axis, 1, 2));
        for (int i = 0; i < VERIFY_INPUTS; i++) {
            /* Places in the whole by mixed radix: digits of the part, that of the axis one higher. */
            for (int64_t at = 0; at < verify_count(&part, (enum verify_input)i); at++) {
                int64_t rest = at, place = 0, weight = 1;
                for (int k = 3; k >= 0; k--) {
                    const enum verify_axis a = verify_axes[i][k];
                    const int64_t length = a == VERIFY_AXES ? 1 : part.axis[a],
                                  whole = a == VERIFY_AXES ? 1 : p.axis[a];
                    place += weight * (rest % length + (a == (enum verify_axis)axis ? 1 : 0));
                    rest /= length;
                    weight *= whole;
                }
                assert_int_equal(((uint32_t *)part.cells[i])[at], place);
            }
        }
        verify_free(&part);
    }
    assert_true(verify_cut(&part, &p, VERIFY_HEAD_DIM, 0, 0));
    assert_null(part.cells[VERIFY_QUERY]);
    assert_null(part.cells[VERIFY_KEY]);
    assert_non_null(part.cells[VERIFY_VALUE]);
    verify_free(&part);
    verify_free(&p);
}

/* ---------------------------------------------------------------- making smaller */

/* A defect that wants some tokens, heads in a group, a window, a dtype and an outlier. */
typedef struct defect {
    int64_t tokens, group;
    int bf16, window, outlier, odd, calls;
} defect;

static bool has_outlier(const struct verify_problem *p)
{
    for (int64_t i = 0; i < verify_count(p, VERIFY_KEY); i++)
        if ((((const uint16_t *)p->cells[VERIFY_KEY])[i] & 0x7f80u) == 0x7f80u)
            return true;
    return false;
}

static bool shows(void *context, const struct verify_problem *p)
{
    defect *d = context;
    d->calls++;
    return p->axis[VERIFY_TOKENS] >= d->tokens && p->axis[VERIFY_GROUP] >= d->group && p->policy.window >= d->window &&
           (!d->bf16 || p->dtype[VERIFY_KEY] == CKV_BF16) && (!d->outlier || has_outlier(p)) &&
           (!d->odd || p->place[VERIFY_QUERY].kind == ARRANGE_ODD);
}

static void draw_defective(struct verify_problem *p, uint64_t number)
{
    assert_true(verify_draw(p, 2, number));
    p->axis[VERIFY_TOKENS] = 130;
    p->axis[VERIFY_GROUP] = 5;
    p->dtype[VERIFY_KEY] = CKV_BF16;
    p->place[VERIFY_KEY] = (struct verify_place){ARRANGE_TRANSPOSED, 5};
    p->place[VERIFY_QUERY] = (struct verify_place){ARRANGE_ODD, 0};
    p->policy.window = 9;
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        assert_true(verify_allocate(p, (enum verify_input)i));
        assert_true(verify_settle(p, (enum verify_input)i));
    }
    ((uint16_t *)p->cells[VERIFY_KEY])[verify_count(p, VERIFY_KEY) / 2] = 0x7fc0;
}

static void test_shrinks_to_the_defect(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 4; number++) {
        defect d = {.tokens = 37, .group = 2, .bf16 = 1, .window = 3, .outlier = 1, .odd = number % 2 == 1};
        struct verify_shrink shrink = {shows, &d, 5000, 30, 0, NULL};
        struct verify_problem p, again;
        draw_defective(&p, number);
        draw_defective(&again, number);
        assert_true(verify_shrink(&shrink, VERIFY_SCORE, &p));
        assert_true(shows(&d, &p));
        assert_int_equal(p.axis[VERIFY_TOKENS], 37);
        assert_int_equal(p.axis[VERIFY_GROUP], 2);
        assert_int_equal(p.axis[VERIFY_KV_HEADS], 1);
        assert_int_equal(p.axis[VERIFY_QUERIES], 1);
        assert_int_equal(p.axis[VERIFY_HEAD_DIM], 1);
        assert_int_equal(p.axis[VERIFY_VALUE_DIM], 0);
        assert_int_equal(p.axis[VERIFY_HIDDEN], 0);
        assert_int_equal(p.policy.window, 3);
        assert_int_equal(p.policy.pool, CKV_POOL_NONE);
        assert_int_equal(p.threads, 1);
        assert_int_equal(p.dtype[VERIFY_KEY], CKV_BF16);
        assert_int_equal(p.dtype[VERIFY_QUERY], CKV_F32);
        assert_int_equal(p.place[VERIFY_KEY].kind, ARRANGE_DENSE);
        assert_int_equal(p.place[VERIFY_KEY].offset, 0);
        assert_int_equal(p.place[VERIFY_QUERY].kind, d.odd ? ARRANGE_ODD : ARRANGE_DENSE);
        assert_null(p.cells[VERIFY_VALUE]);
        /* One number that is not plain is left. */
        for (int64_t i = 0, plain = 0; i < 37; i++) {
            plain += ((uint16_t *)p.cells[VERIFY_KEY])[i] == 0x3f80;
            assert_true(i < 36 || plain == 36);
        }
        assert_int_equal(d.calls, shrink.tries + 1);
        /* The same steps. */
        shrink.tries = 0;
        assert_true(verify_shrink(&shrink, VERIFY_SCORE, &again));
        assert_true(same_problem(&p, &again));
        verify_free(&p);
        verify_free(&again);
    }
}

/* It ends after so many tries, with a problem that still shows the defect. */
static void test_shrinking_ends(void **state)
{
    (void)state;
    for (int most = 0; most < 30; most += 7) {
        defect d = {.tokens = 12, .group = 1};
        struct verify_shrink shrink = {shows, &d, most, 30, 0, NULL};
        struct verify_problem p;
        draw_defective(&p, 1);
        assert_true(verify_shrink(&shrink, VERIFY_SCORE, &p));
        assert_int_equal(shrink.tries, most);
        assert_true(shows(&d, &p));
        verify_free(&p);
    }
}

static int asked;

static int stopped_soon(void)
{
    return ++asked > 9;
}

/* Whoever says so ends it, and what there is by then still differs. */
static void test_shrinking_is_stopped(void **state)
{
    (void)state;
    defect d = {.tokens = 12, .group = 1};
    struct verify_shrink shrink = {shows, &d, 5000, 30, 0, stopped_soon};
    struct verify_problem p;
    asked = 0;
    draw_defective(&p, 1);
    assert_true(verify_shrink(&shrink, VERIFY_SCORE, &p));
    assert_in_range(shrink.tries, 1, 9);
    assert_true(shows(&d, &p));
    verify_free(&p);
}

/* ---------------------------------------------------------------- files */

static void test_file_round_trip(void **state)
{
    char path[] = "/tmp/ckv-verify-XXXXXX";
    ckv_context *context = reference();
    int file = mkstemp(path);
    (void)state;
    assert_true(file >= 0);
    close(file);
    for (uint64_t number = 0; number < 24; number++) {
        struct verify_case found = {
            .stage = (enum verify_stage)(number % VERIFY_STAGES), .backend = "cpu", .device = "0"};
        struct verify_case back;
        struct verify_problem p, read;
        snprintf(found.variant, sizeof found.variant, "isa=avx2");
        snprintf(found.parameters, sizeof found.parameters, "isa=avx2,norm_block=96");
        snprintf(found.origin, sizeof found.origin, "problem %d", (int)number);
        snprintf(found.difference, sizeof found.difference, "\"quoted\" \\ and more");
        assert_true(verify_draw(&p, 6, number) && verify_complete(context, &p));
        assert_true(verify_file_write(path, &p, &found));
        assert_true(verify_file_read(path, &read, &back));
        assert_true(same_problem(&p, &read));
        assert_memory_equal(&found, &back, sizeof found);
        verify_free(&p);
        verify_free(&read);
    }
    unlink(path);
    ckv_context_destroy(context);
}

/* ---------------------------------------------------------------- the digest */

/* Every bit that the reference gave is in it, in the order of problems. */
static void test_digest(void **state)
{
    struct verify_result results[2][VERIFY_STAGES];
    ckv_context *context = reference();
    char text[5][VERIFY_DIGEST];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct verify_problem p;
        memset(results[i], 0, sizeof results[i]);
        assert_true(verify_draw(&p, 1, (uint64_t)i) && verify_complete(context, &p));
        assert_true(verify_solve(context, NULL, &p, VERIFY_ALL, VERIFY_PLAIN, results[i]));
        verify_free(&p);
    }
    for (int i = 0; i < 5; i++) {
        struct verify_digest *digest = verify_digest_new();
        assert_non_null(digest);
        results[1][VERIFY_EVICT].block[0].cells[0] ^= i == 2;
        results[1][VERIFY_NORM].flags ^= (uint32_t)(i == 3);
        verify_digest_add(digest, results[i == 4]);
        verify_digest_add(digest, results[i != 4]);
        verify_digest_text(digest, text[i]);
        results[1][VERIFY_EVICT].block[0].cells[0] ^= i == 2;
        results[1][VERIFY_NORM].flags ^= (uint32_t)(i == 3);
        verify_digest_free(digest);
    }
    assert_string_equal(text[0], text[1]);
    for (int i = 2; i < 5; i++)
        assert_string_not_equal(text[0], text[i]);
    verify_results_free(results[0]);
    verify_results_free(results[1]);
    ckv_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed_same_problems),
        cmocka_unit_test(test_everything_is_drawn),
        cmocka_unit_test(test_shared_bytes_agree),
        cmocka_unit_test(test_each_difference_shows),
        cmocka_unit_test(test_stray_bytes_show),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_shrinks_to_the_defect),
        cmocka_unit_test(test_shrinking_ends),
        cmocka_unit_test(test_shrinking_is_stopped),
        cmocka_unit_test(test_file_round_trip),
        cmocka_unit_test(test_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
