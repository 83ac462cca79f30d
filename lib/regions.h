/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one call: nothing that it writes may share a byte with anything else. */
#ifndef CKV_LIB_REGIONS_H
#define CKV_LIB_REGIONS_H

#include "tensor.h"

typedef struct ckv_region {
    const char *name;
    const void *buffer;    /* that the two are offsets into, or NULL */
    uintptr_t first, last; /* the byte past the end */
    int is_output;
} ckv_region;

#define CKV_REGIONS_MAX 12 /* a call has at most 7 */

typedef struct ckv_regions {
    ckv_region list[CKV_REGIONS_MAX];
    int count;
} ckv_regions;

/* NULL data outside a buffer is no memory. */
void ckv_regions_add(ckv_regions *regions, const char *name, const void *buffer, const void *data, size_t size,
                     int is_output);
void ckv_regions_add_tensor(ckv_regions *regions, const char *name, const ckv_tensor *view, int is_output);

/* CKV_ERROR_STRIDE naming the output and what it overlaps. */
ckv_status ckv_regions_check(const ckv_regions *regions);

#endif
