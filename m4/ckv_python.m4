# SPDX-License-Identifier: Apache-2.0
# CKV_PYTHON: --with-python=auto|yes|no|PROGRAM into PYTHON, a python3 that has
# numpy and pytest.  The first python3 of PATH may be someone's own without them
# while the system's has both, so /usr/bin/python3 is tried too.  Without one the
# tests written in Python are skipped.

AC_DEFUN([CKV_PYTHON],
[AC_ARG_VAR([PYTHON], [python3 with numpy and pytest, for tests])
AC_ARG_WITH([python],
    [AS_HELP_STRING([--with-python=yes|no|auto|PROGRAM], [python3 with numpy and pytest, for tests @<:@auto@:>@])],
    [ckv_want_python=$withval], [ckv_want_python=auto])
AS_CASE([$ckv_want_python],
    [no], [ckv_candidates=],
    [yes|auto], [ckv_candidates="$PYTHON python3 /usr/bin/python3"],
    [ckv_candidates=$ckv_want_python
     ckv_want_python=yes])
AC_MSG_CHECKING([for a python3 with numpy and pytest])
PYTHON=
for ckv_python in $ckv_candidates; do
    AS_IF(["$ckv_python" -c 'import sys, numpy, pytest; assert sys.version_info >= (3, 9)' >&AS_MESSAGE_LOG_FD 2>&1],
        [PYTHON=$ckv_python
         break])
done
ckv_python_summary=${PYTHON:-no}
AC_MSG_RESULT([$ckv_python_summary])
AS_IF([test "x$ckv_want_python" = xyes && test -z "$PYTHON"],
    [AC_MSG_ERROR([--with-python was asked for, but no python3 with numpy and pytest was found])])
])
