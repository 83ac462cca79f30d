/* SPDX-License-Identifier: Apache-2.0 */
/* The backend "opencl". */
#include "table.h"

CKV_GPU_BACKEND(opencl)
