/* SPDX-License-Identifier: Apache-2.0 */
/* Whole reads and writes, folders made on the way to a file, and that of the user's caches. */
#ifndef CKV_LIB_FILES_H
#define CKV_LIB_FILES_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CKV_PATH_SIZE 4096

/* Up to `size` bytes, fewer at the file's end; -1 on an error. */
static inline ssize_t ckv_read_some(int file, void *to, size_t size)
{
    char *at = to;
    size_t left = size;
    while (left > 0) {
        ssize_t got = read(file, at, left);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        at += got;
        left -= (size_t)got;
    }
    return (ssize_t)(size - left);
}

/* 1: all of it. */
static inline int ckv_read_all(int file, void *to, size_t size)
{
    return ckv_read_some(file, to, size) == (ssize_t)size;
}

static inline int ckv_write_all(int file, const void *from, size_t size)
{
    const char *at = from;
    while (size > 0) {
        ssize_t put = write(file, at, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return 0;
        at += put;
        size -= (size_t)put;
    }
    return 1;
}

/* mkdir -p; what fails shows when a file is opened there. */
static inline void ckv_make_folders(const char *folder)
{
    char path[CKV_PATH_SIZE];
    size_t length = strlen(folder);
    if (length >= sizeof path)
        return;
    memcpy(path, folder, length + 1);
    for (size_t i = 1; i < length; i++)
        if (path[i] == '/') {
            path[i] = '\0';
            mkdir(path, S_IRWXU);
            path[i] = '/';
        }
    mkdir(path, S_IRWXU);
}

/* `name` in the user's folder of caches; 0 when there is no such folder, or it does not fit. */
static inline int ckv_cache_path(char *path, size_t size, const char *name)
{
    const char *base = getenv("XDG_CACHE_HOME"), *below = "/ckv/";
    int length;
    if (base == NULL || base[0] != '/') { /* its specification: other values are not valid */
        base = getenv("HOME");
        below = "/.cache/ckv/";
    }
    if (base == NULL || base[0] != '/')
        return 0;
    length = snprintf(path, size, "%s%s%s", base, below, name);
    return length > 0 && (size_t)length < size;
}

#endif
