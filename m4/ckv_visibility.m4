# SPDX-License-Identifier: Apache-2.0
# CKV_VISIBILITY: CKV_VISIBILITY_CFLAGS, which hides what CKV_API does not mark.

AC_DEFUN([CKV_VISIBILITY],
[AC_SUBST([CKV_VISIBILITY_CFLAGS], [])
CKV_FLAG([-fvisibility=hidden], [CKV_VISIBILITY_CFLAGS=-fvisibility=hidden])
])
