/* SPDX-License-Identifier: Apache-2.0 */
/* Growing structs: between the caller's version of one and this one. */
#include <string.h>

#include "status.h"

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
