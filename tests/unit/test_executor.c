/* SPDX-License-Identifier: Apache-2.0 */
/* The executor that stands in for a device runs kernels as a device may, and notices
 * what a device would not: each kernel here but the first has one planted defect. */
#include "unit.h"

#include "backends/gpu/dialect/host.h"
#include "tests/sim/executor.h"
#include "tests/sim/matrix.h"

#define GROUP 64
#define GROUPS 5
#define SEEDS 8

typedef struct arguments {
    i32 *in, *out;
} arguments;

/* The prefix sums of each group's numbers, by doubling; what is planted by `defect`. */
enum defect { NONE, NO_BARRIER, UNWRITTEN, OTHER_LINE, LEAVES_EARLY, BEYOND };

FUNCTION void prefix_sums(const i32 *in, i32 *out, i32 *shared, enum defect defect)
{
    const i32 id = local_id(), at = group_id(0) * GROUP + id;
    if (defect == LEAVES_EARLY && at == GROUP + 7)
        return;
    if (defect != UNWRITTEN || id != 9)
        shared[id] = in[at];
    if (defect == BEYOND && id == 5)
        shared[GROUP + 3] = 0;
    BARRIER();
    for (i32 step = 1; step < GROUP; step *= 2) {
        const i32 more = id >= step ? shared[id - step] : 0;
        if (defect != NO_BARRIER)
            BARRIER();
        shared[id] += more;
        if (defect == OTHER_LINE && id == 3)
            BARRIER();
        else
            BARRIER();
    }
    out[at] = shared[id];
}

#define PREFIX_SUMS(name, defect)                                                                                      \
    static KERNEL(name, GROUP)(void *argument)                                                                         \
    {                                                                                                                  \
        LOCAL_ARRAY(i32, shared, GROUP);                                                                               \
        const arguments *a = argument;                                                                                 \
        prefix_sums(a->in, a->out, shared, defect);                                                                    \
    }
PREFIX_SUMS(sound, NONE)
PREFIX_SUMS(without_barrier, NO_BARRIER)
PREFIX_SUMS(unwritten, UNWRITTEN)
PREFIX_SUMS(other_line, OTHER_LINE)
PREFIX_SUMS(leaves_early, LEAVES_EARLY)
PREFIX_SUMS(writes_beyond, BEYOND)

static i32 in[GROUP * GROUPS], out[GROUP * GROUPS];
static char message[256];

static int run(void (*kernel)(void *), uint64_t seed)
{
    arguments a = {in, out};
    const ckv_sim_grid grid = {{GROUPS, 1, 1}, GROUP, 32, seed};
    for (i32 i = 0; i < GROUP * GROUPS; i++) {
        in[i] = i * i % 37;
        out[i] = -1;
    }
    message[0] = '\0';
    return ckv_sim_execute(kernel, &a, &grid, message, sizeof message);
}

static int right(void)
{
    for (i32 i = 0, sum = 0; i < GROUP * GROUPS; i++) {
        sum = i % GROUP == 0 ? in[i] : sum + in[i];
        if (out[i] != sum)
            return 0;
    }
    return 1;
}

static void test_sound_kernel(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(run(sound, seed), 0);
        assert_true(right());
    }
}

/* Wrong with every seed, and not always in the same way. */
static void test_missing_barrier(void **state)
{
    uint64_t hash[SEEDS];
    int differ = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(run(without_barrier, seed), 0);
        assert_false(right());
        hash[seed] = test_hash(test_hash_start, out, sizeof out);
        differ |= hash[seed] != hash[0];
    }
    assert_true(differ);
}

static void test_unwritten_memory(void **state)
{
    uint64_t first = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(run(unwritten, seed), 0);
        assert_false(right());
        if (seed == 0)
            first = test_hash(test_hash_start, out, sizeof out);
        else
            assert_true(first != test_hash(test_hash_start, out, sizeof out));
    }
}

static void test_divergent_barriers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(run(other_line, seed), -1);
        assert_non_null(strstr(message, "diverges"));
        assert_non_null(strstr(message, "item 3 "));
        assert_int_equal(run(leaves_early, seed), -1);
        assert_non_null(strstr(message, "group 1,0 diverges"));
        assert_non_null(strstr(message, "item 7 has finished"));
    }
    assert_int_equal(run(sound, 1), 0); /* none of it stays behind */
    assert_true(right());
}

static void test_write_beyond_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(run(writes_beyond, seed), -1);
        assert_non_null(strstr(message, "12 bytes behind the end of shared"));
    }
}

/* ---------------------------------------------------------------- what lanes do together */

static void add_all(void *const *data, int lanes)
{
    i32 sum = 0;
    for (int lane = 0; lane < lanes; lane++)
        sum += *(const i32 *)data[lane] * (lane + 1);
    for (int lane = 0; lane < lanes; lane++)
        *(i32 *)data[lane] = sum;
}

static KERNEL(sums_of_warps, GROUP)(void *argument)
{
    const arguments *a = argument;
    const i32 at = group_id(0) * GROUP + local_id();
    for (i32 round = 0; round < 3; round++) {
        i32 x = a->in[at] + round;
        ckv_sim_collective(32, &x, sizeof x, add_all);
        a->out[at] = x - a->out[at];
    }
}

static KERNEL(lane_stays_away, GROUP)(void *argument)
{
    const arguments *a = argument;
    i32 x = 1;
    if (local_id() != 40)
        ckv_sim_collective(32, &x, sizeof x, add_all);
    a->out[group_id(0) * GROUP + local_id()] = x;
}

static void test_collective(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(run(sums_of_warps, seed), 0);
        for (i32 i = 0; i < GROUP * GROUPS; i++) {
            i32 want = -1;
            for (i32 round = 0; round < 3; round++) {
                i32 sum = 0;
                for (i32 lane = 0; lane < 32; lane++)
                    sum += (in[i / 32 * 32 + lane] + round) * (lane + 1);
                want = sum - want;
            }
            assert_int_equal(out[i], want);
        }
        assert_int_equal(run(lane_stays_away, seed), -1);
        assert_non_null(strstr(message, "item 40 has finished"));
    }
}

static void test_refused_launch(void **state)
{
    const ckv_sim_grid none = {{1, 0, 1}, GROUP, 32, 0}, large = {{1, 1, 1}, CKV_SIM_MAX_GROUP + 1, 32, 0};
    (void)state;
    assert_int_equal(ckv_sim_execute(sound, NULL, &none, message, sizeof message), -1);
    assert_int_equal(ckv_sim_execute(sound, NULL, &large, message, sizeof message), -1);
    assert_non_null(strstr(message, "no such launch"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_kernel),
        cmocka_unit_test(test_missing_barrier),
        cmocka_unit_test(test_unwritten_memory),
        cmocka_unit_test(test_divergent_barriers),
        cmocka_unit_test(test_collective),
        cmocka_unit_test(test_refused_launch),
        cmocka_unit_test(test_write_beyond_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
