/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC: types, constants, and the functions as a table. */
#ifndef CKV_VENDOR_NVRTC_H
#define CKV_VENDOR_NVRTC_H

#include <stddef.h>

#define SCALAR(name, type) typedef type name;
#define HANDLE(name) typedef struct ckv_opaque_##name *name;
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments)
#define OPTIONAL(result, name, arguments)
#include "nvrtc.def"
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
#include "nvrtc.def"
#undef CONSTANT
#undef FUNCTION
#undef OPTIONAL
};

typedef struct ckv_nvrtc_functions {
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments) result(*name) arguments;
#define OPTIONAL(result, name, arguments) result(*name) arguments;
#include "nvrtc.def"
#undef SCALAR
#undef HANDLE
#undef CONSTANT
#undef FUNCTION
#undef OPTIONAL
} ckv_nvrtc_functions;

#endif
