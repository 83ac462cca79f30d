/* SPDX-License-Identifier: Apache-2.0 */
/* The list of backends, best first. */
#include "registry.h"

/* Builds of the portable parts alone, such as those of some tests, have no GPU backend. */
#ifdef CKV_WITHOUT_GPU
#define GPU(name) NULL, "left out of this build"
#else
#define GPU(name) &ckv_backend_##name, ""
#endif

const ckv_registry_entry ckv_registry[] = {
    {"cuda", GPU(cuda)},           {"hip", GPU(hip)}, {"opencl", GPU(opencl)}, {"cpu", &ckv_backend_cpu, ""},
    {"ref", &ckv_backend_ref, ""},
};

const int ckv_registry_count = (int)(sizeof ckv_registry / sizeof ckv_registry[0]);
