/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#define CKV_DEF "opencl.def"
#include "check.h"
