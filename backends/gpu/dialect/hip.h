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
#define LOCAL_ARRAY __attribute__((shared)) __attribute__((aligned(16)))
#define FUNCTION static __attribute__((device)) inline __attribute__((always_inline))
#define KERNEL(name, group)                                                                                            \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(group, group))) void name

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
