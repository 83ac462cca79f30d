/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code for a device: an image made when the library was built, one from the cache on
 * disk, or the kernels' text built now.
 */
#ifndef CKV_BACKENDS_GPU_CODE_H
#define CKV_BACKENDS_GPU_CODE_H

#include "driver.h"

/* Where a module's code came from. */
typedef enum ckv_gpu_origin { CKV_GPU_BUILT_AHEAD, CKV_GPU_FROM_CACHE, CKV_GPU_BUILT_NOW } ckv_gpu_origin;

/*
 * Loads the kernels for an opened device.  `defines` are block sizes as
 * "-DNAME=VALUE ..." ("" for the defaults, which are what images made ahead have).
 * CKV_GPU_OK, or the driver's number with `log` filled ("" never).
 */
int ckv_gpu_load_code(const ckv_gpu_driver *driver, ckv_gpu_device *device, const ckv_gpu_device_info *info,
                      const char *defines, ckv_gpu_module **module, ckv_gpu_origin *origin, char *log, size_t log_size);

#endif
