/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for hip. */
#include "../dialect/hip.h"

#include "all.h"
