#!/bin/sh
# Every compiler line of the build turns contraction off, with nothing after it
# that turns it on again, and the library's lines hide its symbols.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

# What make would run if every source were new.
set --
for source in $(cd "$top_srcdir" && find lib backends bench tools tests -name '*.c' -o -name '*.cc'); do
    set -- "$@" -W "$source"
done
# Unquoted: a list of targets.
# shellcheck disable=SC2086
"$MAKE" -C "$top_builddir" -n "$@" V=1 all-am $CHECK_PROGRAMS >"$work/make" 2>&1
grep -e ' -c ' "$work/make" >"$work/lines"
grep -E -e '(lib|backends)/[a-z0-9_/-]*\.c$' "$work/lines" >"$work/library"

# Every line in file $1 turns contraction off for good.
contraction_off() {
    ! grep -v -e ' -ffp-contract=off ' "$1" &&
        ! grep -E -e ' -(ffp-contract=(on|fast|fast-honor-pragmas)|ffast-math|Ofast|funsafe-math-optimizations|fassociative-math) ' "$1"
}

# Every source of the library is compiled, so that every line was looked at; of the
# CPU backend's instruction sets, those of this target.
all_compiled() {
    for source in $(cd "$top_srcdir" && find lib backends -name '*.c'); do
        case $source in
        */gpu/kernels/*) continue ;; # text for devices
        */gpu/module.c) [ -f "$LIBCKV" ] || continue ;;
        */kernels_portable.c) ;;
        */kernels_*) continue ;;
        esac
        grep -q -e "[/ \`]$source\$" "$1" || { echo "$source"; return 1; }
    done
}

expect "all sources of the library are compiled" all_compiled "$work/library"
expect "contraction is off in all $(wc -l <"$work/lines") compiler lines" contraction_off "$work/lines"
echo 'cc -O2 -c -o x.o x.c' >"$work/without"
refuse "a line without -ffp-contract=off is refused" contraction_off "$work/without"
echo 'cc -ffp-contract=off -ffp-contract=fast -c -o x.o x.c' >"$work/undone"
refuse "a line that turns it on again is refused" contraction_off "$work/undone"

symbols_hidden() {
    ! grep -v -e ' -fvisibility=hidden ' "$1"
}
expect "the library's symbols are hidden by default" symbols_hidden "$work/library"
finish
