/* SPDX-License-Identifier: Apache-2.0 */
/* One writer of a tuning file at a time. */
#ifndef CKV_LIB_TUNING_LOCK_H
#define CKV_LIB_TUNING_LOCK_H

#include "files.h"

/* How a writer waits for others; NULL in place of it: flock, for some seconds. */
typedef struct ckv_tuning_locking {
    int (*lock)(int file, int operation); /* as flock */
    int timeout_ms;
} ckv_tuning_locking;

typedef struct ckv_tuning_lock {
    char name[CKV_PATH_SIZE + 8];
    int file; /* -1: none, the file system has no locks or the lock's file cannot be made */
    int made; /* the lock's file was not there */
} ckv_tuning_lock;

/* The lock of `path`, which is a file beside it.  0: another process holds it. */
int ckv_tuning_lock_take(ckv_tuning_lock *lock, const char *path, const ckv_tuning_locking *locking);

/* A file made for a lock under which nothing was written goes with it. */
void ckv_tuning_lock_release(ckv_tuning_lock *lock, int written);

#endif
