/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include <cuda.h>
#include <nvrtc.h>

#define CKV_DEF "cuda.def"
#include "check.h"
#define CKV_DEF "nvrtc.def"
#include "check.h"
