# SPDX-License-Identifier: Apache-2.0
# CKV_OPENCL: --with-opencl.  Devices build their kernels at run time; all that there is
# to find is the header to check ours against.

AC_DEFUN([CKV_OPENCL],
[CKV_WITH([opencl], [the folder of CL/cl.h, for a test of our own declarations])
CKV_VENDOR_HEADER([opencl], [CL/cl.h], [$ckv_path_opencl $ckv_path_opencl/include], [-DCL_TARGET_OPENCL_VERSION=300])
AS_IF([test "x$ckv_with_opencl$ckv_vendor_opencl" = xyesno],
    [AC_MSG_ERROR([--with-opencl was asked for, but there is no CL/cl.h])])
])
