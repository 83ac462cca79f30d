/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for opencl. */
#include "../dialect/opencl.h"

#include "all.h"
