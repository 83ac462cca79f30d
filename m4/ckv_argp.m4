# SPDX-License-Identifier: Apache-2.0
# CKV_ARGP: ARGP_LIBS, empty where libc has argp_parse (glibc), -largp where
# argp-standalone gives it; ckv_have_argp.

AC_DEFUN([CKV_ARGP],
[AC_SUBST([ARGP_LIBS], [])
ckv_have_argp=no
AS_IF([test "x$ckv_want_tools" != xno],
    [ckv_save_LIBS=$LIBS
     AC_SEARCH_LIBS([argp_parse], [argp], [ckv_have_argp=yes])
     LIBS=$ckv_save_LIBS
     AS_CASE([$ac_cv_search_argp_parse], [-l*], [ARGP_LIBS=$ac_cv_search_argp_parse])])
])
