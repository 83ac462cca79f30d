/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device is, so that values tuned on it find it again: never an index, which
 * changes with the machine's other devices, and names so that two spellings of one chip
 * are one.
 */
#ifndef CKV_LIB_IDENTITY_H
#define CKV_LIB_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

typedef struct ckv_device_identity {
    char vendor[64], name[128], arch[64]; /* "nvidia", "h100-80gb-hbm3", "sm_90" */
    char driver[128];                     /* its version, "" where there is none */
    char compiler[96];                    /* that made the kernels' machine code */
    uint64_t kernels;                     /* hash of all that determines it, the library's version first */
    int32_t units;                        /* compute units, threads */
    int64_t memory_bytes, local_bytes;    /* of a device with memory of its own, of a work-group; else 0 */
} ckv_device_identity;

/* A name in lower case, its words joined by '-', without (R), "Corporation", clock rates,
 * counts of cores and revisions; a word equal to `vendor` is left out.  `to` may be `from`. */
void ckv_identity_name(char *to, size_t size, const char *from, const char *vendor);

/* All texts of what a backend filled, as entries of tuning files have them. */
void ckv_identity_normalise(ckv_device_identity *identity);

/* 1: the same architecture, whatever features are written behind a ':'. */
int ckv_identity_same_arch(const char *a, const char *b);

#endif
