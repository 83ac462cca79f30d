# SPDX-License-Identifier: Apache-2.0
# CKV_DLOPEN: DLOPEN_LIBS, for `ckv bench`, which looks for OpenBLAS when it runs; empty
# where libc has dlopen.

AC_DEFUN([CKV_DLOPEN],
[AC_SUBST([DLOPEN_LIBS], [])
ckv_save_LIBS=$LIBS
AC_SEARCH_LIBS([dlopen], [dl])
LIBS=$ckv_save_LIBS
AS_CASE([$ac_cv_search_dlopen], [-l*], [DLOPEN_LIBS=$ac_cv_search_dlopen])
])
