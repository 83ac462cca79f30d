#!/bin/sh
# Makes ./configure from configure.ac; needed after a clone, not with a release archive.
# SPDX-License-Identifier: Apache-2.0
set -e
cd "$(dirname "$0")"
exec autoreconf --force --install --warnings=all
