# SPDX-License-Identifier: Apache-2.0
# CKV_SANITIZE: --enable-sanitize=LIST, as in -fsanitize=LIST, into
# CKV_SANITIZE_CFLAGS (for compiling and linking) and the conditional USE_SANITIZE.

AC_DEFUN([CKV_SANITIZE],
[AC_ARG_ENABLE([sanitize],
    [AS_HELP_STRING([--enable-sanitize=LIST], [build with sanitizers: "address,undefined", "thread", ... @<:@no@:>@])],
    [ckv_sanitize=$enableval], [ckv_sanitize=no])
AS_IF([test "x$ckv_sanitize" = xyes], [ckv_sanitize=address,undefined])
AC_SUBST([CKV_SANITIZE_CFLAGS], [])
AS_IF([test "x$ckv_sanitize" != xno],
    [CKV_SANITIZE_CFLAGS="-fsanitize=$ckv_sanitize -fno-sanitize-recover=all -fno-omit-frame-pointer"
     AC_MSG_CHECKING([whether $CC links with -fsanitize=$ckv_sanitize])
     ckv_save_CFLAGS=$CFLAGS
     CFLAGS="$CFLAGS $CKV_SANITIZE_CFLAGS"
     AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
         [AC_MSG_RESULT([no])
          AC_MSG_ERROR([--enable-sanitize=$ckv_sanitize was asked for, but $CC does not link with it])])
     CFLAGS=$ckv_save_CFLAGS])
AM_CONDITIONAL([USE_SANITIZE], [test "x$ckv_sanitize" != xno])
])
