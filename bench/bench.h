/* SPDX-License-Identifier: Apache-2.0 */
/* One run of ckv bench. */
#ifndef CKV_BENCH_BENCH_H
#define CKV_BENCH_BENCH_H

#include "show.h"
#include "stages.h"

struct bench {
    struct bench_options options;
    ckv_context *context;
    int32_t threads; /* that the backend uses */
    struct limits limits;
    bool has_limits;
    struct blas blas;
    struct show report;
    bool agrees; /* every peer's results were ours, nearly */
};

/* A subject with all that its policies share. */
struct prepared {
    struct bench *bench;
    struct subject subject;
    ckv_projection *projection;
    struct scores scores;
    struct peers peers; /* where the bench has peers */
};

/* The made-up layer of a shape, or that of a capture.  False after one error line; close in
 * any case. */
bool prepare_shape(struct prepared *prepared, struct bench *bench, const struct shape *shape, int64_t tokens);
bool prepare_layer(struct prepared *prepared, struct bench *bench, const char *name, const struct layer *layer);
void prepared_close(struct prepared *prepared);

/* The stages under one keep ratio, and the peers told of it. */
bool prepare_stages(struct prepared *prepared, const ckv_ratio *keep, struct stages *stages);

/* Times a stage, and beside it its peer where there is one: row->times, peer_times and the
 * rest of the row.  Attention, norm and selection must be there for the stages that read them. */
bool bench_row(struct prepared *prepared, struct stages *stages, enum bench_stage stage, struct row *row);

/* A line on the terminal while something is measured. */
void bench_note(const struct prepared *prepared, const char *what);

/* The two things that the command does.  False after one error line. */
bool run_cases(struct bench *bench);
bool run_targets(struct bench *bench);

#endif
