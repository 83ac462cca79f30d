/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the drivers share: a vendor's library by dlopen, backends switched off by the
 * environment, processes forked after the library was loaded.
 */
#ifndef CKV_BACKENDS_GPU_LIBRARY_H
#define CKV_BACKENDS_GPU_LIBRARY_H

#include <stddef.h>

#include "driver.h"

/* Why a driver has no use in a child of the process that loaded it: its threads and its
 * connection to the device did not come along. */
#define CKV_GPU_FORKED_TEXT "loaded before this process was forked"

/* A function of the library and its place in the table. */
typedef struct ckv_symbol {
    const char *name;
    size_t offset;
    int optional;
} ckv_symbol;

/* Opens the first of `names`, which ends with NULL, and fills `table`.  1, or 0 with
 * the reason. */
int ckv_library_load(const char *const *names, const ckv_symbol *symbols, size_t count, void *table, char *reason,
                     size_t size);

/* What each driver's `load` does once: `initialise` sets reason or leaves it "". */
typedef struct ckv_library_state {
    char reason[256];
    long pid;
} ckv_library_state;

/* Begins it: 0 and the reason if the backend is switched off or has no library. */
int ckv_library_begin(ckv_library_state *state, const char *backend, const char *const *names,
                      const ckv_symbol *symbols, size_t count, void *table);

/* NULL, or why the driver cannot be used by this process. */
const char *ckv_library_reason(const ckv_library_state *state);

/* 1 in a child of the process that loaded the driver. */
int ckv_library_forked(const ckv_library_state *state);

/* The name of a code of ours, NULL for a vendor's. */
const char *ckv_library_error(int code);

/* printf into a log or a reason, of which "" is never left behind. */
void ckv_library_say(char *log, size_t size, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Copies text, blanks at both ends left out, cut to its room. */
void ckv_library_copy(char *to, size_t size, const char *from);

#endif
