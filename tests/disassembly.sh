#!/bin/sh
# The innermost loops of the CPU backend's kernels hold the instruction that they are
# written for, and keep their accumulators in registers: no access to the stack.
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tap.sh"

case " $CFLAGS " in
*" -O"[23s]* | *" -Ofast"*) ;;
*) skip_all "not an optimised build: CFLAGS='$CFLAGS'" ;;
esac

# in_registers OBJDUMP FILE FUNCTION INSTRUCTION: in every innermost loop of FUNCTION with
# that instruction (there must be one) nothing reads or writes the stack.
in_registers() {
    "$1" -d --no-show-raw-insn "$2" | awk -v name="$3" -v wanted="$4" '
        function hex(text,  i, value) {
            value = 0
            for (i = 1; i <= length(text); i++)
                value = 16 * value + index("0123456789abcdef", substr(text, i, 1)) - 1
            return value
        }
        BEGIN { count = loops = frame = left = 0 }
        /^[0-9a-f]+ <.*>:$/ { inside = $2 == "<" name ">:"; left = -1; next }
        inside && /^ *[0-9a-f]+:/ {
            at[count] = hex(substr($1, 1, length($1) - 1))
            text[count] = $0
            # Where %rbp or x29 points into the stack.
            if ($0 ~ /mov +%rsp,%rbp/ || $0 ~ /(mov|add).*x29, sp/) frame = 1
            if ($2 ~ /^ret/) left = at[count]
            # A jump back closes a loop, unless the function is left in between.
            if ($2 ~ /^(j|b|cb|tb)/ && match($0, /[0-9a-f]+ <[^>]*>/)) {
                split(substr($0, RSTART, RLENGTH), target, " ")
                to = hex(target[1])
                if (to <= at[count] && to > left) {
                    from[loops] = to
                    until[loops] = at[count]
                    loops++
                }
            }
            count++
        }
        END {
            if (count == 0) { print name ": no such function"; exit 1 }
            for (i = 0; i < count; i++) {
                if (text[i] !~ "[ \t]" wanted) continue
                best = -1
                for (l = 0; l < loops; l++)
                    if (from[l] <= at[i] && at[i] <= until[l] &&
                        (best < 0 || until[l] - from[l] < until[best] - from[best])) best = l
                if (best >= 0) chosen[best]++
            }
            status = 1
            for (l = 0; l < loops; l++) {
                if (!(l in chosen)) continue
                if (status == 1) status = 0
                printf "%s: %d %s in a loop of %d bytes\n", name, chosen[l], wanted, until[l] - from[l]
                for (i = 0; i < count; i++)
                    if (at[i] >= from[l] && at[i] <= until[l] &&
                        (text[i] ~ /\(%[re]sp|\[sp/ || (frame && text[i] ~ /\(%[re]bp|\[x29/))) {
                        print "the stack in a loop: " text[i]
                        status = 2
                    }
            }
            if (status == 1) print name ": no loop with " wanted
            exit status
        }'
}

# reports TEXT COMMAND...: it fails, and says TEXT.
reports() {
    text=$1
    shift
    ! "$@" >"$work/report" || return 1
    cat "$work/report"
    grep -q "$text" "$work/report"
}

# kernels OBJDUMP FILE ISA PRODUCT FMA
kernels() {
    expect "$3: the norm's loop keeps to registers" in_registers "$1" "$2" norm_panel "$4"
    expect "$3: the logits' loop keeps to registers" in_registers "$1" "$2" logits "$5"
}

skipped() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# A loop with INSTRUCTION, and a counter that `volatile` keeps in memory.
write_loop() {
    cat >"$work/loop.c" <<END
void norm_panel(int steps);
void norm_panel(int steps)
{
    $2 int count = 0;
    for (int s = 0; s < steps; s++) {
        __asm__ volatile("$1");
        count++;
    }
}
END
}

# controls OBJDUMP INSTRUCTION OTHER COMPILER...: the check can fail.
controls() {
    objdump=$1 instruction=$2 other=$3
    shift 3
    for kind in "" volatile; do
        write_loop "$instruction" "$kind"
        "$@" -std=gnu11 -O2 -c -o "$work/loop$kind.o" "$work/loop.c" || { echo "Bail out! no control"; exit 99; }
    done
    expect "control: a loop in registers passes" in_registers "$objdump" "$work/loop.o" norm_panel "${instruction%% *}"
    expect "control: one that uses the stack is reported" reports "the stack in a loop" \
        in_registers "$objdump" "$work/loopvolatile.o" norm_panel "${instruction%% *}"
    expect "control: one without the instruction is reported" reports "no loop with $other" \
        in_registers "$objdump" "$work/loop.o" norm_panel "$other"
    expect "control: a missing function is reported" reports "no such function" \
        in_registers "$objdump" "$work/loop.o" logits "$other"
}

# ---------------------------------------------------------------- the objects of this build

built() {
    library=$top_builddir/.libs/libckv_cpu_$1.a
    if [ -f "$library" ]; then
        kernels "$OBJDUMP" "$library" "$@"
    else
        skipped "$1" "not in this build"
    fi
}

OBJDUMP=${OBJDUMP:-objdump}
if ! command -v "$OBJDUMP" >/dev/null; then
    skipped "the kernels of this build" "no objdump (binutils)"
else
    built avx2 vpmaddwd vfmadd
    built avxvnni vpdpwssd vfmadd
    built avx512 vpmaddwd vfmadd
    built avx512vnni vpdpwssd vfmadd
    built neon smlal fmla
    built neon_dotprod sdot fmla
    built neon_i8mm smmla fmla
    # Unquoted: a compiler may hold options.
    # shellcheck disable=SC2086
    case $(uname -m) in
    x86_64) controls "$OBJDUMP" "vpmaddwd %ymm0, %ymm1, %ymm2" vpdpwssd $CC ;;
    aarch64) controls "$OBJDUMP" "smlal v0.4s, v1.4h, v2.4h" sdot $CC ;;
    esac
fi

# ---------------------------------------------------------------- AArch64 from here

cross=aarch64-linux-gnu
if [ "$(uname -m)" = aarch64 ]; then
    :
elif ! command -v $cross-gcc >/dev/null || ! command -v $cross-objdump >/dev/null; then
    skipped "AArch64" "no $cross-gcc (gcc-aarch64-linux-gnu)"
else
    # crossed ISA FLAG PRODUCT
    crossed() {
        expect "$1 builds" $cross-gcc -std=gnu11 -O2 -ffp-contract=off -march="$2" -c -o "$work/$1.o" "-I$top_srcdir" \
            "-I$top_srcdir/include" "-I$top_srcdir/backends/cpu" "$top_srcdir/backends/cpu/kernels_$1.c"
        kernels $cross-objdump "$work/$1.o" "$1" "$3" fmla
    }
    crossed neon armv8-a smlal
    crossed neon_dotprod armv8.2-a+dotprod sdot
    crossed neon_i8mm armv8.2-a+i8mm smmla
    controls $cross-objdump "smlal v0.4s, v1.4h, v2.4h" sdot $cross-gcc
fi
finish
