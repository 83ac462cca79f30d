# SPDX-License-Identifier: Apache-2.0
# CKV_OPTION(NAME, WHAT, DEFAULT): --enable-NAME=yes|no|auto into ckv_want_NAME.
# CKV_RESOLVE(NAME, HAVE:WHAT...): settles ckv_use_NAME, each HAVE being yes or no.
#   yes and something missing is an error; auto takes it when all is there.
#   Sets the automake conditional USE_NAME.

AC_DEFUN([CKV_OPTION],
[AC_ARG_ENABLE([$1],
    [AS_HELP_STRING([--enable-$1=yes|no|auto], [$2 @<:@$3@:>@])],
    [ckv_want_$1=$enableval], [ckv_want_$1=$3])
AS_CASE([$ckv_want_$1], [yes|no|auto], [],
    [AC_MSG_ERROR([--enable-$1 takes yes, no or auto, not '$ckv_want_$1'])])
])

AC_DEFUN([CKV_RESOLVE],
[ckv_missing=
for ckv_need in m4_normalize(m4_join([ ], m4_shift($@))); do
    AS_CASE([$ckv_need], [yes:*], [:], [ckv_missing="$ckv_missing ${ckv_need@%:@*:}"])
done
AS_CASE([$ckv_want_$1:$ckv_missing],
    [no:*], [ckv_use_$1=no],
    [*:], [ckv_use_$1=yes],
    [yes:*], [AC_MSG_ERROR([--enable-$1 was asked for, but missing:$ckv_missing])],
    [AC_MSG_WARN([$1 left out, missing:$ckv_missing])
     ckv_use_$1=no])
AM_CONDITIONAL([USE_]m4_toupper([$1]), [test "x$ckv_use_$1" = xyes])
])
