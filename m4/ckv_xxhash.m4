# SPDX-License-Identifier: Apache-2.0
# CKV_XXHASH: XXHASH_CFLAGS and XXHASH_LIBS, the hash of ckv verify; ckv_have_xxhash.
# XXH3's results are fixed since 0.8.0.

AC_DEFUN([CKV_XXHASH],
[ckv_have_xxhash=no
AS_IF([test "x$ckv_want_tools" != xno],
    [PKG_CHECK_MODULES([XXHASH], [libxxhash >= 0.8.0], [ckv_have_xxhash=yes], [:])])
])
