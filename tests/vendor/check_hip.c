/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#define CKV_DEF "hip.def"
#include "check.h"
#define CKV_DEF "hiprtc.def"
#include "check.h"
