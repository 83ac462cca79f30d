/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows: a table for people, JSON for programs. */
#ifndef CKV_TOOLS_REPORT_H
#define CKV_TOOLS_REPORT_H

#include "options.h"
#include "perturbation.h"

#include <ckv/ckv.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum stage {
    STAGE_PROJECTION,
    STAGE_SCORE,
    STAGE_NORM,
    STAGE_SELECT,
    STAGE_EVICT, /* score, norm and select in one call */
    STAGE_COMPACT,
    STAGE_PERTURBATION,
    STAGES
};

extern const char *const report_stages[STAGES];

struct layer_report {
    int32_t number;
    int32_t query_heads, kv_heads, head_dim, value_dim, hidden; /* select knows kv_heads alone, the others are 0 */
    int64_t tokens, window, next_position;
    float scale;                        /* of the logits, 0: the default */
    int64_t budget, stage1;             /* per KV head */
    int64_t kept;                       /* over all KV heads */
    int64_t exact_norms;                /* the same; negative: nothing was ranked */
    uint64_t bytes_before, bytes_after; /* of K and V over all KV heads */
    bool measured;                      /* `perturbation` is there */
    struct perturbation perturbation;
    double seconds[STAGES]; /* negative: not run */
    uint32_t nonfinite;     /* CKV_NONFINITE_* */
};

struct report {
    const struct options *options;
    bool is_evict; /* or select */
    const char *backend, *device, *variant;
    struct layer_report *layers;
    size_t count;
};

/* Zeroed layers.  False after one error line. */
bool report_begin(struct report *report, const struct options *options, bool is_evict, size_t count);

/* Adds `flags` to a layer, with a warning on standard error for each tensor that is
 * new.  `weight_path` is the file that holds W_O. */
void report_nonfinite(struct report *report, size_t index, uint32_t flags, const char *weight_path);

/* To standard output, in the form asked for.  False after one error line. */
bool report_print(const struct report *report);

void report_free(struct report *report);

/* The tensor of one CKV_NONFINITE_* bit, as in "layers.N.NAME". */
const char *report_tensor(uint32_t flag);

/* The two forms. */
void report_table(const struct report *report, FILE *stream);
bool report_json(const struct report *report, FILE *stream);

/* Sums and means over the layers. */
struct totals {
    int64_t entries, kept;
    int64_t ranked, exact_norms; /* entries of layers where something was ranked, and their norms computed */
    uint64_t bytes_before, bytes_after;
    double stage1_mass, criticalkv, attention_only; /* means of those measured */
    size_t measured, lower, equal; /* layers; of these, where CriticalKV changes the output less, or as much */
    double seconds[STAGES];        /* negative: run in no layer */
};

void report_totals(const struct report *report, struct totals *totals);

/* How much less, in parts of 1: -0.08 for 8% less; 0 when both are 0. */
double report_change(double criticalkv, double attention_only);

#endif
