# SPDX-License-Identifier: Apache-2.0
# CKV_MODULES: --enable-modules=yes|no|LIST, the GPU backends that become modules beside the
# library instead of parts of it; conditionals MODULE_CUDA, MODULE_HIP, MODULE_OPENCL, and
# SHARED, where a module can be built at all.  CKV_WHOLE_LDFLAGS makes the linker refuse a
# module that leaves a function open, CKV_STAY_LDFLAGS keeps the library loaded.

AC_DEFUN([CKV_MODULES],
[AC_ARG_ENABLE([modules],
    [AS_HELP_STRING([--enable-modules=yes|no|LIST],
        [build these backends (cuda,hip,opencl) as modules, loaded when they are wanted @<:@no@:>@])],
    [ckv_modules=$enableval], [ckv_modules=no])
AS_CASE([$ckv_modules], [yes], [ckv_modules=cuda,hip,opencl], [no], [ckv_modules=])
ckv_modules=`echo "$ckv_modules" | tr ',' ' '`
for ckv_module in $ckv_modules; do
    AS_CASE([$ckv_module], [cuda|hip|opencl], [],
        [AC_MSG_ERROR([--enable-modules takes yes, no or a list of cuda, hip and opencl, not '$ckv_module'])])
done
AS_IF([test -n "$ckv_modules" && test "x$enable_shared" != xyes],
    [AC_MSG_ERROR([--enable-modules needs a shared library: a module shares the core that loads it; leave out --disable-shared])])
AM_CONDITIONAL([MODULE_CUDA], [AS_CASE([" $ckv_modules "], [*" cuda "*], [:], [false])])
AM_CONDITIONAL([MODULE_HIP], [AS_CASE([" $ckv_modules "], [*" hip "*], [:], [false])])
AM_CONDITIONAL([MODULE_OPENCL], [AS_CASE([" $ckv_modules "], [*" opencl "*], [:], [false])])
AM_CONDITIONAL([MODULES_ALL], [test `echo $ckv_modules | tr ' ' '\n' | sort -u | wc -l` -eq 3])
AM_CONDITIONAL([SHARED], [test "x$enable_shared" = xyes && test "x$CKV_SANITIZE_CFLAGS" = x])
ckv_modules_summary=${ckv_modules:-none}
AC_SUBST([CKV_MODULES], [$ckv_modules])
AC_SUBST([CKV_WHOLE_LDFLAGS], [])
AC_SUBST([CKV_STAY_LDFLAGS], [])
CKV_LDFLAG([-Wl,-z,defs], [CKV_WHOLE_LDFLAGS=-Wl,-z,defs])
CKV_LDFLAG([-Wl,-z,nodelete], [CKV_STAY_LDFLAGS=-Wl,-z,nodelete])
])

# CKV_LDFLAG(FLAG, IF-TAKEN): does the linker take FLAG for a shared object?
AC_DEFUN([CKV_LDFLAG],
[AC_MSG_CHECKING([whether the linker takes $1])
ckv_save_LDFLAGS=$LDFLAGS
ckv_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS -fPIC"
LDFLAGS="$LDFLAGS -shared $1"
AC_LINK_IFELSE([AC_LANG_SOURCE([[int ckv_probe(void); int ckv_probe(void) { return 0; }]])],
    [AC_MSG_RESULT([yes])
     $2],
    [AC_MSG_RESULT([no])])
LDFLAGS=$ckv_save_LDFLAGS
CFLAGS=$ckv_save_CFLAGS
])
