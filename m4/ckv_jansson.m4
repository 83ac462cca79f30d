# SPDX-License-Identifier: Apache-2.0
# CKV_JANSSON: JANSSON_CFLAGS and JANSSON_LIBS, the command's JSON; ckv_have_jansson.

AC_DEFUN([CKV_JANSSON],
[ckv_have_jansson=no
AS_IF([test "x$ckv_want_tools" != xno],
    [PKG_CHECK_MODULES([JANSSON], [jansson >= 2.11], [ckv_have_jansson=yes], [:])])
])
