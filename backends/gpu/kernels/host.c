/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for host. */
#include "../dialect/host.h"

#include "all.h"
