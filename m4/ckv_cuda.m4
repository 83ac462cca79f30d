# SPDX-License-Identifier: Apache-2.0
# CKV_CUDA: --with-cuda.  NVCC, which makes the images of the kernels that go into the
# library (conditional CUDA_IMAGES), for the architectures CKV_CUDA_ARCHS: sm_NN is
# machine code, compute_NN is PTX, which drivers translate for devices of that age or
# newer that have no code of their own.  Without nvcc the kernels are built at run time.

AC_DEFUN([CKV_CUDA],
[CKV_WITH([cuda], [nvcc, or the folder of the CUDA toolkit: kernels built ahead for NVIDIA devices])
AC_ARG_VAR([CKV_CUDA_ARCHS], [what nvcc builds kernels for, such as "sm_90 compute_90"])
AC_SUBST([NVCC], [])
AC_SUBST([CKV_NVCC_FLAGS], [])
AC_SUBST([CKV_CUDA_GENCODE], [])
ckv_cuda_summary=no
AS_IF([test "x$ckv_with_cuda" != xno],
    [AS_IF([test -n "$ckv_path_cuda" && test -x "$ckv_path_cuda" && test ! -d "$ckv_path_cuda"],
         [NVCC=$ckv_path_cuda],
         [AC_PATH_PROG([NVCC], [nvcc], [], [${ckv_path_cuda:+$ckv_path_cuda/bin$PATH_SEPARATOR$ckv_path_cuda$PATH_SEPARATOR}$PATH$PATH_SEPARATOR/usr/local/cuda/bin])])
     AS_IF([test -n "$NVCC"], [CKV_CUDA_FLAGS])
     AS_IF([test -z "$CKV_CUDA_GENCODE" && test "x$ckv_with_cuda" = xyes],
         [AC_MSG_ERROR([--with-cuda was asked for, but no working nvcc was found])])])
AM_CONDITIONAL([CUDA_IMAGES], [test -n "$CKV_CUDA_GENCODE"])
ckv_cuda_folder=
AS_IF([test -n "$NVCC"], [ckv_cuda_folder=`dirname "$NVCC"`/../include])
CKV_VENDOR_HEADER([cuda], [cuda.h], [$ckv_cuda_folder /usr/local/cuda/include])
])

# The flags, once nvcc is seen to work.  An architecture that this nvcc lacks is left
# out of the default list and is an error in the user's.
AC_DEFUN([CKV_CUDA_FLAGS],
[AC_MSG_CHECKING([what $NVCC builds for])
ckv_known=`"$NVCC" --list-gpu-code 2>&AS_MESSAGE_LOG_FD | tr '\n' ' '`
ckv_known="$ckv_known `"$NVCC" --list-gpu-arch 2>&AS_MESSAGE_LOG_FD | tr '\n' ' '`"
ckv_archs=${CKV_CUDA_ARCHS:-sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 compute_90}
for ckv_arch in $ckv_archs; do
    AS_CASE([" $ckv_known "],
        [*" $ckv_arch "*], [ckv_number=${ckv_arch@%:@*_}
         CKV_CUDA_GENCODE="$CKV_CUDA_GENCODE -gencode arch=compute_$ckv_number,code=$ckv_arch"
         ckv_cuda_summary="${ckv_cuda_summary@%:@no} $ckv_arch"],
        [AS_IF([test -n "$CKV_CUDA_ARCHS"],
            [AC_MSG_ERROR([CKV_CUDA_ARCHS: $NVCC does not build for '$ckv_arch'; it does for: $ckv_known])])])
done
cat >conftest.cu <<'_CKV_EOF'
extern "C" __global__ void ckv_probe(float *x) { x@<:@threadIdx.x@:>@ += 1.0f; }
_CKV_EOF
for ckv_flag in "" --compress-mode=size; do
    AS_IF(["$NVCC" --fmad=false $ckv_flag -fatbin $CKV_CUDA_GENCODE -o conftest.fatbin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
        [CKV_NVCC_FLAGS="--fmad=false $ckv_flag"])
done
# A kernel that spills registers or has private memory at all: a warning, an error where
# warnings are.  (Another nvcc may do so where ours did not, and the kernel still works.)
ckv_gate="--warn-on-spills,--warn-on-local-memory-usage"
AS_IF([test "x$ckv_werror" != xno], [ckv_gate="$ckv_gate,-Werror"])
AS_IF([test -n "$CKV_NVCC_FLAGS" && "$NVCC" $CKV_NVCC_FLAGS -Xptxas $ckv_gate -fatbin $CKV_CUDA_GENCODE -o conftest.fatbin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
    [CKV_NVCC_FLAGS="$CKV_NVCC_FLAGS -Xptxas $ckv_gate"])
rm -f conftest.cu conftest.fatbin
AS_IF([test -z "$CKV_NVCC_FLAGS"],
    [CKV_CUDA_GENCODE=
     ckv_cuda_summary="no, nvcc does not work"])
AC_MSG_RESULT([$ckv_cuda_summary])
])
