/* SPDX-License-Identifier: Apache-2.0 */
/* The list of backends. */
#ifndef CKV_LIB_REGISTRY_H
#define CKV_LIB_REGISTRY_H

#include "backend.h"

typedef struct ckv_registry_entry {
    const char *name;
    const ckv_backend *backend; /* NULL when it cannot be used at all */
    const char *reason;         /* then: why */
} ckv_registry_entry;

/* Every backend known; "auto" goes by their devices' ranks first, then by this order. */
extern const ckv_registry_entry ckv_registry[];
extern const int ckv_registry_count;

#endif
