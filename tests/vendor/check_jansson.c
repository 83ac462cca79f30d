/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include <jansson.h>

_Static_assert(offsetof(json_t, type) == 0 && sizeof(json_type) == sizeof(int), "type");
_Static_assert(offsetof(json_t, refcount) == sizeof(size_t) && sizeof(json_t) == 2 * sizeof(size_t), "refcount");
_Static_assert(offsetof(json_error_t, source) == 3 * sizeof(int) &&
                   offsetof(json_error_t, text) == 3 * sizeof(int) + 80 &&
                   sizeof(json_error_t) == 3 * sizeof(int) + 240,
               "json_error_t");

#define CKV_DEF "jansson.def"
#include "check.h"
