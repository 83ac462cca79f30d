# SPDX-License-Identifier: Apache-2.0
# CKV_CONTRACTION: the floating-point ground rules of docs/specification.md.
# Every result is fixed to the last bit, so a compiler that fuses a*b+c on its
# own, reorders sums, or keeps floats in wider registers, gives wrong answers
# rather than faster ones.  Starts CKV_CFLAGS, which every compiler line carries.

AC_DEFUN([CKV_CONTRACTION],
[AC_SUBST([CKV_CFLAGS], [])
CKV_FLAG([-ffp-contract=off], [CKV_CFLAGS="-ffp-contract=off"],
    [AC_MSG_ERROR([$CC does not take -ffp-contract=off, without which results differ from machine to machine])])

# The user's flags come last on a line and would win.
for ckv_flag in $CC $CPPFLAGS $CFLAGS; do
    AS_CASE([$ckv_flag],
        [-ffp-contract=off], [],
        [-ffast-math|-Ofast|-ffp-contract=*|-ffp-model=*|-fassociative-math|-freciprocal-math|-funsafe-math-optimizations|-ffinite-math-only|-fno-signed-zeros],
        [AC_MSG_ERROR([$ckv_flag changes floating-point results; take it out of CC, CPPFLAGS and CFLAGS])])
done
AC_MSG_CHECKING([that floating point follows IEEE 754 (no -ffast-math)])
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__ == 1) || \
    defined __ASSOCIATIVE_MATH__ || defined __RECIPROCAL_MATH__
#error fast math
#endif
int ckv_probe;
]])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$CC with CFLAGS="$CFLAGS" has fast-math on, which changes results; turn it off])])
AC_MSG_CHECKING([that float arithmetic is done in float])
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include <float.h>
#if FLT_EVAL_METHOD != 0 || FLT_RADIX != 2 || FLT_MANT_DIG != 24
#error not binary32
#endif
int ckv_probe;
]])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$CC evaluates float in another precision (FLT_EVAL_METHOD is not 0); on 32-bit x86 add -msse2 -mfpmath=sse to CFLAGS])])
])
