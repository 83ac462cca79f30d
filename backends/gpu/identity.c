/* SPDX-License-Identifier: Apache-2.0 */
/* What device this is, and the text that its kernels are made of. */
#include <stdio.h>

#include "embedded.h"
#include "gpu.h"
#include "lib/hash.h"

void ckv_gpu_identify(const ckv_context *context, ckv_device_identity *identity)
{
    const ckv_gpu *gpu = ckv_gpu_of(context);
    const ckv_gpu_device_info *info = &gpu->info;
    snprintf(identity->vendor, sizeof identity->vendor, "%s", info->vendor);
    snprintf(identity->name, sizeof identity->name, "%s", info->name);
    snprintf(identity->arch, sizeof identity->arch, "%s", info->arch);
    snprintf(identity->driver, sizeof identity->driver, "%s", info->driver);
    /* The run-time compiler's version is the driver's matter, or the vendor's library beside it. */
    snprintf(identity->compiler, sizeof identity->compiler, "%s",
             gpu->origin == CKV_GPU_BUILT_AHEAD ? "built ahead" : "at run time");
    identity->units = info->compute_units;
    identity->memory_bytes = info->memory_bytes;
    identity->local_bytes = info->local_bytes;
    identity->kernels = ckv_hash_text(CKV_HASH_START, ckv_version());
    identity->kernels = ckv_hash_text(identity->kernels, identity->compiler);
    identity->kernels = ckv_hash(identity->kernels, gpu->driver->embedded->text, *gpu->driver->embedded->text_size);
}
