/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler that this is compiled with, "gcc 12.2.0". */
#ifndef CKV_LIB_COMPILER_H
#define CKV_LIB_COMPILER_H

#if defined(__clang__)
#define CKV_COMPILER_TEXT "clang " __clang_version__
#elif defined(__GNUC__)
#define CKV_COMPILER_TEXT "gcc " __VERSION__
#else
#define CKV_COMPILER_TEXT "unknown"
#endif

#endif
