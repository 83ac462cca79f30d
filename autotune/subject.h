/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up layer with all that any stage reads, and any stage run on it. */
#ifndef CKV_AUTOTUNE_SUBJECT_H
#define CKV_AUTOTUNE_SUBJECT_H

#include "bench/data.h"

#include <ckv/ckv.h>

/* One candidate's handles for one layer. */
struct handles {
    ckv_context *context;
    ckv_plan *plan;
    ckv_projection *projection; /* made when a stage wants it */
};

/* A layer, and what select and compact read: attention that was scored, sums of magnitudes
 * for norms, which is near enough for times and as good for bits. */
struct tuned_layer {
    struct subject data;
    float *attention, *norm;
    int32_t *positions, *offsets;
    ckv_tensor attention_view, norm_view;
    ckv_selection selection;
};

/* These return NULL, or what went wrong: a text that lives until the next call. */
const char *tuned_layer_make(struct tuned_layer *layer, const struct shape *shape, int64_t tokens);
void tuned_layer_free(struct tuned_layer *layer);

const char *handles_open(struct handles *handles, const struct tuned_layer *layer, const char *backend,
                         const char *device, int32_t threads, const char *parameters);
void handles_close(struct handles *handles);

/* Scores and selects with these handles, once a layer. */
const char *tuned_layer_complete(struct tuned_layer *layer, const struct handles *handles);

/* All bytes that the stage wrote; the caller's. */
const char *tuned_layer_run(const struct tuned_layer *layer, struct handles *handles, const char *stage, void **bytes,
                            size_t *size);
const char *tuned_layer_time(const struct tuned_layer *layer, struct handles *handles, const char *stage,
                             int32_t repeats, double *seconds);

#endif
