/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialect in C11, for tests that run kernels without a device: each work-item is a
 * fiber of an executor, which gives the functions declared here.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef float f32;

/* Groups run one after another, so that a group's memory is simply static; the executor fills
 * it anew for each group.  Behind each array is a guard, so that a write beyond its end is
 * found. */
#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY(type, name, count)                                                                                 \
    static __attribute__((aligned(16))) type name[(count) + LOCAL_GUARD / sizeof(type)];                               \
    ckv_sim_share(name, (count) * sizeof(type), LOCAL_GUARD, #name)
#define LOCAL_GUARD 4096
#define FUNCTION static inline __attribute__((unused))
#define KERNEL(name, group) void name
#define KERNEL_RESIDENT(name, group, least) KERNEL(name, group)

extern i32 ckv_sim_local_id(void);
extern i32 ckv_sim_group_id(i32 d);
extern void ckv_sim_barrier(int line);
extern void ckv_sim_share(void *memory, size_t bytes, size_t guard, const char *name);

#define local_id() ckv_sim_local_id()
#define group_id(d) ckv_sim_group_id(d)
#define BARRIER() ckv_sim_barrier(__LINE__)
#define fma_rn(a, b, c) fmaf(a, b, c)

FUNCTION u32 bits(f32 x)
{
    u32 u;
    memcpy(&u, &x, sizeof u);
    return u;
}
FUNCTION f32 from_bits(u32 u)
{
    f32 x;
    memcpy(&x, &u, sizeof x);
    return x;
}
#define root(x) sqrtf(x)
#define to_f32_i64(i) ((f32)(i64)(i))
#define to_f32_i32(i) ((f32)(i32)(i))

FUNCTION u32 local_add(u32 *p, u32 x)
{
    u32 old = *p;
    *p = old + x;
    return old;
}
FUNCTION u32 global_or(u32 *p, u32 x)
{
    u32 old = *p;
    *p = old | x;
    return old;
}
FUNCTION i32 global_add(i32 *p, i32 x)
{
    i32 old = *p;
    *p = old + x;
    return old;
}
FUNCTION i32 clz32(u32 u)
{
    return u == 0 ? 32 : __builtin_clz(u);
}

typedef struct f32x4 {
    f32 x, y, z, w;
} f32x4;
FUNCTION f32x4 load4(const f32 *p)
{
    f32x4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
FUNCTION i32 dot4(u32 a, u32 b, i32 c)
{
    u32 sum = (u32)c;
    for (i32 i = 0; i < 32; i += 8)
        sum += (u32)((i32)(i8)(u8)(a >> i) * (i32)(i8)(u8)(b >> i));
    return (i32)sum;
}

/* What the matrix routes of the norm need; the executor has the instructions. */
#define HAS_MATRIX
#define HAS_MMA
#define HAS_TILES
#define HAS_MFMA
#ifndef SIM_SMALL_MATRICES /* as sm_75, gfx908 and gfx90a */
#define HAS_MMA_32
#define HAS_MFMA_32
#endif
#define HAS_WMMA
#define HAS_WMMA12
#define UNROLL
#define NO_UNROLL
#define QUANTIZE_LOOP
#define address(p) ((u64)(uintptr_t)(p))
typedef struct u32x2 {
    u32 x, y;
} u32x2;
typedef struct u32x4 {
    u32 x, y, z, w;
} u32x4;
FUNCTION u32x2 load_u32x2(const void *p)
{
    u32x2 v;
    memcpy(&v, p, sizeof v);
    return v;
}
FUNCTION u32x4 load_u32x4(const void *p)
{
    u32x4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
FUNCTION void store_u32x4(void *p, u32x4 v)
{
    memcpy(p, &v, sizeof v);
}
FUNCTION void copy_async(u32 *to, const u32 *from)
{
    memcpy(to, from, 16);
}
#define copy_commit()
#define copy_wait(n)

extern void mma_m16n8k32(i32 d[4], const u32 a[4], const u32 b[2]);
extern void mma_m8n8k16(i32 d[2], u32 a, u32 b);
extern void mfma_16x16x32(i32 d[4], const u32 a[2], const u32 b[2]);
extern void mfma_16x16x16(i32 d[4], u32 a, u32 b);
extern void wmma_16x16x16(i32 d[8], const u32 a[4], const u32 b[4]);
extern void wmma12_16x16x16(i32 d[8], const u32 a[2], const u32 b[2]);
