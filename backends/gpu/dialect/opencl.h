/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect in OpenCL C 1.2. */
#pragma OPENCL FP_CONTRACT OFF

typedef uchar u8;
typedef char i8;
typedef ushort u16;
typedef short i16;
typedef uint u32;
typedef int i32;
typedef ulong u64;
typedef long i64;
typedef float f32;

#define GLOBAL __global
#define LOCAL __local
#define LOCAL_ARRAY(type, name, count) __local type name[count]
#define FUNCTION static
#define KERNEL(name, group) __kernel __attribute__((reqd_work_group_size(group, 1, 1))) void name
#define KERNEL_RESIDENT(name, group, least) KERNEL(name, group)

FUNCTION i32 local_id(void)
{
    return (i32)get_local_id(0);
}
FUNCTION i32 group_id(i32 d)
{
    return (i32)get_group_id((u32)d);
}

#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define fma_rn(a, b, c) fma(a, b, c)
#define bits(x) as_uint(x)
#define from_bits(u) as_float(u)
#define root(x) sqrt(x)
#define to_f32_i64(i) convert_float_rte(i)
#define to_f32_i32(i) convert_float_rte(i)
#define local_add(p, x) atomic_add(p, x)
#define global_or(p, x) atomic_or(p, x)
#define global_add(p, x) atomic_add(p, x)
#define clz32(u) ((i32)clz(u))

typedef float4 f32x4;
#define load4(p) (*(LOCAL const f32x4 *)(p))

FUNCTION i32 dot4(u32 a, u32 b, i32 c)
{
    char4 x = as_char4(a), y = as_char4(b);
    return c + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

#define UNROLL
