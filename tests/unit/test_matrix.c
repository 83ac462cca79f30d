/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated matrix instructions against a plain product.  Where each register's
 * bytes stand in the matrices is written down here as tables of strides, bit by bit of
 * the lane and the element, and shares nothing with the emulation.
 */
#include "unit.h"

#include "backends/gpu/dialect/host.h"
#include "tests/sim/executor.h"
#include "tests/sim/matrix.h"

/* Adding bit i of lane or element moves by this many rows and columns. */
typedef struct step {
    int row, column;
} step;

typedef struct instruction {
    const char *name;
    int m, n, k, lanes, a_bytes, b_bytes, d_words;
    step a_lane[6], a_element[4], b_lane[6], b_element[4], d_lane[6], d_element[3];
} instruction;

static const instruction list[] = {
    {"mma.m16n8k32",
     16,
     8,
     32,
     32,
     16,
     8,
     4,
     {{0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}},
     {{0, 1}, {0, 2}, {8, 0}, {0, 16}},
     {{4, 0}, {8, 0}, {0, 1}, {0, 2}, {0, 4}},
     {{1, 0}, {2, 0}, {16, 0}},
     {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}},
     {{0, 1}, {8, 0}}},
    {"mma.m8n8k16",
     8,
     8,
     16,
     32,
     4,
     4,
     2,
     {{0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}},
     {{0, 1}, {0, 2}},
     {{4, 0}, {8, 0}, {0, 1}, {0, 2}, {0, 4}},
     {{1, 0}, {2, 0}},
     {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}},
     {{0, 1}}},
    {"v_mfma_i32_16x16x32_i8",
     16,
     16,
     32,
     64,
     8,
     8,
     4,
     {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 8}, {0, 16}},
     {{0, 1}, {0, 2}, {0, 4}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {8, 0}, {16, 0}},
     {{1, 0}, {2, 0}, {4, 0}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {4, 0}, {8, 0}},
     {{1, 0}, {2, 0}}},
    {"v_mfma_i32_16x16x16i8",
     16,
     16,
     16,
     64,
     4,
     4,
     4,
     {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 4}, {0, 8}},
     {{0, 1}, {0, 2}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {4, 0}, {8, 0}},
     {{1, 0}, {2, 0}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {4, 0}, {8, 0}},
     {{1, 0}, {2, 0}}},
    {"v_wmma_i32_16x16x16_iu8 of gfx11",
     16,
     16,
     16,
     32,
     16,
     16,
     8,
     {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 0}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 0}},
     {{1, 0}, {2, 0}, {4, 0}, {8, 0}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {1, 0}},
     {{2, 0}, {4, 0}, {8, 0}}},
    {"v_wmma_i32_16x16x16_iu8 of gfx12",
     16,
     16,
     16,
     32,
     8,
     8,
     8,
     {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 8}},
     {{0, 1}, {0, 2}, {0, 4}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {8, 0}},
     {{1, 0}, {2, 0}, {4, 0}},
     {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {8, 0}},
     {{1, 0}, {2, 0}, {4, 0}}},
};
enum { INSTRUCTIONS = sizeof list / sizeof list[0], WARPS = 2 };

typedef struct registers {
    u32 a[4], b[4];
    i32 d[8];
} registers;

static registers file[64 * WARPS];
static int which;

/* Every lane loads its registers, issues the instruction twice, stores D. */
static KERNEL(issue, 64)(void *argument)
{
    registers *r = &file[local_id()];
    (void)argument;
    for (i32 i = 0; i < 2; i++)
        switch (which) {
        case 0:
            mma_m16n8k32(r->d, r->a, r->b);
            break;
        case 1:
            mma_m8n8k16(r->d, r->a[0], r->b[0]);
            break;
        case 2:
            mfma_16x16x32(r->d, r->a, r->b);
            break;
        case 3:
            mfma_16x16x16(r->d, r->a[0], r->b[0]);
            break;
        case 4:
            wmma_16x16x16(r->d, r->a, r->b);
            break;
        default:
            wmma12_16x16x16(r->d, r->a, r->b);
        }
}

static step place(const step *lane_steps, const step *element_steps, int lane, int element)
{
    step at = {0, 0};
    for (int bit = 0; bit < 6; bit++)
        if ((lane >> bit & 1) != 0) {
            at.row += lane_steps[bit].row;
            at.column += lane_steps[bit].column;
        }
    for (int bit = 0; bit < 4; bit++)
        if ((element >> bit & 1) != 0) {
            at.row += element_steps[bit].row;
            at.column += element_steps[bit].column;
        }
    return at;
}

static i32 a[WARPS][16][32], b[WARPS][32][16], d[WARPS][16][16];

