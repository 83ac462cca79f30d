#!/bin/sh
# Each installed header compiles alone, as C11 and as C++17, without a warning.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

# compiles FILE COMPILER OPTION...
compiles() {
    source=$1
    shift
    # Unquoted: the compiler may hold options.
    # shellcheck disable=SC2048,SC2086
    $* -Wall -Wextra -Wpedantic -Werror -I"$top_srcdir/include" -c "$source" -o "$work/out.o"
}

for header in "$top_srcdir"/include/*/*.h; do
    header=${header#"$top_srcdir/include/"}
    echo "#include <$header>" | tee "$work/alone.c" >"$work/alone.cpp"
    expect "$header alone as C11" compiles "$work/alone.c" "$CC" -std=c11
    if [ -n "$CXX" ]; then
        expect "$header alone as C++17" compiles "$work/alone.cpp" "$CXX" -std=c++17
    else
        tap_count=$((tap_count + 1))
        echo "ok $tap_count - $header alone as C++17 # SKIP no C++ compiler"
    fi
done

echo 'size_t ckv_no_header(void);' >"$work/bad.c"
refuse "a header that does not stand alone is refused" compiles "$work/bad.c" "$CC" -std=c11
finish
