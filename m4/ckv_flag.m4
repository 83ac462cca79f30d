# SPDX-License-Identifier: Apache-2.0
# CKV_FLAG(FLAG, IF-TAKEN, IF-NOT, EXTRA-FLAGS): does the C compiler take FLAG?
# -Werror in the probe, since clang only warns of a flag it does not know; the
# probe's own warnings come from nowhere else.

AC_DEFUN([CKV_FLAG],
[AS_VAR_PUSHDEF([taken], [ckv_cv_cflag_$1])
AC_CACHE_CHECK([whether $CC takes $1], [taken],
    [ckv_save_CFLAGS=$CFLAGS
     CFLAGS="$CFLAGS -Werror $4 $1"
     AC_COMPILE_IFELSE([AC_LANG_SOURCE([[int ckv_probe(void); int ckv_probe(void) { return 0; }]])],
         [AS_VAR_SET([taken], [yes])], [AS_VAR_SET([taken], [no])])
     CFLAGS=$ckv_save_CFLAGS])
AS_VAR_IF([taken], [yes], [$2], [$3])
AS_VAR_POPDEF([taken])
])