static void put_byte(u32 *words, int element, i32 value)
{
    words[element / 4] |= ((u32)value & 0xffu) << (8 * (element % 4));
}

static void fill(const instruction *i, uint64_t seed)
{
    test_random r = test_seed(seed);
    memset(file, 0, sizeof file);
    for (int w = 0; w < WARPS; w++) {
        for (int row = 0; row < 16; row++)
            for (int c = 0; c < 32; c++)
                a[w][row][c] = (i32)test_between(&r, -128, 127);
        for (int row = 0; row < 32; row++)
            for (int c = 0; c < 16; c++)
                b[w][row][c] = (i32)test_between(&r, -128, 127);
        for (int row = 0; row < 16; row++)
            for (int c = 0; c < 16; c++)
                d[w][row][c] = (i32)test_between(&r, -1000000, 1000000);
        for (int lane = 0; lane < i->lanes; lane++) {
            registers *of = &file[w * i->lanes + lane];
            for (int e = 0; e < i->a_bytes; e++) {
                const step at = place(i->a_lane, i->a_element, lane, e);
                put_byte(of->a, e, a[w][at.row][at.column]);
            }
            for (int e = 0; e < i->b_bytes; e++) {
                const step at = place(i->b_lane, i->b_element, lane, e);
                put_byte(of->b, e, b[w][at.row][at.column]);
            }
            for (int e = 0; e < i->d_words; e++) {
                const step at =
                    place(i->d_lane, (const step[4]){i->d_element[0], i->d_element[1], i->d_element[2]}, lane, e);
                of->d[e] = d[w][at.row][at.column];
            }
        }
    }
}

static void go(const instruction *i, uint64_t seed)
{
    char message[128];
    const ckv_sim_grid grid = {{1, 1, 1}, (uint32_t)(i->lanes * WARPS), (uint32_t)i->lanes, seed};
    which = (int)(i - list);
    assert_int_equal(ckv_sim_execute(issue, NULL, &grid, message, sizeof message), 0);
}

/* How many elements of D are not D + 2 A B. */
static int wrong(const instruction *i)
{
    int count = 0;
    for (int w = 0; w < WARPS; w++)
        for (int lane = 0; lane < i->lanes; lane++)
            for (int e = 0; e < i->d_words; e++) {
                const step at =
                    place(i->d_lane, (const step[4]){i->d_element[0], i->d_element[1], i->d_element[2]}, lane, e);
                i32 want = d[w][at.row][at.column];
                for (int k = 0; k < i->k; k++)
                    want += 2 * a[w][at.row][k] * b[w][k][at.column];
                count += file[w * i->lanes + lane].d[e] != want;
            }
    return count;
}

static void test_products(void **state)
{
    (void)state;
    for (int n = 0; n < INSTRUCTIONS; n++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            fill(&list[n], seed);
            go(&list[n], seed);
            if (wrong(&list[n]) != 0)
                fail_msg("%s: %d wrong", list[n].name, wrong(&list[n]));
        }
}

/* Every element of the tables is met once, or the tables would prove little. */
static void test_tables_cover(void **state)
{
    (void)state;
    for (int n = 0; n < INSTRUCTIONS; n++) {
        const instruction *i = &list[n];
        int seen[16][32] = {{0}}, copies = i->lanes * i->a_bytes / (i->m * i->k);
        for (int lane = 0; lane < i->lanes; lane++)
            for (int e = 0; e < i->a_bytes; e++) {
                const step at = place(i->a_lane, i->a_element, lane, e);
                assert_true(at.row < i->m && at.column < i->k);
                assert_true(++seen[at.row][at.column] <= copies);
            }
        assert_int_equal(i->lanes * i->d_words, i->m * i->n);
        assert_int_equal(i->lanes * i->b_bytes / (i->n * i->k), copies);
    }
}

/* Two lanes that swap their operands, or the results of one: found. */
static void test_wrong_lane(void **state)
{
    (void)state;
    for (int n = 0; n < INSTRUCTIONS; n++) {
        const instruction *i = &list[n];
        for (int lane = 0; lane < i->lanes; lane++) {
            const int other = (lane + 1) % i->lanes;
            fill(i, (uint64_t)lane);
            const u32 first = file[lane].a[0];
            file[lane].a[0] = file[other].a[0];
            file[other].a[0] = first;
            go(i, 1);
            assert_true(wrong(i) > 0);
            fill(i, (uint64_t)lane);
            go(i, 1);
            assert_int_equal(wrong(i), 0);
            file[lane] = file[other];
            assert_true(wrong(i) > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_tables_cover),
        cmocka_unit_test(test_wrong_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
