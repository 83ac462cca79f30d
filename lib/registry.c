/* SPDX-License-Identifier: Apache-2.0 */
/* The list of backends, best first. */
#include "registry.h"

const ckv_registry_entry ckv_registry[] = {
    {"cuda", &ckv_backend_cuda, ""}, {"hip", &ckv_backend_hip, ""}, {"opencl", &ckv_backend_opencl, ""},
    {"cpu", &ckv_backend_cpu, ""},   {"ref", &ckv_backend_ref, ""},
};

const int ckv_registry_count = (int)(sizeof ckv_registry / sizeof ckv_registry[0]);
