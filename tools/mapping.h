/* SPDX-License-Identifier: Apache-2.0 */
/* Input files, mapped read-only into memory. */
#ifndef CKV_TOOLS_MAPPING_H
#define CKV_TOOLS_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

struct mapping {
    char *path;
    const unsigned char *bytes;
    size_t length; /* at least 1 */
    struct mapping *next;
};

/* Maps a regular, non-empty file.  False after one error line.  `mapping` stays
 * where it is until it is closed: open mappings are chained for the SIGBUS
 * handler. */
bool mapping_open(struct mapping *mapping, const char *path);

/* Also accepts a zeroed mapping. */
void mapping_close(struct mapping *mapping);

/* The path of the open mapping that holds `address`, or NULL.  Callable from a
 * signal handler. */
const char *mapping_path_at(const void *address);

/* Hints to the kernel: read ahead, and drop from this process's memory. */
void mapping_will_need(const void *start, size_t length);
void mapping_done_with(const void *start, size_t length);

#endif
