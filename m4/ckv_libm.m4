# SPDX-License-Identifier: Apache-2.0
# CKV_LIBM: LIBM, what fmaf needs at link time beside libc.

AC_DEFUN([CKV_LIBM],
[AC_SUBST([LIBM], [])
ckv_save_LIBS=$LIBS
AC_SEARCH_LIBS([fmaf], [m], [], [AC_MSG_ERROR([no fmaf: the C library's math functions are needed])])
AS_CASE([$ac_cv_search_fmaf], ["none required"], [], [LIBM=$ac_cv_search_fmaf])
LIBS=$ckv_save_LIBS
])
