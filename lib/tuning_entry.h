/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry of a tuning file: the values of one stage's tunables, all of one measured
 * configuration, and everything that they hold for.
 */
#ifndef CKV_LIB_TUNING_ENTRY_H
#define CKV_LIB_TUNING_ENTRY_H

#include "bucket.h"
#include "identity.h"
#include "json.h"
#include "tuning.h"

typedef struct ckv_tuning_value {
    char name[32];
    char label[32]; /* "" where the number says it all */
    int32_t number; /* at least 0 */
} ckv_tuning_value;

typedef struct ckv_tuning_entry {
    int32_t number; /* in the file that it was read from, the first is 1 */
    char backend[16];
    ckv_device_identity device; /* normalised; memory_bytes in whole GiB */
    char library[24];           /* its version */
    char stage[16];
    ckv_tuning_scope scope;
    ckv_bucket bucket;
    int32_t count;
    ckv_tuning_value values[CKV_TUNABLES_MAX];
    int64_t time_ns, default_ns; /* measured with the values, and with the model's */
    char date[24];               /* "2026-01-31" */
} ckv_tuning_entry;

/* The same device, as far as its backend and its properties say. */
int ckv_tuning_same_device(const ckv_tuning_entry *a, const ckv_tuning_entry *b);

/* The same code on it: library, kernels, driver. */
int ckv_tuning_same_code(const ckv_tuning_entry *a, const ckv_tuning_entry *b);

/* Of two such only the later one is kept. */
int ckv_tuning_same_key(const ckv_tuning_entry *a, const ckv_tuning_entry *b);

/* A value as it reads in a message: "missing", "-5", "'text'", "a list". */
void ckv_tuning_describe(const ckv_json *json, const json_t *value, char *text, size_t size);

/* A new object with its checksum; NULL where there is no memory. */
json_t *ckv_tuning_entry_to_json(const ckv_json *json, const ckv_tuning_entry *entry);

/* 1, or 0 with the reason, which names the field, what it holds and what was wanted.  Where *keyed is 1
 * the entry's key was read in any case. */
int ckv_tuning_entry_from_json(const ckv_json *json, json_t *object, ckv_tuning_entry *entry, int *keyed, char *reason,
                               size_t size);

#endif
