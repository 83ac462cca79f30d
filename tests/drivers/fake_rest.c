/* SPDX-License-Identifier: Apache-2.0 */
/* What fake_cuda.c leaves out: functions that are there and fail. */
#include "backends/gpu/vendor/cuda.h"

#define SCALAR(name, type)
#define HANDLE(name)
#define CONSTANT(name, value)
#define FUNCTION(result, name, arguments)                                                                              \
    __attribute__((weak)) result name arguments                                                                        \
    {                                                                                                                  \
        return CUDA_ERROR_UNKNOWN;                                                                                     \
    }
#include "backends/gpu/vendor/cuda.def"
