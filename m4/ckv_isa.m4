# SPDX-License-Identifier: Apache-2.0
# CKV_ISA: for each instruction set of the CPU backend the flags that its own file is
# compiled with, and a conditional that says whether this compiler and target take it.
# Which one runs is decided at run time.

AC_DEFUN([CKV_ISA],
[AC_REQUIRE([AC_CANONICAL_HOST])
CKV_ISA_ONE([AVX2], [-mavx2 -mfma -mf16c], [x86_64|i?86])
CKV_ISA_ONE([AVXVNNI], [-mavx2 -mfma -mf16c -mavxvnni], [x86_64])
CKV_ISA_ONE([AVX512], [-mavx2 -mfma -mf16c -mavx512f -mavx512bw], [x86_64])
CKV_ISA_ONE([AVX512VNNI], [-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vnni], [x86_64])
CKV_ISA_ONE([NEON], [], [aarch64])
CKV_ISA_ONE([NEON_DOTPROD], [-march=armv8.2-a+dotprod], [aarch64])
CKV_ISA_ONE([NEON_I8MM], [-march=armv8.2-a+i8mm], [aarch64])
])

# CKV_ISA_ONE(NAME, FLAGS, TARGETS)
AC_DEFUN([CKV_ISA_ONE],
[AS_CASE([$host_cpu],
    [$3], [AS_IF([test "x$2" = x], [ckv_use_isa_$1=yes],
        [CKV_FLAG([$2], [ckv_use_isa_$1=yes], [ckv_use_isa_$1=no])])],
    [ckv_use_isa_$1=no])
AM_CONDITIONAL([ISA_$1], [test "x$ckv_use_isa_$1" = xyes])
AS_IF([test "x$ckv_use_isa_$1" = xyes],
    [ckv_isa_summary="$ckv_isa_summary m4_tolower([$1])"
     CKV_ISA_DEFINES="$CKV_ISA_DEFINES -DCKV_CPU_$1"])
AC_SUBST([CKV_ISA_DEFINES])
])
