/* SPDX-License-Identifier: Apache-2.0 */
/* The list of backends, best first. */
#include "registry.h"

#define NOT_HERE "not part of this version of libckv"

const ckv_registry_entry ckv_registry[] = {
    {"cuda", NULL, NOT_HERE},      {"hip", NULL, NOT_HERE},       {"opencl", NULL, NOT_HERE},
    {"cpu", &ckv_backend_cpu, ""}, {"ref", &ckv_backend_ref, ""},
};

const int ckv_registry_count = (int)(sizeof ckv_registry / sizeof ckv_registry[0]);
