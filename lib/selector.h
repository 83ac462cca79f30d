/* SPDX-License-Identifier: Apache-2.0 */
/* What backend and device a context is to have, and who said so. */
#ifndef CKV_LIB_SELECTOR_H
#define CKV_LIB_SELECTOR_H

#include <ckv/ckv.h>

typedef struct ckv_selector {
    char backend[64];         /* a name; with backend_from NULL any will do */
    char device[256];         /* index or part of a name; with device_from NULL any will do */
    const char *backend_from; /* "options.backend", "CKV_BACKEND" */
    const char *device_from;  /* "options.device", "CKV_BACKEND", "CKV_DEVICE" */
} ckv_selector;

/* The options where they say something, else the environment. */
void ckv_selector_read(ckv_selector *selector, const ckv_context_options *options);

int ckv_selector_takes_backend(const ckv_selector *selector, const char *name);

/* A device by its index within its backend, if all is digits, or by a part of its name. */
int ckv_selector_takes_device(const ckv_selector *selector, int32_t device, const char *name);

/* "options.backend 'cuda', CKV_DEVICE '7'"; "auto" where nothing is said. */
void ckv_selector_text(const ckv_selector *selector, char *text, size_t size);

#endif
