#!/bin/sh
# The shared library exports the symbols of lib/libckv.symbols and no others, a module its
# one, and none needs libraries but libc, libm and the OpenMP runtime.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
[ -f "$LIBCKV" ] || skip_all "no shared library in this build"
[ -z "$USE_SANITIZE" ] || skip_all "sanitizers export and need more"
list=$top_srcdir/lib/libckv.symbols

# The exports are those of list $1.
exports() {
    # Unquoted: NM may hold options.
    # shellcheck disable=SC2086
    $NM -D --defined-only "$LIBCKV" | awk '{ print $3 }' | LC_ALL=C sort >"$work/exported"
    LC_ALL=C sort "$1" | diff - "$work/exported"
}

expect "exports are those listed" exports "$list"
{ cat "$list"; echo ckv_no_such_function; } >"$work/more"
refuse "a list with one symbol more is refused" exports "$work/more"
sed 1d "$list" >"$work/fewer"
refuse "a list with one symbol fewer is refused" exports "$work/fewer"

# $1 needs those alone.  The loader, where it is named, is a part of libc.
needs_little() {
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' >"$work/needed"
    cat "$work/needed"
    [ -s "$work/needed" ] || return 1
    ! grep -Ev '^(libc|libm|libpthread|libgomp|ld-linux[-a-z0-9_]*|ld64)\.so\.[0-9]+$|^libc\.musl|^lib(i|)omp[0-9]*\.so' "$work/needed"
}

# $1 exports what a module does.
one_symbol() {
    # shellcheck disable=SC2086
    [ "$($NM -D --defined-only "$1" | awk '{ print $3 }')" = ckv_module_entry ]
}

if command -v readelf >/dev/null 2>&1; then
    expect "only libc, libm and the OpenMP runtime are needed" needs_little "$LIBCKV"
    for module in "$top_builddir"/.libs/ckv-*.so; do
        [ -f "$module" ] || continue
        name=${module##*/}
        expect "$name: the same" needs_little "$module"
        expect "$name exports one symbol" one_symbol "$module"
    done
    refuse "a library that exports others is refused" one_symbol "$LIBCKV"
    if [ -f "$top_builddir/.libs/ckv" ]; then
        refuse "a program that needs more is refused" needs_little "$top_builddir/.libs/ckv"
    fi
fi
finish
