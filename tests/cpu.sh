#!/bin/sh
# The unit tests of the stages on the CPU backend, once for each instruction set that
# this machine has, and the hashes of the reference's results among them.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

CKV_TEST_BACKEND=cpu CKV_TEST_LIGHT=1
export CKV_TEST_BACKEND CKV_TEST_LIGHT

# run ISA THREADS NAME
run() {
    CKV_CPU_ISA=$1 CKV_TEST_THREADS=$2 "$top_builddir/tests/unit/$3"
}

[ -x "$top_builddir/tests/unit/test_golden" ] || skip_all "no unit tests in this build"
for isa in portable avx2 avxvnni avx512 avx512vnni neon neon_dotprod neon_i8mm; do
    "$top_builddir/tests/cpu/isas" | grep -qx $isa || { echo "# no $isa here"; continue; }
    for name in compact evict golden run score select threads; do
        expect "$isa: $name" run $isa 2 test_$name
    done
    # The modes are set for one thread.
    expect "$isa: ftz" run $isa 1 test_ftz
done
refuse "no instruction set of that name" run z80 1 test_select
finish
