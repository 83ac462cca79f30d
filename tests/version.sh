#!/bin/sh
# configure.ac, the header, ckv.pc, CHANGELOG.md and the command give one version.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

# is VERSION: as configure.ac has it.
is() {
    echo "$1, configure.ac has $VERSION"
    [ "$1" = "$VERSION" ]
}
part() {
    sed -n "s/^#define CKV_VERSION_$1 \([0-9]*\)\$/\1/p" "$top_srcdir/include/ckv/ckv.h"
}

expect "ckv.h" is "$(part MAJOR).$(part MINOR).$(part PATCH)"
expect "ckv.pc" is "$(sed -n 's/^Version: //p' "$top_builddir/ckv.pc")"
expect "the top entry of CHANGELOG.md" is "$(sed -n 's/^## \[\([0-9.]*\)\].*/\1/p' "$top_srcdir/CHANGELOG.md" | head -n 1)"
if [ -x "$CKV" ]; then
    expect "ckv --version" is "$("$CKV" --version | sed -n '1s/^[^0-9]*\([0-9.]*\).*/\1/p')"
fi
finish
