# SPDX-License-Identifier: Apache-2.0
# CKV_CMOCKA: CMOCKA_CFLAGS and CMOCKA_LIBS for the unit tests; ckv_have_cmocka.

AC_DEFUN([CKV_CMOCKA],
[ckv_have_cmocka=no
AS_IF([test "x$ckv_want_tests" != xno],
    [PKG_CHECK_MODULES([CMOCKA], [cmocka >= 1.1.5], [ckv_have_cmocka=yes], [:])])
])
