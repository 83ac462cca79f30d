/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions of GPUs on signed bytes, d += a * b in wrapping 32 bits, for
 * kernels that the executor runs.  Every lane of a warp calls, each with the registers
 * that the instruction gives it; a register holds four bytes of ascending k, the least
 * in its low byte.
 */
#ifndef CKV_TESTS_SIM_MATRIX_H
#define CKV_TESTS_SIM_MATRIX_H

#include <stdint.h>

/* NVIDIA mma.sync.aligned.*.row.col.s32.s8.s8.s32, 32 lanes. */
void mma_m16n8k32(int32_t d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_m8n8k16(int32_t d[2], uint32_t a, uint32_t b);

/* AMD v_mfma_i32_16x16x32_i8 (gfx942) and v_mfma_i32_16x16x16i8 (gfx908, gfx90a), 64 lanes. */
void mfma_16x16x32(int32_t d[4], const uint32_t a[2], const uint32_t b[2]);
void mfma_16x16x16(int32_t d[4], uint32_t a, uint32_t b);

/* AMD v_wmma_i32_16x16x16_iu8, both operands signed, 32 lanes: of gfx11, whose lanes
 * 16 to 31 must bring what lanes 0 to 15 bring, and of gfx12. */
void wmma_16x16x16(int32_t d[8], const uint32_t a[4], const uint32_t b[4]);
void wmma12_16x16x16(int32_t d[8], const uint32_t a[2], const uint32_t b[2]);

/* Calls so far of the function of that name, over all lanes. */
int64_t ckv_sim_matrix_issued(const char *name);

#endif
