/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect in CUDA C++, for nvcc and NVRTC, neither with any header. */
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
#define LOCAL_ARRAY(type, name, count) __shared__ __align__(16) type name[count]
#define FUNCTION static __device__ __forceinline__
#define KERNEL(name, group) extern "C" __global__ void __launch_bounds__(group) name
/* ... of which `least` groups should fit a multiprocessor: what its registers are shared among. */
#define KERNEL_RESIDENT(name, group, least) extern "C" __global__ void __launch_bounds__(group, least) name

FUNCTION i32 local_id(void)
{
    return (i32)threadIdx.x;
}
FUNCTION i32 group_id(i32 d)
{
    return (i32)(d == 0 ? blockIdx.x : blockIdx.y);
}

#define BARRIER() __syncthreads()
#define fma_rn(a, b, c) __fmaf_rn(a, b, c)
#define bits(x) __float_as_uint(x)
#define from_bits(u) __uint_as_float(u)
#define root(x) __fsqrt_rn(x)
#define to_f32_i64(i) __ll2float_rn(i)
#define to_f32_i32(i) __int2float_rn(i)
#define local_add(p, x) atomicAdd(p, x)
#define global_or(p, x) atomicOr(p, x)
#define global_add(p, x) atomicAdd(p, x)
#define clz32(u) __clz((int)(u))

typedef float4 f32x4;
#define load4(p) (*(const f32x4 *)(p))

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
#define dot4(a, b, c) __dp4a((int)(a), (int)(b), c)
#else
FUNCTION i32 dot4(u32 a, u32 b, i32 c)
{
    for (i32 i = 0; i < 32; i += 8)
        c += (i32)(i8)(a >> i) * (i32)(i8)(b >> i);
    return c;
}
#endif

/* What the matrix routes of the norm need. */
#define HAS_MATRIX
#define HAS_MMA
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#define QUANTIZE_LOOP _Pragma("unroll 2") /* over the steps of a row: how many loads are under way at once */
#define address(p) ((u64)(p))
typedef uint2 u32x2;
typedef uint4 u32x4;
#define load_u32x2(p) (*(const u32x2 *)(p))
#define load_u32x4(p) (*(const u32x4 *)(p))

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
FUNCTION void copy_async(u32 *to, const u32 *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"((u32)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from))
                 : "memory");
}
FUNCTION void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}
#define copy_wait(n) asm volatile("cp.async.wait_group %0;" : : "n"(n) : "memory")

#define HAS_MMA_32
FUNCTION void mma_m16n8k32(i32 *d, const u32 *a, const u32 *b)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
FUNCTION void copy_async(u32 *to, const u32 *from)
{
    *(u32x4 *)to = *(const u32x4 *)from;
}
#define copy_commit()
#define copy_wait(n)

FUNCTION void mma_m8n8k16(i32 *d, u32 a, u32 b)
{
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a), "r"(b));
}
#endif
