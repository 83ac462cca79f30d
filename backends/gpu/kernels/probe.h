/* SPDX-License-Identifier: Apache-2.0 */
/* Proves a device before it is offered: the operations that the specification rests
 * on, over numbers chosen so that contraction, flushed constants, a wrong rounding or
 * a wrong integer shows.  backend.c does the same on the host and compares. */
#ifndef CKV_GPU_PROBE_H
#define CKV_GPU_PROBE_H

#include "number.h"

/* Grid: (1) */
KERNEL(ckv_probe, PROBE_GROUP)(GLOBAL u8 *out, const ckv_params p)
{
    LOCAL_ARRAY(u32, shared, PROBE_GROUP);
    const i32 id = local_id();
    GLOBAL u32 *word = (GLOBAL u32 *)out + id * PROBE_WORDS;
    f32 x = p.scale + (f32)id * p.epsilon, product = x * x;
    i64 big = (i64)((u64)id * 0x123456789abcdefUL) >> 3;
    shared[id] = (u32)(id * id);
    BARRIER();
    word[0] = bits(product - p.bound_slack); /* 0 or not, by contraction */
    word[1] = bits(fma_rn(x, x, -product));
    word[2] = bits(weight(-x * (f32)id));
    word[3] = bits(inverse(((i64)1 << 40) + (big < 0 ? 0 : big)));
    word[4] = bits(to_f32_i64(big));
    word[5] = (u32)dot4((u32)id * 0x01fe7f80u, (u32)(id + 1) * 0x80ff0103u, id);
    word[6] = shared[(id + 17) % PROBE_GROUP];
    word[7] = half_bits((u32)id * 1031u & 0xffffu) ^ (u32)clz32((u32)id);
}

#endif
