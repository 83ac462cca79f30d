/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: the detail message, and growing structs. */
#ifndef CKV_LIB_STATUS_H
#define CKV_LIB_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#include <ckv/ckv.h>

#if defined(__GNUC__)
#define CKV_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CKV_PRINTF(text, first)
#endif

/* Sets this thread's detail and returns `status`. */
ckv_status ckv_fail(ckv_status status, const char *format, ...) CKV_PRINTF(2, 3);

/* The same, as a module's comes here. */
ckv_status ckv_fail_list(ckv_status status, const char *format, va_list arguments) CKV_PRINTF(2, 0);

ckv_status ckv_fail_null(const char *name);

/* Copies a caller's growing struct into `known`, of `known_size` bytes: what the
 * caller's version lacks stays as it is in `known`; what this version does not
 * know must be zero.  `least` is the size in the first version that had it. */
ckv_status ckv_struct_read(void *known, size_t known_size, size_t least, const void *given, const char *name);

/* The other way: fills as much of the caller's struct as it has room for. */
ckv_status ckv_struct_write(void *given, const void *known, size_t known_size, size_t least, const char *name);

#endif
