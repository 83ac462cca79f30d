/* SPDX-License-Identifier: Apache-2.0 */
/* The version that this is compiled as, "MAJOR.MINOR.PATCH". */
#ifndef CKV_LIB_VERSION_H
#define CKV_LIB_VERSION_H

#include <ckv/ckv.h>

#define CKV_STRINGIFY_(x) #x
#define CKV_STRINGIFY(x) CKV_STRINGIFY_(x)
#define CKV_VERSION_TEXT                                                                                               \
    CKV_STRINGIFY(CKV_VERSION_MAJOR) "." CKV_STRINGIFY(CKV_VERSION_MINOR) "." CKV_STRINGIFY(CKV_VERSION_PATCH)

#endif
