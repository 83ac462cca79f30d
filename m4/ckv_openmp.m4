# SPDX-License-Identifier: Apache-2.0
# CKV_OPENMP: OPENMP_CFLAGS, for the CPU backend's threads alone; --disable-openmp
# builds it for one thread (or the engine's own, see ckv_context_options).

AC_DEFUN([CKV_OPENMP],
[AC_OPENMP
AS_IF([test "x$OPENMP_CFLAGS" = x], [ckv_openmp=no], [ckv_openmp=yes])
])
