# SPDX-License-Identifier: Apache-2.0
# CKV_WARNINGS: CKV_WARN_CFLAGS, those of the warnings below that the compiler
# has, and -Werror if --enable-werror.

AC_DEFUN([CKV_WARNINGS],
[AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [warnings as errors @<:@no@:>@])],
    [ckv_werror=$enableval], [ckv_werror=no])
AC_SUBST([CKV_WARN_CFLAGS], [])
m4_foreach_w([ckv_w],
    [-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
     -Wold-style-definition -Wundef -Wvla -Wcast-qual -Wwrite-strings -Wformat=2 -Wdouble-promotion
     -Wpointer-arith -Wimplicit-fallthrough],
    [CKV_FLAG(ckv_w, [CKV_WARN_CFLAGS="$CKV_WARN_CFLAGS ckv_w"])])
AS_IF([test "x$ckv_werror" != xno], [CKV_WARN_CFLAGS="$CKV_WARN_CFLAGS -Werror"])
])
