#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Where the output goes: all of it appears, or nothing changes.

load helpers

setup() {
    need_python
    in_own_folder
    make_file good in.safetensors
}

only_files() {
    [[ $(find . -mindepth 1 -printf '%P\n' | sort) == $(printf '%s\n' "$@" | sort) ]] || fail "$(find .)"
}

@test "a new output, and nothing beside it" {
    ckv evict in.safetensors -o out.safetensors
    ends 0
    only_files in.safetensors out.safetensors
}

@test "a new output has the usual rights" {
    umask 027
    ckv evict in.safetensors -o out.safetensors
    [[ $(stat -c %a out.safetensors) == 640 ]]
}

@test "a previous output is replaced" {
    head -c 100000 /dev/zero >out.safetensors
    ckv evict in.safetensors -o out.safetensors
    ends 0
    ckv evict in.safetensors -o new.safetensors
    cmp out.safetensors new.safetensors
    only_files in.safetensors out.safetensors new.safetensors
}

@test "the input itself as the output" {
    ckv evict in.safetensors -o want.safetensors --dump --compact
    cp in.safetensors both.safetensors
    ckv evict both.safetensors -o both.safetensors --dump --compact
    ends 0
    cmp both.safetensors want.safetensors
    only_files in.safetensors want.safetensors both.safetensors
}

@test "the input itself as the output, when the run fails" {
    make_file second_layer_incomplete both.safetensors
    cp both.safetensors before.safetensors
    ckv evict both.safetensors -o both.safetensors
    ends 1
    cmp both.safetensors before.safetensors
}

@test "a symbolic link stays, and what it points to is replaced" {
    mkdir folder
    echo before >folder/target
    ln -s folder/target link
    ln -s link second
    ckv evict in.safetensors -o want.safetensors
    ckv evict in.safetensors -o second
    ends 0
    [[ -L second && -L link && ! -L folder/target ]]
    cmp folder/target want.safetensors
    only_files in.safetensors want.safetensors folder folder/target link second
}

@test "a symbolic link to nothing makes what it points to" {
    mkdir folder
    ln -s folder/target link
    ckv evict in.safetensors -o link
    ends 0
    [[ -L link && -s folder/target ]]
    ln -s nowhere/target lost
    ckv evict in.safetensors -o lost
    ends 1
    says_in_one_line lost
    ln -s round round
    ckv evict in.safetensors -o round
    ends 1
    says_in_one_line round
    only_files in.safetensors folder folder/target link lost round
}

@test "a failing run leaves a link and its target" {
    echo before >target
    ln -s target out.safetensors
    make_file second_layer_incomplete bad.safetensors
    before=$(listing)
    ckv evict bad.safetensors -o out.safetensors
    ends 1
    [[ $(listing) == "$before" ]]
}

@test "a folder, a pipe, and a place that does not exist" {
    mkdir folder
    mkfifo pipe
    before=$(listing)
    for place in folder folder/ . pipe nowhere/out.safetensors in.safetensors/out "" folder/new/; do
        ckv evict in.safetensors -o "$place"
        [[ $status -eq 1 || $status -eq 2 ]]
        ends "$status"
        says_in_one_line "$place"
        [[ $(listing) == "$before" ]] || fail "$place: $(listing)"
    done
}

@test "names as long as the file system takes" {
    name=$(printf '%0250d' 0)
    ckv evict in.safetensors -o "$name.saf"
    ends 0
    only_files in.safetensors "$name.saf"
    rm "$name.saf"
    ckv evict in.safetensors -o "$name.safetensors"
    ends 1
    says_in_one_line "$name.safetensors"
    only_files in.safetensors
}

@test "no output is kept with /dev/null" {
    ckv evict in.safetensors -o /dev/null --json
    ends 0
    json 'o["output"] == "/dev/null"'
    [[ -c /dev/null ]]
    only_files in.safetensors
}

@test "a full device" {
    [[ -c /dev/full ]] || skip "no /dev/full"
    ckv evict in.safetensors -o /dev/full
    ends 1
    says_in_one_line /dev/full space
    [[ -c /dev/full ]]
    only_files in.safetensors
}

