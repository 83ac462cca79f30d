/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for cuda. */
#include "../dialect/cuda.h"

#include "all.h"
