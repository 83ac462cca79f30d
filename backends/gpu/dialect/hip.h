/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect in HIP, for clang and hipRTC, over the compiler's builtins alone: newer
 * chips need no device library and no header. */
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;

#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY(type, name, count) __attribute__((shared)) __attribute__((aligned(16))) type name[count]
#define FUNCTION static __attribute__((device)) inline __attribute__((always_inline))
#define KERNEL(name, group)                                                                                            \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(group, group))) void name
#define KERNEL_RESIDENT(name, group, least) KERNEL(name, group)

FUNCTION i32 local_id(void)
{
    return (i32)__builtin_amdgcn_workitem_id_x();
}
FUNCTION i32 group_id(i32 d)
{
    return (i32)(d == 0 ? __builtin_amdgcn_workgroup_id_x() : __builtin_amdgcn_workgroup_id_y());
}

FUNCTION void barrier_all(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define BARRIER() barrier_all()
#define fma_rn(a, b, c) __builtin_fmaf(a, b, c)
#define bits(x) __builtin_bit_cast(u32, (f32)(x))
#define from_bits(u) __builtin_bit_cast(f32, (u32)(u))
#define root(x) __builtin_amdgcn_sqrtf(x)
#define to_f32_i64(i) ((f32)(i64)(i))
#define to_f32_i32(i) ((f32)(i32)(i))
#define local_add(p, x) __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP)
#define global_or(p, x) __hip_atomic_fetch_or(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define global_add(p, x) __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
FUNCTION i32 clz32(u32 u)
{
    return u == 0 ? 32 : __builtin_clz(u);
}

typedef float f32x4 __attribute__((ext_vector_type(4)));
#define load4(p) (*(const f32x4 *)(p))

#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx1030__)
#define dot4(a, b, c) __builtin_amdgcn_sdot4((i32)(a), (i32)(b), c, false)
#elif defined(__gfx1100__) || defined(__gfx1201__)
#define dot4(a, b, c) __builtin_amdgcn_sudot4(true, (i32)(a), true, (i32)(b), c, false)
#else
FUNCTION i32 dot4(u32 a, u32 b, i32 c)
{
    for (i32 i = 0; i < 32; i += 8)
        c += (i32)(i8)(a >> i) * (i32)(i8)(b >> i);
    return c;
}
#endif

/* What the matrix routes of the norm need. */
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    defined(__gfx950__)
#define HAS_MFMA
#endif
#if defined(HAS_MFMA) && !defined(__gfx908__) && !defined(__gfx90a__)
#define HAS_MFMA_32
#endif
#if defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) ||                    \
    defined(__gfx1150__) || defined(__gfx1151__)
#define HAS_WMMA
#endif
#if defined(__gfx1200__) || defined(__gfx1201__)
#define HAS_WMMA12
#endif

#if defined(HAS_MFMA) || defined(HAS_WMMA) || defined(HAS_WMMA12)
#define HAS_MATRIX
#define HAS_TILES
#endif
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("nounroll")
#define QUANTIZE_LOOP _Pragma("nounroll") /* over the steps of a row: how many loads are under way at once */
#define address(p) ((u64)(p))
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef i32 i32x2 __attribute__((ext_vector_type(2)));
typedef i32 i32x4 __attribute__((ext_vector_type(4)));
typedef i32 i32x8 __attribute__((ext_vector_type(8)));
#define load_u32x2(p) (*(const u32x2 *)(p))
#define load_u32x4(p) (*(const u32x4 *)(p))
#define store_u32x4(p, v) (*(u32x4 *)(p) = (v))

#ifdef HAS_MFMA
#ifdef HAS_MFMA_32
FUNCTION void mfma_16x16x32(i32 *d, const u32 *a, const u32 *b)
{
    i32x4 c = {d[0], d[1], d[2], d[3]};
    c = __builtin_amdgcn_mfma_i32_16x16x32_i8((long)((u64)a[1] << 32 | a[0]), (long)((u64)b[1] << 32 | b[0]), c, 0, 0,
                                              0);
    d[0] = c.x, d[1] = c.y, d[2] = c.z, d[3] = c.w;
}
#else
FUNCTION void mfma_16x16x16(i32 *d, u32 a, u32 b)
{
    i32x4 c = {d[0], d[1], d[2], d[3]};
    c = __builtin_amdgcn_mfma_i32_16x16x16i8((i32)a, (i32)b, c, 0, 0, 0);
    d[0] = c.x, d[1] = c.y, d[2] = c.z, d[3] = c.w;
}
#endif
#endif

#ifdef HAS_WMMA
FUNCTION void wmma_16x16x16(i32 *d, const u32 *a, const u32 *b)
{
    const i32x4 x = {(i32)a[0], (i32)a[1], (i32)a[2], (i32)a[3]}, y = {(i32)b[0], (i32)b[1], (i32)b[2], (i32)b[3]};
    i32x8 c = {d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]};
    c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, x, true, y, c, false);
    UNROLL for (i32 i = 0; i < 8; i++) d[i] = c[i];
}
#endif
#ifdef HAS_WMMA12
FUNCTION void wmma12_16x16x16(i32 *d, const u32 *a, const u32 *b)
{
    const i32x2 x = {(i32)a[0], (i32)a[1]}, y = {(i32)b[0], (i32)b[1]};
    i32x8 c = {d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]};
    c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, x, true, y, c, false);
    UNROLL for (i32 i = 0; i < 8; i++) d[i] = c[i];
}
#endif
