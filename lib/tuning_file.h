/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuning files: the one reader and the one writer.  Nothing in a file can make a call
 * fail; what is wrong with it is told in the report.  docs/tuning.md has the format.
 */
#ifndef CKV_LIB_TUNING_FILE_H
#define CKV_LIB_TUNING_FILE_H

#include "tuning_entry.h"
#include "tuning_lock.h"

#define CKV_TUNING_FILE_SIZE ((size_t)4 << 20) /* larger ones are not read */
#define CKV_TUNING_ENTRIES_MAX 4096            /* in a file; beyond, the oldest go */

typedef struct ckv_tuning_report {
    int32_t valid, skipped; /* entries */
    int32_t trouble;        /* 1: the reason is worth a warning, unlike that of a file that is not there */
    char reason[256];       /* the first, "" */
} ckv_tuning_report;

/* Every valid entry, oldest first. */
typedef void ckv_tuning_visit(void *user, const ckv_tuning_entry *entry);

/* 1: the file was there and could be used, in part at least. */
int ckv_tuning_file_read(const char *path, ckv_tuning_visit *visit, void *user, ckv_tuning_report *report);

/* The same of bytes in memory. */
int ckv_tuning_text_read(const char *text, size_t size, ckv_tuning_visit *visit, void *user, ckv_tuning_report *report);

/*
 * Adds entries to the file that `path` is or leads to, through links also where it is not there
 * yet, in place of those with their keys; everything else in it stays but what is no JSON.  It is replaced as a whole, under a lock on `path`.lock where the
 * file system has locks.  0 with the reason, and the file as it was: it cannot be written,
 * it is locked for too long, or it is no tuning file of this version.
 */
int ckv_tuning_file_write(const char *path, const ckv_tuning_entry *entries, int32_t count,
                          const ckv_tuning_locking *locking, ckv_tuning_report *report);

/* 1: a write could begin.  What a write would find in its way is found, but for locks and full disks, and nothing
 * stays behind. */
int ckv_tuning_file_check(const char *path, ckv_tuning_report *report);

#endif
