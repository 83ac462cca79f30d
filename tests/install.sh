#!/bin/sh
# What `make install` installs is enough for a program that knows the library from
# pkg-config alone: examples/evict.c builds against it, runs and prints its result.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"
[ -f "$LIBCKV" ] || skip_all "no shared library in this build"
[ -z "$USE_SANITIZE" ] || skip_all "a sanitised library wants a sanitised program"
[ -n "$PKG_CONFIG" ] || skip_all "no pkg-config"
root=$work/root

expect "make install" "$MAKE" -C "$top_builddir" install DESTDIR="$root"

only_its_header() {
    find "$root" -name '*.h' | sed 's|.*/include/||' | tee "$work/headers"
    [ "$(cat "$work/headers")" = ckv/ckv.h ]
}
expect "ckv/ckv.h is the one header installed" only_its_header

# The installed tree stands in $root, so pkg-config prefixes its paths; system
# paths are allowed since -I and -L are needed even when the prefix is /usr.
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name ckv.pc)")
PKG_CONFIG_SYSROOT_DIR=$root
PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_ALLOW_SYSTEM_CFLAGS PKG_CONFIG_ALLOW_SYSTEM_LIBS

has_version() {
    [ "$("$PKG_CONFIG" --modversion ckv)" = "$VERSION" ]
}
expect "pkg-config knows the version" has_version

# From elsewhere, so that nothing of the build or source tree is found by chance.
cp "$top_srcdir/examples/evict.c" "$work/" && cd "$work" || exit 99

# Unquoted from here on: CC and what pkg-config prints are lists.
# shellcheck disable=SC2046,SC2086
builds() {
    $CC -std=c11 -Wall -Wextra -Wpedantic -Werror evict.c $("$PKG_CONFIG" --cflags --libs ckv) -o evict
}
expect "the example builds with pkg-config's flags alone" builds

runs() {
    LD_LIBRARY_PATH=$(dirname "$(find "$root" -name libckv.so)") ./evict >out 2>err
    status=$?
    cat out err
    [ "$status" -eq 0 ] && [ -s out ] && [ ! -s err ]
}
expect "the example runs, prints and does not complain" runs

prints_rows_kept() {
    [ "$(cat out)" = "kept 40 of 200 rows per head; the next token has position 200" ]
}
expect "the example prints what it kept" prints_rows_kept

if [ -n "$(find "$root" -name libckv.a)" ]; then
    # shellcheck disable=SC2046,SC2086
    builds_static() {
        $CC -std=c11 evict.c $("$PKG_CONFIG" --cflags ckv) "$(find "$root" -name libckv.a)" \
            $("$PKG_CONFIG" --static --libs-only-l --libs-only-other ckv | sed 's/-lckv//') -o evict-static
    }
    same_static() {
        ./evict-static | diff out -
    }
    expect "the example links statically with the private libraries of ckv.pc" builds_static
    expect "the static example prints the same" same_static
fi

# The shipped tuning file is found beside the library, wherever that was moved.
finds_tuning() {
    lib=$(dirname "$(find "$root" -name libckv.so)")
    CKV_TUNE_CACHE=$work/none.json LD_LIBRARY_PATH=$lib "$(find "$root" -path '*/bin/ckv')" info >"$work/info" || return 1
    cat "$work/info"
    shipped=$(sed -n 's/^shipped *//p' "$work/info")
    case $shipped in "$root"/*/tuning/defaults.json) [ -f "$shipped" ] ;; *) return 1 ;; esac
}
if [ -n "$(find "$root" -path '*/bin/ckv')" ]; then
    expect "the installed library finds its tuning file" finds_tuning
    mv "$(find "$root" -name defaults.json)" "$work/"
    refuse "without it there is none" finds_tuning
    mv "$work/defaults.json" "$(find "$root" -type d -name tuning)/"
fi

# Modules stand beside the library, and are found there wherever the tree is moved.
if [ -n "$CKV_MODULES" ]; then
    with_modules() {
        for module in $CKV_MODULES; do
            [ -f "$(dirname "$(find "$root" -name libckv.so)")/ckv/ckv-$module.so" ] || { echo "no $module"; return 1; }
        done
    }
    expect "its modules are installed beside the library: $CKV_MODULES" with_modules
    if [ -x "$(find "$root" -name ckv -path '*/bin/*')" ]; then
        moved() {
            cp -R "$root" "$work/else where" || return 1
            env -u CKV_MODULE_PATH LD_LIBRARY_PATH="$(dirname "$(find "$work/else where" -name libckv.so)")" \
                "$(find "$work/else where" -name ckv -path '*/bin/*')" info >"$work/info" 2>&1 || return 1
            cat "$work/info"
            for module in $CKV_MODULES; do
                grep -q "^$module " "$work/info" || return 1
            done
            ! grep -q 'a module of its own' "$work/info"
        }
        expect "a moved tree finds them" moved
        unfound() {
            find "$work/else where" -name 'ckv-*.so' -exec rm {} +
            moved_info=$(env -u CKV_MODULE_PATH LD_LIBRARY_PATH="$(dirname "$(find "$work/else where" -name libckv.so)")" \
                "$(find "$work/else where" -name ckv -path '*/bin/*')" info)
            echo "$moved_info"
            echo "$moved_info" | grep -q 'a module of its own: no ckv-.*else where'
        }
        expect "and says where it looked for those that are not there" unfound
    fi
fi

nothing_left() {
    "$MAKE" -C "$top_builddir" uninstall DESTDIR="$root" >/dev/null || return 1
    find "$root" -type f -o -type l | tee "$work/left"
    [ ! -s "$work/left" ]
}
expect "make uninstall leaves nothing" nothing_left
finish
