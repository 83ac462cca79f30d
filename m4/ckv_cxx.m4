# SPDX-License-Identifier: Apache-2.0
# CKV_CXX: is there a C++ compiler that has std::nth_element?  For one peer of `ckv
# bench`, which is left out without; the conditional USE_CXX.

AC_DEFUN([CKV_CXX],
[AC_PROG_CXX
AC_LANG_PUSH([C++])
AC_MSG_CHECKING([whether there is a C++ compiler, for one peer of ckv bench])
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <algorithm>]],
    [[int a[2] = {1, 0}; std::nth_element(a, a + 1, a + 2, [](int x, int y) { return x > y; });]])],
    [ckv_use_cxx=yes], [ckv_use_cxx=no])
AC_MSG_RESULT([$ckv_use_cxx])
AC_LANG_POP([C++])
AM_CONDITIONAL([USE_CXX], [test "x$ckv_use_cxx" = xyes])
])
