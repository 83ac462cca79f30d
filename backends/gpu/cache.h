/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of kernels on disk, so that a process need not build what an earlier one
 * built.  A file holds its whole key beside the image; a file that is damaged, foreign
 * or of another key is as good as none, and nothing here can fail a run.
 */
#ifndef CKV_BACKENDS_GPU_CACHE_H
#define CKV_BACKENDS_GPU_CACHE_H

#include <stddef.h>

/* The folder: CKV_KERNEL_CACHE, else ckv/kernels below XDG_CACHE_HOME or HOME/.cache.  0
 * when there is none: CKV_KERNEL_CACHE=off, no absolute path, or one longer than `size`. */
int ckv_cache_folder(char *folder, size_t size);

/* 1 with *data, to be freed. */
int ckv_cache_load(const char *folder, const void *key, size_t key_size, void **data, size_t *size);

/* Makes the folder where it is missing.  1 when the image is there now. */
int ckv_cache_store(const char *folder, const void *key, size_t key_size, const void *data, size_t size);

#endif
