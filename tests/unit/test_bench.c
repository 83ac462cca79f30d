/* SPDX-License-Identifier: Apache-2.0 */
/* ckv bench: the work that it counts, and what it makes of repeated times. */
#include "unit.h"

#include "bench/timing.h"
#include "bench/work.h"

/* 4 query and 2 KV heads, 100 tokens, d 8, dv 16, D 32; K in two bytes, V in four. */
static struct layer small_layer(void)
{
    struct layer layer;

    memset(&layer, 0, sizeof layer);
    layer.query_heads = 4;
    layer.kv_heads = 2;
    layer.tokens = 100;
    layer.queries = 5;
    layer.head_dim = 8;
    layer.value_dim = 16;
    layer.hidden = 32;
    layer.query.dtype = CKV_F32;
    layer.key.dtype = CKV_BF16;
    layer.value.dtype = CKV_F32;
    return layer;
}

static void expect_work(enum bench_stage stage, enum bound bound, double macs, double bytes)
{
    struct layer layer = small_layer();
    struct work work = work_of(stage, &layer, 5, 40);

    assert_int_equal(work.bound, bound);
    assert_true(work.macs == macs);
    assert_true(work.bytes == bytes);
}

static void test_counts_by_hand(void **state)
{
    (void)state;
    /* 4 heads x 5 queries x 100 keys x 8; K 2*100*8*2, Q 4*5*8*4, attention 2*100*4. */
    expect_work(BENCH_SCORE, BOUND_FMA, 16000, 3200 + 640 + 800);
    /* 4 heads x 100 rows x 16 x 32; V 2*100*16*4, W_O 4*16*32*2, norms 2*100*4. */
    expect_work(BENCH_NORM, BOUND_INTEGER, 204800, 12800 + 4096 + 800);
    /* One product an entry; two numbers of four bytes read, 2 x 40 positions written. */
    expect_work(BENCH_SELECT, BOUND_READ, 200, 1600 + 320);
    /* 2 x 40 rows of 8*2 and 16*4 bytes, read and written. */
    expect_work(BENCH_COMPACT, BOUND_COPY, 0, 2 * 80 * 80);
    expect_work(BENCH_LAYER, BOUND_INTEGER, 16000 + 204800 + 200, 4640 + 17696 + 1920);
}

static void test_counts_of_a_known_model(void **state)
{
    struct layer layer = small_layer();
    struct work work;

    (void)state;
    layer.query_heads = 32;
    layer.kv_heads = 8;
    layer.head_dim = layer.value_dim = 128;
    layer.hidden = 4096;
    layer.tokens = 16384;
    layer.key.dtype = layer.value.dtype = CKV_BF16;
    work = work_of(BENCH_NORM, &layer, 32, 6553);
    assert_true(work.macs == 274877906944.0); /* 2^38 */
    assert_true(work_amount(&work) == work.macs);
    work = work_of(BENCH_SCORE, &layer, 32, 6553);
    assert_true(work.macs == 2147483648.0); /* 2^31 */
    work = work_of(BENCH_COMPACT, &layer, 32, 6553);
    assert_true(work_amount(&work) == 2.0 * 8 * 6553 * 512);
}

static void test_order_statistics(void **state)
{
    double odd[] = {5, 1, 4, 2, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
    struct times times;

    (void)state;
    timing_summarise(odd, 5, &times);
    assert_true(times.median == 3 && times.least == 1 && times.most == 5 && times.lower == 2 && times.upper == 4);
    assert_int_equal(times.repeats, 5);
    assert_true(timing_spread(&times) == 1.0 / 3);
    timing_summarise(even, 4, &times);
    assert_true(times.median == 2.5 && times.lower == 1.75 && times.upper == 3.25);
    timing_summarise(one, 1, &times);
    assert_true(times.median == 7 && times.least == 7 && times.most == 7 && timing_spread(&times) == 0);
    timing_summarise(one, 0, &times);
    assert_int_equal(times.repeats, 0);
}

/* One of two things that take turns: how often it ran, and when last. */
struct turn {
    int *clock;
    int runs, last, before;
    int out_of_turn;
    struct turn *other;
    bool fails;
};

static bool take_turn(void *argument)
{
    struct turn *turn = argument;

    turn->out_of_turn += turn->other != NULL && turn->runs > 0 && turn->other->last < turn->last;
    turn->runs++;
    turn->last = ++*turn->clock;
    return !turn->fails;
}

static void count_before(const void *argument)
{
    (*(int *const *)argument)[0]++;
}

static void test_items_take_turns(void **state)
{
    int clock = 0, before = 0, *counter = &before;
    struct turn a = {.clock = &clock}, b = {.clock = &clock, .other = &a};
    struct timed items[2] = {{.run = take_turn, .argument = &a},
                             {.run = take_turn, .argument = &b, .before = count_before, .before_argument = &counter}};
    const struct effort effort = {4, 0, 10};

    (void)state;
    a.other = &b;
    assert_true(timing_measure(items, 2, &effort));
    /* Once unmeasured, then four times. */
    assert_int_equal(a.runs, 5);
    assert_int_equal(b.runs, 5);
    assert_int_equal(before, 5);
    assert_int_equal(a.out_of_turn, 0);
    assert_int_equal(b.out_of_turn, 0);
    assert_int_equal(items[0].times.repeats, 4);
    assert_true(items[0].times.least >= 0 && items[0].times.least <= items[0].times.median &&
                items[0].times.median <= items[0].times.most);
}

static void test_the_least_time_asks_for_more_runs(void **state)
{
    int clock = 0;
    struct turn a = {.clock = &clock};
    struct timed item = {.run = take_turn, .argument = &a};
    const struct effort effort = {2, 1e-4, 10}, short_one = {1000, 0, 0};

    (void)state;
    assert_true(timing_measure(&item, 1, &effort));
    assert_true(item.times.repeats > 2);
    /* No time at all: the first run is the only sample. */
    a.runs = 0;
    assert_true(timing_measure(&item, 1, &short_one));
    assert_int_equal(a.runs, 1);
    assert_int_equal(item.times.repeats, 1);
}

static void test_a_failing_run_ends_it(void **state)
{
    int clock = 0;
    struct turn a = {.clock = &clock, .fails = true};
    struct timed item = {.run = take_turn, .argument = &a};
    const struct effort effort = {4, 0, 10};

    (void)state;
    assert_false(timing_measure(&item, 1, &effort));
    assert_int_equal(a.runs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_by_hand),
        cmocka_unit_test(test_counts_of_a_known_model),
        cmocka_unit_test(test_order_statistics),
        cmocka_unit_test(test_items_take_turns),
        cmocka_unit_test(test_the_least_time_asks_for_more_runs),
        cmocka_unit_test(test_a_failing_run_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
