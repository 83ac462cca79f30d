#!/bin/sh
# Files as C arrays, on stdout:
#   embed.sh text NAME=FILE...            ckv_gpu_text_NAME
#   embed.sh images TARGET [ARCH=FILE...] ckv_gpu_images_TARGET
# SPDX-License-Identifier: Apache-2.0
set -eu
export LC_ALL=C

bytes() {
    [ -s "$1" ] || { echo "embed.sh: $1: missing or empty" >&2; exit 1; }
    od -An -v -tu1 "$1" | sed 's/^ *//; s/  */,/g; s/$/,/'
}

kind=$1
shift
echo '#include "backends/gpu/embedded.h"'
case $kind in
    text)
        for item in "$@"; do
            name=${item%%=*}
            echo "const unsigned char ckv_gpu_text_${name}[] = {"
            bytes "${item#*=}"
            echo "0};"
            echo "const size_t ckv_gpu_text_${name}_size = sizeof ckv_gpu_text_$name - 1;"
        done
        ;;
    images)
        target=$1
        shift
        list='' count=0
        for item in "$@"; do
            echo "static const unsigned char image_${count}[] = {"
            bytes "${item#*=}"
            echo "};"
            list="$list{\"${item%%=*}\", image_$count, sizeof image_$count}, "
            count=$((count + 1))
        done
        echo "const ckv_gpu_embedded_image ckv_gpu_images_${target}[] = {$list{NULL, NULL, 0}};"
        ;;
esac
