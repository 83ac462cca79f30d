/* SPDX-License-Identifier: Apache-2.0 */
/* The norm by the matrix cores of CDNA: v_mfma_i32_16x16x32_i8, or 16x16x16i8 before gfx942. */
#ifndef CKV_GPU_NORM_MFMA_H
#define CKV_GPU_NORM_MFMA_H

#include "norm_tiles.h"

#ifdef HAS_MFMA
NORM_TILES(ckv_norm_mfma_32, TILE_MFMA, 1, 2)
NORM_TILES(ckv_norm_mfma_64, TILE_MFMA, 2, 2)
NORM_TILES(ckv_norm_mfma_96, TILE_MFMA, 3, 2)
NORM_TILES(ckv_norm_mfma_128, TILE_MFMA, 4, 2)
NORM_TILES(ckv_norm_mfma_256, TILE_MFMA, 8, 2)
NORM_TILES(ckv_norm_mfma_32x1, TILE_MFMA, 1, 1)
NORM_TILES(ckv_norm_mfma_64x1, TILE_MFMA, 2, 1)
NORM_TILES(ckv_norm_mfma_96x1, TILE_MFMA, 3, 1)
NORM_TILES(ckv_norm_mfma_128x1, TILE_MFMA, 4, 1)
NORM_TILES(ckv_norm_mfma_256x1, TILE_MFMA, 8, 1)
#endif

#endif
