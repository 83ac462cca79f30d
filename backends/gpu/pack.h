/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The projection in device memory.  For every route: exponents i16 [Hq][dv], bases
 * i16 [Hq].  The rest is the route's own (ckv_params has the names):
 *
 *   columns   shifts u8 [Hq][columns], weights i16 [Hq][dv][columns]
 *   words     shifts u8 [Hq][columns], weights u32 [Hq][limbs][ceil(dv / 4)][columns]
 *   panels    panels i64 [Hq + 1], a head's first panel; shifts u8 [panels];
 *             weights i8 [panels][steps][32 columns][32 channels] for mma, and
 *             [panels][steps][2 tiles][4 parts][16 columns][8 channels] for AMD's
 *
 * Columns and channels beyond those of W are zeros, which add |0| to a sum.
 */
#ifndef CKV_BACKENDS_GPU_PACK_H
#define CKV_BACKENDS_GPU_PACK_H

#include "gpu.h"

/* Adds the route's blocks to *total and sets their offsets; 0 on overflow. */
int ckv_gpu_lay_out_columns(const ckv_projection *p, ckv_gpu_projection *to, size_t *total);
int ckv_gpu_lay_out_words(const ckv_projection *p, ckv_gpu_projection *to, size_t *total);
int ckv_gpu_lay_out_panels(const ckv_projection *p, ckv_gpu_projection *to, size_t *total);

/* Writes them; `image` is zeroed. */
void ckv_gpu_fill_columns(const ckv_projection *p, const ckv_gpu_projection *to, char *image);
void ckv_gpu_fill_words(const ckv_projection *p, const ckv_gpu_projection *to, char *image);
void ckv_gpu_fill_panels(const ckv_projection *p, const ckv_gpu_projection *to, char *image);

#endif
