/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of tiles and work-groups, which kernels and the host's grids must agree on. */
#ifndef CKV_GPU_TILES_H
#define CKV_GPU_TILES_H

/* score.h; the widths of its kernels are in their names */
#define SCORE_KEYS_MAX 256
#define SCORE_ROWS 32
#define REDUCE_GROUP 64

/* norm_*.h: rows of V in a work-group.  A wave of a matrix route has tiles of 16 rows. */
#define DOT4_ROWS 8
#define MMA_WARPS 4
#define MMA_ROWS(tiles) (16 * MMA_WARPS * (tiles))
#define TILE_WAVES 4
#define TILE_ROWS (16 * TILE_WAVES) /* for each tile that a wave has */

/* probe.h */
#define PROBE_GROUP 64
#define PROBE_WORDS 8 /* an item's results */

/* bound.h */
#define BOUND_GROUP 128
#define BOUND_ITEMS(rows) (16 * (rows))

/* compact.h */
#define COMPACT_GROUP 128
#define COMPACT_SLICE 16 /* units of a row that a work-group moves in place */

#endif
