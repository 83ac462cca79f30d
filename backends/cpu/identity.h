/* SPDX-License-Identifier: Apache-2.0 */
/* What processor this is. */
#ifndef CKV_BACKENDS_CPU_IDENTITY_H
#define CKV_BACKENDS_CPU_IDENTITY_H

#include "cpu.h"

/* "CRC BYTES" of the compiler's line and of the sources of kernels and stages; made by the build. */
extern const char ckv_cpu_sources[];

/* The backend's `identify`. */
void ckv_cpu_identify(const ckv_context *context, ckv_device_identity *identity);

#endif
