# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by ./quickstart and ./check: Debian packages and builds.  Sourced, with
# the top folder as the working directory.

export LC_ALL=C
unset MAKEFLAGS MFLAGS MAKELEVEL

# To build the library and the command.
# shellcheck disable=SC2034
BUILD_PACKAGES=(autoconf automake gcc libc6-dev libjansson-dev libtool libxxhash-dev make pkg-config)

say() {
    printf '== %s\n' "$*"
}

jobs_count() {
    nproc 2>/dev/null || echo 2
}

# Names those of the packages that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        case $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) in
            ii*) ;;
            *) echo "$package" ;;
        esac
    done
}

# apt_get ARGUMENT...: as root, silent unless it fails.
apt_get() {
    local log status=0
    log=$(mktemp)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$log" 2>&1 </dev/null || status=$?
    [ "$status" -eq 0 ] || cat "$log"
    rm -f "$log"
    return "$status"
}

# Installs the packages that are missing; no apt call when none is.
need_packages() {
    local missing
    if ! command -v dpkg-query >/dev/null; then
        say "not Debian: needed are $*, or what they are called on this system"
        return 0
    fi
    # Not a process substitution, which needs /proc.
    mapfile -t missing <<<"$(missing_packages "$@")"
    [ -n "${missing[0]}" ] || return 0
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "cannot install packages: neither root nor sudo.  As root: apt-get install ${missing[*]}" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    say "installing from Debian: ${missing[*]}"
    if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
        apt_get update || return 1
    fi
    if ! apt_get install --no-install-recommends "${missing[@]}"; then
        # Old lists name packages that the mirror no longer has.
        say "once more, with new package lists"
        apt_get update && apt_get install --no-install-recommends "${missing[@]}"
    fi
}

# configure_in FOLDER ARGUMENT...: a configured out-of-tree build; nothing done
# when it is there, for this folder and with the same arguments (make itself sees to changed build files).
configure_in() {
    local folder=$1
    shift
    [ -x configure ] || ./autogen.sh || return 1
    mkdir -p "$folder"
    if [ ! -f "$folder/config.status" ] || [ "$(cat "$folder/.arguments" 2>/dev/null)" != "$PWD $*" ]; then
        rm -f "$folder/.arguments"
        (cd "$folder" && "$OLDPWD/configure" "$@") || return 1
        printf '%s\n' "$PWD $*" >"$folder/.arguments"
    fi
}

make_in() {
    make -j"$(jobs_count)" -C "$@"
}
