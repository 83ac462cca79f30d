/* SPDX-License-Identifier: Apache-2.0 */
/* The HIP runtime: types, constants, and the functions as a table. */
#ifndef CKV_VENDOR_HIP_H
#define CKV_VENDOR_HIP_H

#include <stddef.h>

typedef struct ckv_opaque_hipDeviceProp hipDeviceProp_t;

#define SCALAR(name, type) typedef type name;
#define HANDLE(name) typedef struct ckv_opaque_##name *name;
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments)
#define OPTIONAL(result, name, arguments)
#include "hip.def"
#undef SCALAR
#undef HANDLE
#undef CONSTANT
#undef FUNCTION
#undef OPTIONAL

enum {
#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value) name = value,
#define FUNCTION(result, name, arguments)
#define OPTIONAL(result, name, arguments)
#include "hip.def"
#undef CONSTANT
#undef FUNCTION
#undef OPTIONAL
};

typedef struct ckv_hip_functions {
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) result(*name) arguments;
#define OPTIONAL(result, name, arguments) result(*name) arguments;
#include "hip.def"
#undef SCALAR
#undef HANDLE
#undef CONSTANT
#undef FUNCTION
#undef OPTIONAL
} ckv_hip_functions;

#endif
