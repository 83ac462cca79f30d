/* SPDX-License-Identifier: Apache-2.0 */
/* The backend "cuda". */
#include "table.h"

CKV_GPU_BACKEND(cuda)
