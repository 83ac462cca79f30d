/* SPDX-License-Identifier: Apache-2.0 */
/* libckv's stages on one layer under one policy, ready to be timed. */
#ifndef CKV_BENCH_STAGES_H
#define CKV_BENCH_STAGES_H

#include "data.h"
#include "tools/command.h"
#include "work.h"

struct stages {
    const struct options *options;
    const struct subject *subject;
    ckv_policy policy;
    const ckv_projection *projection; /* borrowed */
    struct selecting chosen;
    ckv_tensor attention_view, norm_view;
    void *workspace;
    ckv_run run;
    void *kept_key, *kept_value;
    ckv_tensor kept_key_view, kept_value_view;
};

/* Attention and norm [Hkv, n] of a subject, which every policy shares. */
struct scores {
    float *attention, *norm;
    bool has_attention, has_norm;
};

/* False after one error line; free in any case. */
bool stages_scores(struct scores *scores, const struct subject *subject);
void stages_scores_free(struct scores *scores);

/* W_O, quantised; it serves every policy of one context.  NULL after one error line. */
ckv_projection *stages_projection(ckv_context *context, const struct options *options, const struct subject *subject);

/* Borrows all but the policy.  False after one error line; close in any case. */
bool stages_open(struct stages *stages, ckv_context *context, const struct options *options,
                 const struct subject *subject, const ckv_projection *projection, const struct scores *scores,
                 const ckv_policy *policy);
void stages_close(struct stages *stages);

/* Each runs one stage, BENCH_LAYER being ckv_evict; the argument is the struct stages.  False
 * after one error line.  select reads what score and norm filled, compact what select
 * did. */
extern bool (*const stages_run[BENCH_STAGES])(void *argument);

#endif
