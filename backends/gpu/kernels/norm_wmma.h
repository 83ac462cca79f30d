/* SPDX-License-Identifier: Apache-2.0 */
/* The norm by the matrix instructions of RDNA 3 and 4: v_wmma_i32_16x16x16_iu8. */
#ifndef CKV_GPU_NORM_WMMA_H
#define CKV_GPU_NORM_WMMA_H

#include "norm_tiles.h"

#ifdef HAS_WMMA
NORM_TILES(ckv_norm_wmma_32, TILE_WMMA, 1, 1)
NORM_TILES(ckv_norm_wmma_64, TILE_WMMA, 2, 1)
NORM_TILES(ckv_norm_wmma_96, TILE_WMMA, 3, 1)
NORM_TILES(ckv_norm_wmma_128, TILE_WMMA, 4, 1)
/* 256 channels would take more registers than there are. */
#endif

#ifdef HAS_WMMA12
NORM_TILES(ckv_norm_wmma12_32, TILE_WMMA12, 1, 1)
NORM_TILES(ckv_norm_wmma12_64, TILE_WMMA12, 2, 1)
NORM_TILES(ckv_norm_wmma12_96, TILE_WMMA12, 3, 1)
NORM_TILES(ckv_norm_wmma12_128, TILE_WMMA12, 4, 1)
NORM_TILES(ckv_norm_wmma12_256, TILE_WMMA12, 8, 1)
#endif

#endif
