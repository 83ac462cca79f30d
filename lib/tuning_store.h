/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a context has of tuning files: read when it is created, never later.  From there
 * each stage's values are looked up, whole configurations only, in this order:
 *
 *   user file      same device and code, same bucket
 *   shipped file   the same
 *   device         the same device, nearest other bucket; in the shipped file other code too
 *   architecture   shipped, a device of the same architecture, nearest bucket
 *   vendor         shipped, a device of the same vendor, nearest bucket
 *
 * The user's file speaks of the devices that it names alone, and of the code it was
 * measured with.
 */
#ifndef CKV_LIB_TUNING_STORE_H
#define CKV_LIB_TUNING_STORE_H

#include "context.h"
#include "files.h"
#include "tuning_file.h"

/* An entry that this context's device can run. */
typedef struct ckv_tuned {
    const char *stage; /* the backend's own text */
    ckv_tuning_scope scope;
    ckv_bucket bucket;
    uint8_t user;  /* 1: of the user's file */
    uint8_t fresh; /* 1: same device, same code */
    uint8_t level; /* CKV_SOURCE_DEVICE, _ARCHITECTURE or _VENDOR: as near as its device is */
    int32_t units;
    int32_t value[CKV_TUNABLES_MAX];
} ckv_tuned;

typedef struct ckv_tuning_store {
    char path[CKV_PATH_SIZE], shipped[CKV_PATH_SIZE]; /* "" */
    ckv_tuning_entry self;                            /* this device and this code */
    char device[512];
    int32_t foreign, skipped, trouble;
    char reason[256 + CKV_PATH_SIZE];
    int32_t count, room;
    ckv_tuned *entries; /* of the context's allocator */
} ckv_tuning_store;

/* Reads the files into context->tuning, whatever they hold; the device is open.  Only
 * memory that is missing is an error. */
ckv_status ckv_tuning_open(ckv_context *context);
void ckv_tuning_close(const ckv_context *context);

/* The entry to take, and which CKV_SOURCE_* it is; NULL: none. */
const ckv_tuned *ckv_tuning_find(const ckv_tuning_store *store, const char *stage, ckv_tuning_scope scope,
                                 const ckv_problem *problem, uint8_t *source);

#endif
