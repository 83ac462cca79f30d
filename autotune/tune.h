/* SPDX-License-Identifier: Apache-2.0 */
/* One run of ckv tune. */
#ifndef CKV_AUTOTUNE_TUNE_H
#define CKV_AUTOTUNE_TUNE_H

#include "bench/limits.h"
#include "options.h"
#include "remote.h"

/* A layer's sizes, and what the backend takes for it untuned. */
struct problem {
    struct shape shape;
    int64_t tokens;
    ckv_plan *plan;
    ckv_plan_info info;
    struct space space;
};

/* A group's search on one problem. */
struct item {
    const struct problem *problem;
    struct group group;
    struct candidate base; /* the default, with what wider groups chose */
    int64_t timed;         /* tokens of the layer that is timed: fewer where a run takes long */
    struct found found;
    bool ran, saved;
    char unsaved[400]; /* why not */
};

struct tune {
    struct tune_options options;
    ckv_context *context;
    const char *backend, *device_name;
    char device[16]; /* its number */
    char *file;      /* the environment's CKV_TUNE_CACHE, or NULL */
    char path[4096]; /* where results were saved, "" */
    struct problem *problems;
    size_t problem_count;
    struct item *items;
    size_t item_count;
    struct remote remote;
    struct limits limits;
    bool has_limits, stopped;
    double start, seconds; /* the latter: that it took */
    size_t now;            /* the item that is searched */
};

/* Writes an item's values into the tuning file.  False: item->unsaved says why not. */
bool tune_save(struct tune *tune, struct item *item);

/* Before anything is measured: whether there is a file that results can go to.  False after one error line. */
bool tune_check_file(struct tune *tune);

/* Library contexts of the search see no tuning file, so that "default" is the backend's
 * model's; those made in between see the one that is written. */
void tune_hide_file(struct tune *tune);
void tune_show_file(const struct tune *tune);

/* Seconds that the machine's limits allow for the stage; 0: unknown. */
double tune_floor(const struct tune *tune, const struct item *item);

/* What is shown.  False after one error line. */
bool tune_table(const struct tune *tune);
bool tune_json(const struct tune *tune);

#endif
