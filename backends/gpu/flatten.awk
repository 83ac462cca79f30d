# SPDX-License-Identifier: Apache-2.0
# Resolves #include "..." in the file given, each file once, paths relative to the
# file that has them: the kernels' text, to be compiled where there are no files.
# Every other line stays as it is.

function folder(path)
{
    if (!sub(/[^\/]*$/, "", path))
        path = ""
    return path
}

# a/../ goes, so that a file has one name.
function plain(path)
{
    while (sub(/[^\/.][^\/]*\/\.\.\//, "", path))
        ;
    return path
}

function put(path,    line, name, status)
{
    if (path in seen)
        return
    seen[path] = 1
    while ((status = (getline line < path)) > 0) {
        if (line ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
            name = line
            sub(/^[^"]*"/, "", name)
            sub(/".*$/, "", name)
            put(plain(folder(path) name))
        } else {
            print line
        }
    }
    if (status < 0) {
        print "flatten.awk: cannot read " path | "cat 1>&2"
        exit_status = 1
    }
    close(path)
}

BEGIN {
    put(ARGV[1])
    exit exit_status
}
