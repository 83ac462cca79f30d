/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the build made of the kernels, in the library: for each target their text, and
 * the images for some devices where configure found a compiler.  The arrays are made
 * by embed.sh.
 */
#ifndef CKV_BACKENDS_GPU_EMBEDDED_H
#define CKV_BACKENDS_GPU_EMBEDDED_H

#include <stddef.h>

/* For devices of this architecture ("gfx90a"); "" leaves that to the driver, as a
 * fatbin's loader does.  The list ends with data NULL. */
typedef struct ckv_gpu_embedded_image {
    const char *arch;
    const unsigned char *data;
    size_t size;
} ckv_gpu_embedded_image;

/* What there is for a target. */
typedef struct ckv_gpu_embedded {
    const unsigned char *text;
    const size_t *text_size;
    const ckv_gpu_embedded_image *images; /* NULL: none are made for this target */
} ckv_gpu_embedded;

/* The text ends with a NUL, not counted in its size. */
extern const unsigned char ckv_gpu_text_cuda[], ckv_gpu_text_hip[], ckv_gpu_text_opencl[];
extern const size_t ckv_gpu_text_cuda_size, ckv_gpu_text_hip_size, ckv_gpu_text_opencl_size;
extern const ckv_gpu_embedded_image ckv_gpu_images_cuda[], ckv_gpu_images_hip[];

#endif
