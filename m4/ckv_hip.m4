# SPDX-License-Identifier: Apache-2.0
# CKV_HIP: --with-hip.  CKV_HIP_CLANG, a clang that makes code objects for AMD devices
# with no header and no device library; conditional HIP_IMAGES, architectures
# CKV_HIP_ARCHS.  Without one the kernels are built at run time.

AC_DEFUN([CKV_HIP],
[CKV_WITH([hip], [clang for AMD devices, or the folder of ROCm: kernels built ahead for AMD devices])
AC_ARG_VAR([CKV_HIP_ARCHS], [what clang builds kernels for, such as "gfx90a gfx942"])
AC_ARG_VAR([CKV_HIP_CLANG], [clang with the AMDGPU target and lld])
AC_SUBST([CKV_HIP_FLAGS], ["-x hip --offload-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -std=c++17 -O3 -ffp-contract=off"])
AC_SUBST([CKV_HIP_GATE], [warn])
AS_IF([test "x$ckv_werror" != xno], [CKV_HIP_GATE=error])
ckv_hip_summary=no
AS_IF([test "x$ckv_with_hip" != xno],
    [ckv_candidates="$CKV_HIP_CLANG clang-21 clang-20 clang-19 clang /opt/rocm/llvm/bin/clang"
     AS_IF([test -n "$ckv_path_hip"],
         [AS_IF([test -d "$ckv_path_hip"], [ckv_candidates="$ckv_path_hip/llvm/bin/clang"], [ckv_candidates=$ckv_path_hip])])
     AC_MSG_CHECKING([for a clang that makes AMD code objects])
     echo '__attribute__((global)) void ckv_probe(float *x) { x@<:@__builtin_amdgcn_workitem_id_x()@:>@ += 1.0f; }' >conftest.hip
     CKV_HIP_CLANG=
     for ckv_clang in $ckv_candidates; do
         ckv_hip_summary=
         for ckv_arch in ${CKV_HIP_ARCHS:-gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1201}; do
             AS_IF(["$ckv_clang" $CKV_HIP_FLAGS --offload-arch=$ckv_arch -o conftest.co conftest.hip >&AS_MESSAGE_LOG_FD 2>&1],
                 [ckv_hip_summary="$ckv_hip_summary $ckv_arch"],
                 [AS_IF([test -n "$CKV_HIP_ARCHS"],
                     [ckv_hip_summary=
                      break])])
         done
         AS_IF([test -n "$ckv_hip_summary"],
             [CKV_HIP_CLANG=$ckv_clang
              break])
     done
     rm -f conftest.hip conftest.co
     AC_MSG_RESULT([${CKV_HIP_CLANG:-no}$ckv_hip_summary])
     AS_IF([test -z "$CKV_HIP_CLANG"],
         [AS_IF([test "x$ckv_with_hip" = xyes || test -n "$CKV_HIP_ARCHS"],
             [AC_MSG_ERROR([--with-hip or CKV_HIP_ARCHS was given, but no clang makes code objects for ${CKV_HIP_ARCHS:-AMD devices}])])
          ckv_hip_summary=no],
         [CKV_HIP_ARCHS=$ckv_hip_summary])])
AM_CONDITIONAL([HIP_IMAGES], [test -n "$CKV_HIP_CLANG" && test "x$ckv_hip_summary" != xno])
CKV_VENDOR_HEADER([hip], [hip/hip_runtime_api.h], [/opt/rocm/include], [-D__HIP_PLATFORM_AMD__])
])
