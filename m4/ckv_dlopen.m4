# SPDX-License-Identifier: Apache-2.0
# CKV_DLOPEN: LIBDL, what dlopen and threads need at link time beside libc.

AC_DEFUN([CKV_DLOPEN],
[AC_SUBST([LIBDL], [])
ckv_save_LIBS=$LIBS
AC_SEARCH_LIBS([dlopen], [dl], [], [AC_MSG_ERROR([no dlopen: the GPU backends reach their drivers by it])])
AS_CASE([$ac_cv_search_dlopen], ["none required"], [], [LIBDL=$ac_cv_search_dlopen])
AC_SEARCH_LIBS([pthread_once], [pthread], [], [AC_MSG_ERROR([no pthread_once: POSIX threads are needed])])
AS_CASE([$ac_cv_search_pthread_once], ["none required"], [], [LIBDL="$LIBDL $ac_cv_search_pthread_once"])
LIBS=$ckv_save_LIBS
])
