# SPDX-License-Identifier: Apache-2.0
# What the three GPU toolkits' macros share.  No toolkit is needed: the drivers are
# always built, against declarations of our own.
#
# CKV_WITH(NAME, WHAT): --with-NAME=yes|no|auto|PATH into ckv_with_NAME and, for a
#   PATH, ckv_path_NAME (then ckv_with_NAME is yes).
# CKV_VENDOR_HEADER(NAME, HEADER, FOLDERS, FLAGS): looks for the vendor's own header;
#   VENDOR_NAME (yes or no) and VENDOR_NAME_CPPFLAGS, for tests/vendor.sh.

AC_DEFUN([CKV_WITH],
[AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1=yes|no|auto|PATH], [$2 @<:@auto@:>@])],
    [ckv_with_$1=$withval], [ckv_with_$1=auto])
ckv_path_$1=
AS_CASE([$ckv_with_$1],
    [yes|no|auto], [],
    [/*], [ckv_path_$1=$ckv_with_$1
     ckv_with_$1=yes],
    [AC_MSG_ERROR([--with-$1 takes yes, no, auto or an absolute path, not '$ckv_with_$1'])])
])

AC_DEFUN([CKV_VENDOR_HEADER],
[AC_SUBST([VENDOR_]m4_toupper([$1])[_CPPFLAGS], [])
ckv_vendor_$1=no
AS_IF([test "x$ckv_with_$1" != xno],
    [AC_MSG_CHECKING([for $2])
     ckv_save_CPPFLAGS=$CPPFLAGS
     for ckv_folder in "" $3; do
         ckv_flags="$4"
         AS_IF([test -n "$ckv_folder"], [ckv_flags="$ckv_flags -isystem $ckv_folder"])
         CPPFLAGS="$ckv_save_CPPFLAGS $ckv_flags"
         AC_COMPILE_IFELSE([AC_LANG_SOURCE([[#include <$2>
int ckv_probe;]])],
             [ckv_vendor_$1=yes
              VENDOR_]m4_toupper([$1])[_CPPFLAGS=$ckv_flags
              break])
     done
     CPPFLAGS=$ckv_save_CPPFLAGS
     AC_MSG_RESULT([$ckv_vendor_$1])])
AC_SUBST([VENDOR_]m4_toupper([$1]), [$ckv_vendor_$1])
])
