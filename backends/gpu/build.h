/* SPDX-License-Identifier: Apache-2.0 */
/* The vendors' compilers at run time, libraries of their own beside the driver. */
#ifndef CKV_BACKENDS_GPU_BUILD_H
#define CKV_BACKENDS_GPU_BUILD_H

#include <stddef.h>

/* Builds text for an architecture ("sm_90", "gfx942").  `text` ends with a NUL.  1 with
 * a malloc'ed image, or 0 with the log.  CUDA: driver_version as cuDriverGetVersion has
 * it, since an older driver does not load what a newer compiler makes. */
int ckv_gpu_build_cuda(const char *text, const char *arch, const char *options, int driver_version, void **image,
                       size_t *image_size, char *log, size_t log_size);
int ckv_gpu_build_hip(const char *text, const char *arch, const char *options, void **image, size_t *image_size,
                      char *log, size_t log_size);

/* Splits "-DA=1 -DB=2" at its blanks, in place, behind the `count` there are; the new
 * count, or -1 when it would pass `room`. */
int ckv_gpu_split_options(char *options, const char **list, int count, int room);

#endif
