# SPDX-License-Identifier: Apache-2.0
# CKV_BATS: BATS, which runs the command's tests; ckv_have_bats.

AC_DEFUN([CKV_BATS],
[ckv_have_bats=no
AC_CHECK_PROG([BATS], [bats], [bats])
AS_IF([test -n "$BATS"], [ckv_have_bats=yes])
])
