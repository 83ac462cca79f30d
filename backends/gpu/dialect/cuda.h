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
#define LOCAL_ARRAY __shared__ __align__(16)
#define FUNCTION static __device__ __forceinline__
#define KERNEL(name, group) extern "C" __global__ void __launch_bounds__(group) name

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
