/* SPDX-License-Identifier: Apache-2.0 */
/* The backend "hip". */
#include "table.h"

CKV_GPU_BACKEND(hip)
