/* SPDX-License-Identifier: Apache-2.0 */
/* What a benchmark shows: tables, or a line of JSON for each result. */
#ifndef CKV_BENCH_SHOW_H
#define CKV_BENCH_SHOW_H

#include "limits.h"
#include "machine.h"
#include "options.h"
#include "peers.h"

/* The layer and the policy that the results that follow are about. */
struct bench_case {
    const struct subject *subject;
    ckv_ratio keep;
    const ckv_plan_info *info;
};

/* A stage, and its peer's same. */
struct row {
    enum bench_stage stage;
    struct times times;
    struct work work;
    double rates[BOUNDS];    /* limits: of those that bound it beside it, of the others at the start */
    double floor;            /* seconds that they allow; of the layer: the sum of its stages' */
    const char *peer;        /* NULL: none */
    const char *peer_reason; /* why not */
    struct times peer_times;
};

/* How far the peers' results are the same as ours. */
struct agreement {
    double attention_error; /* the largest difference, as a share of the largest attention */
    double norm_error;      /* the largest relative difference */
    double overlap;         /* share of kept entries that both keep */
    bool good;
};

/* A time beside another: a limit's or a peer's for the same work. */
struct target {
    const char *what;
    struct times times;
    const char *against;
    double against_seconds;
    bool is_share; /* against a limit: shown as a share */
};

struct show {
    bool json;
    struct machine machine;
    const char *backend, *device;
    int32_t threads;
    const struct limits *limits; /* NULL: none known for this backend */
    const struct blas *blas;
    bool peers;
    bool complete; /* false: some JSON could not be written */
};

void show_begin(struct show *show);
void show_case(struct show *show, const struct bench_case *about);
void show_row(struct show *show, const struct bench_case *about, const struct row *row);
void show_agreement(struct show *show, const struct bench_case *about, const struct agreement *agreement);
void show_targets(struct show *show, const struct bench_case *about);
void show_target(struct show *show, const struct bench_case *about, const struct target *target);

/* The seconds that the limit of these allows; 0: not known. */
double show_floor(const double rates[BOUNDS], const struct work *work);

const char *show_dtype(ckv_dtype dtype);

/* The two forms. */
void table_begin(const struct show *show);
void table_case(const struct show *show, const struct bench_case *about);
void table_row(const struct show *show, const struct row *row);
void table_agreement(const struct agreement *agreement);
void table_targets(const struct bench_case *about);
void table_target(const struct target *target);

bool json_begin(const struct show *show);
bool json_row(const struct show *show, const struct bench_case *about, const struct row *row);
bool json_agreement(const struct show *show, const struct bench_case *about, const struct agreement *agreement);
bool json_target(const struct show *show, const struct bench_case *about, const struct target *target);

#endif
