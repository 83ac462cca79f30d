/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: names of statuses and each thread's detail message. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char detail[1024];

const char *ckv_status_string(ckv_status status)
{
    switch (status) {
    case CKV_OK:
        return "success";
    case CKV_ERROR_INVALID_ARGUMENT:
        return "invalid argument";
    case CKV_ERROR_SHAPE:
        return "shape does not fit";
    case CKV_ERROR_DTYPE:
        return "dtype not accepted";
    case CKV_ERROR_STRIDE:
        return "strides not accepted";
    case CKV_ERROR_OVERFLOW:
        return "sizes too large for this machine";
    case CKV_ERROR_LIMIT:
        return "beyond a limit";
    case CKV_ERROR_CAPACITY:
        return "workspace or output too small";
    case CKV_ERROR_NO_MEMORY:
        return "out of memory";
    case CKV_ERROR_UNAVAILABLE:
        return "backend or device unavailable";
    case CKV_ERROR_MISMATCH:
        return "projection or selection of another plan";
    case CKV_ERROR_DEVICE:
        return "device failed";
    }
    return "unknown status";
}

const char *ckv_error_detail(void)
{
    return detail;
}

/* By way of a copy: a message may quote the one before. */
ckv_status ckv_fail_list(ckv_status status, const char *format, va_list arguments)
{
    char text[sizeof detail];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= (int)sizeof text)
        memcpy(text + sizeof text - sizeof "...", "...", sizeof "...");
    memcpy(detail, text, sizeof text);
    return status;
}

ckv_status ckv_fail(ckv_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ckv_fail_list(status, format, arguments);
    va_end(arguments);
    return status;
}

ckv_status ckv_fail_null(const char *name)
{
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: NULL, wanted a pointer", name);
}
