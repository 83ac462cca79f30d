/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: names of statuses, each thread's detail message, and growing structs. */
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

static ckv_status struct_size(const void *given, size_t least, const char *name, size_t *size)
{
    if (given == NULL)
        return ckv_fail_null(name);
    memcpy(size, given, sizeof *size);
    if (*size < least || *size > 65536)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: struct_size %zu, wanted the size of the struct, at least %zu",
                        name, *size, least);
    return CKV_OK;
}

ckv_status ckv_struct_read(void *known, size_t known_size, size_t least, const void *given, const char *name)
{
    size_t size = 0;
    ckv_status status = struct_size(given, least, name, &size);
    if (status != CKV_OK)
        return status;
    for (size_t i = known_size; i < size; i++)
        if (((const unsigned char *)given)[i] != 0)
            return ckv_fail(CKV_ERROR_INVALID_ARGUMENT,
                            "%s: byte %zu is set, in a field that this version (%s) does not have", name, i,
                            ckv_version());
    memcpy(known, given, size < known_size ? size : known_size);
    return CKV_OK;
}

ckv_status ckv_struct_write(void *given, const void *known, size_t known_size, size_t least, const char *name)
{
    size_t size = 0;
    ckv_status status = struct_size(given, least, name, &size);
    if (status != CKV_OK)
        return status;
    if (size > known_size)
        memset((unsigned char *)given + known_size, 0, size - known_size);
    memcpy(given, known, size < known_size ? size : known_size);
    memcpy(given, &size, sizeof size);
    return CKV_OK;
}
