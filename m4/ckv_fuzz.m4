# SPDX-License-Identifier: Apache-2.0
# CKV_FUZZ: --enable-fuzz.  CKV_FUZZ_CFLAGS instruments every object,
# CKV_FUZZ_LDFLAGS brings libFuzzer's main to a fuzzer; conditional USE_FUZZ.

AC_DEFUN([CKV_FUZZ],
[AC_SUBST([CKV_FUZZ_CFLAGS], [])
AC_SUBST([CKV_FUZZ_LDFLAGS], [])
ckv_have_libfuzzer=no
AS_IF([test "x$ckv_want_fuzz" != xno],
    [AC_MSG_CHECKING([whether $CC links with -fsanitize=fuzzer])
     ckv_save_CFLAGS=$CFLAGS
     CFLAGS="$CFLAGS -fsanitize=fuzzer"
     AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return data == NULL && size > 0; }
]])], [ckv_have_libfuzzer=yes])
     CFLAGS=$ckv_save_CFLAGS
     AC_MSG_RESULT([$ckv_have_libfuzzer])])
CKV_RESOLVE([fuzz], [$ckv_have_libfuzzer:libFuzzer])
AS_IF([test "x$ckv_use_fuzz" = xyes],
    [CKV_FUZZ_CFLAGS=-fsanitize=fuzzer-no-link
     CKV_FUZZ_LDFLAGS=-fsanitize=fuzzer])
])