@test "a full disk" {
    # A file system of this test alone, which ends with the command.
    unshare -rm true 2>/dev/null || skip "no right to mount a small file system"
    mkdir disk
    export CKV
    unshare -rm sh -c 'mount -t tmpfs -o size=16k none disk' 2>/dev/null || skip "no right to mount a small file system"
    # shellcheck disable=SC2016
    unshare -rm sh -c '
        mount -t tmpfs -o size=16k none disk || exit
        echo "what was here before" >disk/out.safetensors
        head -c 20000 /dev/zero >disk/filler 2>/dev/null
        ls -Ali --full-time disk >../before
        "$CKV" evict in.safetensors -o disk/out.safetensors --dump --compact >../stdout 2>../stderr
        echo $? >../status
        ls -Ali --full-time disk >../after
        cat disk/out.safetensors >../previous'
    status=$(<../status)
    ends 1
    says_in_one_line disk/out.safetensors space
    cmp ../before ../after
    [[ $(<../previous) == "what was here before" ]]
}

@test "a limit on the size of files" {
    echo 'what was here before' >out.safetensors
    before=$(listing)
    status=0
    # --dump --compact takes more than one block.
    (ulimit -f 1 && exec "$CKV" evict in.safetensors -o out.safetensors --dump --compact) >../stdout 2>../stderr || status=$?
    ends 1
    says_in_one_line out.safetensors
    [[ $(listing) == "$before" ]]
}

@test "standard output that cannot be written" {
    [[ -c /dev/full ]] || skip "no /dev/full"
    for options in "" --json; do
        status=0
        # shellcheck disable=SC2086
        "$CKV" evict in.safetensors -o out.safetensors $options >/dev/full 2>../stderr || status=$?
        [[ $status -eq 1 ]]
        says_in_one_line space
    done
    status=0
    "$CKV" info >/dev/full 2>../stderr || status=$?
    [[ $status -eq 1 ]]
}

@test "standard streams that are closed do not get into the files" {
    ckv evict in.safetensors -o want.safetensors
    status=0
    "$CKV" evict in.safetensors -o out.safetensors >&- 2>&- <&- || status=$?
    # What could not be shown may be an error; the output is whole, or not there.
    [[ ! -e out.safetensors ]] || cmp out.safetensors want.safetensors
    [[ $status -eq 1 || -e out.safetensors ]]
}

@test "a folder that may not be written" {
    mkdir folder
    echo before >folder/out.safetensors
    chmod 555 folder
    unprivileged true || skip "no way to give up root's privileges"
    ! unprivileged touch folder/new 2>/dev/null || skip "permissions do not bind this user"
    before=$(listing)
    for name in out.safetensors new.safetensors; do
        status=0
        unprivileged "$CKV" evict in.safetensors -o "folder/$name" >../stdout 2>../stderr || status=$?
        ends 1
        says_in_one_line "folder/$name" ermission
        [[ $(listing) == "$before" ]]
    done
    chmod 755 folder
}

# killed SIGNAL: stops a run on the shipped capture in its middle; there is a previous output.
killed() {
    local process
    [[ -r $capture ]]
    echo 'what was here before' >out.safetensors
    before=$(listing)
    # The slow backend, so that there is a middle; signals as in a shell of one's own,
    # even where whoever runs the tests ignores some.
    env --default-signal=HUP,TERM "$CKV" evict "$capture" -o out.safetensors --dump --backend ref \
        >../stdout 2>../stderr 3>&- &
    process=$!
    for _ in {1..1000}; do
        [[ $(find . -type f | wc -l) -gt 2 ]] && break
        sleep 0.01
    done
    [[ $(find . -type f | wc -l) -gt 2 ]] || fail "no unfinished output showed up"
    kill -s "$1" "$process"
    status=0
    wait "$process" || status=$?
}

@test "stopped by a signal in the middle" {
    for signal in TERM HUP; do
        killed $signal
        [[ $status -eq $((128 + $(kill -l $signal))) ]] || fail "status $status"
        [[ $(listing) == "$before" ]] || fail "left: $(listing)"
    done
}

@test "killed outright, the previous output is still there" {
    killed KILL
    [[ $status -eq 137 && $(<out.safetensors) == "what was here before" ]]
    # What is left does not bear the output's name, and does not hinder the next run.
    ckv evict in.safetensors -o out.safetensors
    ends 0
    [[ -s out.safetensors ]]
}

@test "the permissions of the file replaced are kept" {
    for mode in 600 640; do
        echo before >out.safetensors
        chmod $mode out.safetensors
        ckv evict in.safetensors -o out.safetensors
        ends 0
        [[ $(stat -c %a out.safetensors) == "$mode" ]]
    done
}

@test "two runs at once onto one output" {
    "$CKV" evict in.safetensors -o want.safetensors >/dev/null
    for _ in 1 2 3 4; do
        "$CKV" evict in.safetensors -o out.safetensors >/dev/null 3>&- &
    done
    wait
    cmp out.safetensors want.safetensors
    only_files in.safetensors out.safetensors want.safetensors
}
