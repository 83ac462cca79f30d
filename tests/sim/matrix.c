/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layouts are those of "PTX ISA" 9.0, sections 9.7.14.5.3 (m8n8k16) and 9.7.14.5.10
 * (m16n8k32), and of AMD's instruction set guides for CDNA 2, CDNA 3, RDNA 3 and RDNA 4,
 * as ROCm/amd_matrix_instruction_calculator prints them.
 */
#include "matrix.h"

#include <string.h>

#include "executor.h"

/* What a lane brings. */
typedef struct registers {
    uint32_t a[4], b[4];
    int32_t d[8];
} registers;

/* Where element `e` of a lane's A, B or D stands: A at [m][k], B at [k][n], D at [m][n].
 * Elements count bytes of a and b, words of d. */
typedef struct place {
    int row, column;
} place;

typedef struct layout {
    int m, n, k, bytes_a, bytes_b, words_d;
    place (*a)(int lane, int e), (*b)(int lane, int e), (*d)(int lane, int e);
} layout;

static int8_t byte_of(const uint32_t *words, int e)
{
    const unsigned bits = words[e / 4] >> (8 * (e % 4)) & 0xffu;
    return (int8_t)(bits > 127 ? (int)bits - 256 : (int)bits);
}

static void multiply(void *const *data, int lanes, const layout *l)
{
    int8_t a[16][32] = {{0}}, b[32][16] = {{0}};
    for (int lane = 0; lane < lanes; lane++) {
        const registers *r = data[lane];
        for (int e = 0; e < l->bytes_a; e++) {
            const place at = l->a(lane, e);
            a[at.row][at.column] = byte_of(r->a, e);
        }
        for (int e = 0; e < l->bytes_b; e++) {
            const place at = l->b(lane, e);
            b[at.row][at.column] = byte_of(r->b, e);
        }
    }
    for (int lane = 0; lane < lanes; lane++) {
        registers *r = data[lane];
        for (int e = 0; e < l->words_d; e++) {
            const place at = l->d(lane, e);
            uint32_t sum = (uint32_t)r->d[e];
            for (int k = 0; k < l->k; k++)
                sum += (uint32_t)((int32_t)a[at.row][k] * b[k][at.column]);
            memcpy(&r->d[e], &sum, sizeof sum);
        }
    }
}

static struct {
    const char *name;
    ckv_sim_function *function;
    int64_t calls;
} issued[8];

static void count(const char *name, ckv_sim_function *function)
{
    int i = 0;
    while (issued[i].function != NULL && issued[i].function != function)
        i++;
    issued[i].name = name;
    issued[i].function = function;
    issued[i].calls++;
}

int64_t ckv_sim_matrix_issued(const char *name)
{
    for (int i = 0; issued[i].function != NULL; i++)
        if (strcmp(issued[i].name, name) == 0)
            return issued[i].calls;
    return 0;
}

/* All lanes exchange their registers; then each takes its D. */
static void together(int lanes, const char *name, ckv_sim_function *function, int32_t *d, int words, const uint32_t *a,
                     int words_a, const uint32_t *b, int words_b)
{
    registers r;
    count(name, function);
    memset(&r, 0, sizeof r);
    memcpy(r.a, a, (size_t)words_a * sizeof *a);
    memcpy(r.b, b, (size_t)words_b * sizeof *b);
    memcpy(r.d, d, (size_t)words * sizeof *d);
    ckv_sim_collective(lanes, &r, (int)sizeof r, function);
    memcpy(d, r.d, (size_t)words * sizeof *d);
}

/* ---------------------------------------------------------------- NVIDIA */

static place m16n8k32_a(int lane, int e)
{
    return (place){lane / 4 + (e / 4 % 2) * 8, lane % 4 * 4 + e % 4 + e / 8 * 16};
}
static place m16n8k32_b(int lane, int e)
{
    return (place){lane % 4 * 4 + e % 4 + e / 4 * 16, lane / 4};
}
static place m16n8_d(int lane, int e)
{
    return (place){lane / 4 + e / 2 * 8, lane % 4 * 2 + e % 2};
}
static void m16n8k32(void *const *data, int lanes)
{
    static const layout l = {16, 8, 32, 16, 8, 4, m16n8k32_a, m16n8k32_b, m16n8_d};
    multiply(data, lanes, &l);
}
void mma_m16n8k32(int32_t d[4], const uint32_t a[4], const uint32_t b[2])
{
    together(32, __func__, m16n8k32, d, 4, a, 4, b, 2);
}

