/* SPDX-License-Identifier: Apache-2.0 */
/* Input files, mapped read-only into memory. */
#include "mapping.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct mapping *open_mappings;

static const unsigned char *map(int file, const char *path, size_t *length)
{
    struct stat status;
    void *bytes;

    if (fstat(file, &status) != 0) {
        message_error("%s: cannot be examined: %s", path, strerror(errno));
        return NULL;
    }
    if (S_ISDIR(status.st_mode)) {
        message_error("%s: is a directory, wanted a file", path);
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        message_error("%s: is a device, pipe or socket, wanted a regular file", path);
        return NULL;
    }
    if (status.st_size == 0) {
        message_error("%s: 0 bytes, wanted at least 8: the file is empty", path);
        return NULL;
    }
    if ((uintmax_t)status.st_size > SIZE_MAX) {
        message_error("%s: %jd bytes, wanted at most %zu on this machine", path, (intmax_t)status.st_size,
                      (size_t)SIZE_MAX);
        return NULL;
    }
    *length = (size_t)status.st_size;
    bytes = mmap(NULL, *length, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) {
        message_error("%s: cannot be mapped into memory: %s", path, strerror(errno));
        return NULL;
    }
    return bytes;
}

bool mapping_open(struct mapping *mapping, const char *path)
{
    int file;

    memset(mapping, 0, sizeof *mapping);
    mapping->path = strdup(path);
    if (mapping->path == NULL) {
        message_error("%s: out of memory", path);
        return false;
    }
    /* O_NONBLOCK: a pipe with no writer must not hang the open. */
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        message_error("%s: cannot be opened: %s", path, strerror(errno));
    } else {
        mapping->bytes = map(file, path, &mapping->length);
        close(file);
    }
    if (mapping->bytes == NULL) {
        free(mapping->path);
        mapping->path = NULL;
        return false;
    }
    mapping->next = open_mappings;
    open_mappings = mapping;
    return true;
}

void mapping_close(struct mapping *mapping)
{
    if (mapping->bytes == NULL)
        return;
    for (struct mapping **link = &open_mappings; *link != NULL; link = &(*link)->next) {
        if (*link == mapping) {
            *link = mapping->next;
            break;
        }
    }
    munmap((void *)(uintptr_t)mapping->bytes, mapping->length);
    free(mapping->path);
    memset(mapping, 0, sizeof *mapping);
}

const char *mapping_path_at(const void *address)
{
    uintptr_t at = (uintptr_t)address;

    for (const struct mapping *mapping = open_mappings; mapping != NULL; mapping = mapping->next) {
        uintptr_t start = (uintptr_t)mapping->bytes;

        if (at >= start && at - start < mapping->length)
            return mapping->path;
    }
    return NULL;
}

static void advise(const void *start, size_t length, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)start & ~(page - 1);

    if (length == 0)
        return;
    /* Only a hint: whatever it returns, the bytes are there. */
    (void)madvise((void *)first, (uintptr_t)start - first + length, advice);
}

void mapping_will_need(const void *start, size_t length)
{
    advise(start, length, MADV_WILLNEED);
}

void mapping_done_with(const void *start, size_t length)
{
    advise(start, length, MADV_DONTNEED);
}
