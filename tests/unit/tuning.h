/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of tuning files share: a folder of their own, entries, files byte by byte. */
#ifndef CKV_TESTS_TUNING_H
#define CKV_TESTS_TUNING_H

#include <stddef.h>

#include "lib/tuning_file.h"

/* A new folder, and below it a path that is not there; tuning_remove takes all away. */
const char *tuning_folder(void);
const char *tuning_path(const char *name);
void tuning_remove(void);

/* Whole files; tuning_get gives malloc'ed bytes and a NUL after them, NULL where there is none. */
void tuning_put(const char *path, const void *bytes, size_t size);
char *tuning_get(const char *path, size_t *size);

/* How many files are in the folder. */
int tuning_count_files(const char *folder);

/* Number `n` of different entries, none of a device that there is. */
ckv_tuning_entry tuning_entry(int n);

/* Entries as they are read. */
typedef struct tuning_list {
    int count;
    ckv_tuning_entry entry[64]; /* of the first */
    ckv_tuning_report report;
    int read; /* what the reader returned */
} tuning_list;

void tuning_read_text(const char *bytes, size_t size, tuning_list *list);
void tuning_read(const char *path, tuning_list *list);

/* 1: an equal entry is in the list. */
int tuning_has(const tuning_list *list, const ckv_tuning_entry *entry);

/* A document around one or more entries' texts, each without its sum or with a false one:
 * all get their right sums. */
char *tuning_document(const char *const *entries, int count, size_t *size);

/* The text of an entry. */
char *tuning_entry_text(const ckv_tuning_entry *entry);

/* `text` with the first `from` in it replaced; malloc'ed. */
char *tuning_replace(const char *text, const char *from, const char *to);

/* Runs a program's tests, or skips them where there is no libjansson. */
#define tuning_run(tests) (ckv_json_load() == NULL ? tuning_skip() : cmocka_run_group_tests(tests, NULL, NULL))
int tuning_skip(void);

#endif