/* The first eight rows and sixteen values of k of the larger one. */
static void m8n8k16(void *const *data, int lanes)
{
    static const layout l = {8, 8, 16, 4, 4, 2, m16n8k32_a, m16n8k32_b, m16n8_d};
    multiply(data, lanes, &l);
}
void mma_m8n8k16(int32_t d[2], uint32_t a, uint32_t b)
{
    together(32, __func__, m8n8k16, d, 2, &a, 1, &b, 1);
}

/* ---------------------------------------------------------------- AMD, MFMA */

static place by_eights_a(int lane, int e)
{
    return (place){lane % 16, lane / 16 * 8 + e};
}
static place by_eights_b(int lane, int e)
{
    return (place){lane / 16 * 8 + e, lane % 16};
}
static place mfma_d(int lane, int e)
{
    return (place){lane / 16 * 4 + e, lane % 16};
}
static void f16x16x32(void *const *data, int lanes)
{
    static const layout l = {16, 16, 32, 8, 8, 4, by_eights_a, by_eights_b, mfma_d};
    multiply(data, lanes, &l);
}
void mfma_16x16x32(int32_t d[4], const uint32_t a[2], const uint32_t b[2])
{
    together(64, __func__, f16x16x32, d, 4, a, 2, b, 2);
}

static place by_fours_a(int lane, int e)
{
    return (place){lane % 16, lane / 16 * 4 + e};
}
static place by_fours_b(int lane, int e)
{
    return (place){lane / 16 * 4 + e, lane % 16};
}
static void f16x16x16(void *const *data, int lanes)
{
    static const layout l = {16, 16, 16, 4, 4, 4, by_fours_a, by_fours_b, mfma_d};
    multiply(data, lanes, &l);
}
void mfma_16x16x16(int32_t d[4], uint32_t a, uint32_t b)
{
    together(64, __func__, f16x16x16, d, 4, &a, 1, &b, 1);
}

/* ---------------------------------------------------------------- AMD, WMMA */

static place whole_row(int lane, int e)
{
    return (place){lane % 16, e};
}
static place whole_column(int lane, int e)
{
    return (place){e, lane % 16};
}
static place wmma_d(int lane, int e)
{
    return (place){2 * e + lane / 16, lane % 16};
}
/* Hardware may read either half: what it gives if they differ is not said, so noise. */
static void w16x16x16(void *const *data, int lanes)
{
    static const layout l = {16, 16, 16, 16, 16, 8, whole_row, whole_column, wmma_d};
    int copies = 1;
    for (int lane = 0; lane < 16; lane++) {
        const registers *low = data[lane], *high = data[lane + 16];
        copies &= memcmp(low->a, high->a, sizeof low->a) == 0 && memcmp(low->b, high->b, sizeof low->b) == 0;
    }
    multiply(data, lanes, &l);
    for (int lane = 0; lane < lanes && !copies; lane++)
        memset(((registers *)data[lane])->d, 0xa5, sizeof((registers *)data[lane])->d);
}
void wmma_16x16x16(int32_t d[8], const uint32_t a[4], const uint32_t b[4])
{
    together(32, __func__, w16x16x16, d, 8, a, 4, b, 4);
}

static place wmma12_d(int lane, int e)
{
    return (place){lane / 16 * 8 + e, lane % 16};
}
static void w12_16x16x16(void *const *data, int lanes)
{
    static const layout l = {16, 16, 16, 8, 8, 8, by_eights_a, by_eights_b, wmma12_d};
    multiply(data, lanes, &l);
}
void wmma12_16x16x16(int32_t d[8], const uint32_t a[2], const uint32_t b[2])
{
    together(32, __func__, w12_16x16x16, d, 8, a, 2, b, 2);
}
