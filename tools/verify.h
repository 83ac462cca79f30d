/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckv verify: random problems on every backend, every bit against the reference.
 *
 * A problem holds its elements densely, in the order of spec 2.1, and says apart how they
 * are laid out when a backend gets them: so it can be cut smaller axis by axis, saved and
 * read back, and the reference can have the same elements in the plainest layout.
 */
#ifndef CKV_TOOLS_VERIFY_H
#define CKV_TOOLS_VERIFY_H

#include "arrange.h"

#include <ckv/ckv.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_VERIFY_DIFFERS = 1, EXIT_VERIFY_ERROR = 3 }; /* beside those of command.h */

/* ------------------------------------------------------------------ problems */

enum verify_stage { VERIFY_SCORE, VERIFY_NORM, VERIFY_SELECT, VERIFY_COMPACT, VERIFY_EVICT, VERIFY_STAGES };
extern const char *const verify_stages[VERIFY_STAGES];
enum verify_stage verify_stage_named(const char *name); /* VERIFY_STAGES: none */

#define VERIFY_ALL ((1u << VERIFY_STAGES) - 1)

enum verify_axis {
    VERIFY_KV_HEADS,
    VERIFY_GROUP,
    VERIFY_TOKENS,
    VERIFY_QUERIES,
    VERIFY_HEAD_DIM,
    VERIFY_VALUE_DIM,
    VERIFY_HIDDEN,
    VERIFY_AXES
};

enum verify_input {
    VERIFY_QUERY,
    VERIFY_KEY,
    VERIFY_VALUE,
    VERIFY_WEIGHT,
    VERIFY_ATTENTION, /* what select is given; compact moves what the reference selects by these */
    VERIFY_NORMS,
    VERIFY_INPUTS
};
enum verify_output { VERIFY_TO_ATTENTION, VERIFY_TO_NORM, VERIFY_TO_ROWS, VERIFY_OUTPUTS };

/* How a tensor lies in memory: `offset` bytes past a multiple of 64, on top of the arrangement's. */
struct verify_place {
    enum arrangement kind;
    int32_t offset;
};

struct verify_problem {
    int64_t axis[VERIFY_AXES]; /* 0: of no use to the stages it is run for */
    ckv_policy policy;
    ckv_dtype dtype[VERIFY_INPUTS];
    struct verify_place place[VERIFY_INPUTS];
    void *cells[VERIFY_INPUTS]; /* dense; NULL where an axis is 0 */
    struct verify_place to[VERIFY_OUTPUTS];
    int32_t threads;
    int32_t moves_keys; /* compact: keys and not values */
    int32_t as_bytes;   /* compact: as CKV_BYTES */
    int32_t in_place;   /* compact: into the tensor itself */
    int32_t spare;      /* compact, not in place: rows of the result that stay as they were */
};

/* Axes of a tensor from the slowest to the fastest; VERIFY_AXES where there are fewer. */
extern const enum verify_axis verify_axes[VERIFY_INPUTS][4];
extern const char *const verify_input_names[VERIFY_INPUTS]; /* as in a file */

/* Whether the stages of a mask read a tensor (compact reads also what select does). */
bool verify_reads(const struct verify_problem *p, unsigned stages, enum verify_input input);

/* Extents [heads, tokens, width] of a tensor, false where one is 0. */
bool verify_extents(const struct verify_problem *p, enum verify_input input, int64_t extent[3]);
int64_t verify_count(const struct verify_problem *p, enum verify_input input);
ckv_shape verify_shape(const struct verify_problem *p);
/* Multiply-adds of the whole, roughly. */
double verify_work(const struct verify_problem *p);

/* These return false when out of memory, without a message; free in any case. */
bool verify_allocate(struct verify_problem *p, enum verify_input input);
bool verify_copy(struct verify_problem *to, const struct verify_problem *from);
void verify_free(struct verify_problem *p); /* also accepts a zeroed one */

/*
 * Problem `number` of those that `seed` gives, the same on every machine.  Half of them
 * have no attention and norm of their own: verify_complete takes the reference's.
 */
bool verify_draw(struct verify_problem *p, uint64_t seed, uint64_t number);

/* ------------------------------------------------------------------ results */

#define VERIFY_BLOCKS 3

/* What a stage wrote, as dense cells. */
struct verify_block {
    const char *name;
    int64_t extent[3];
    size_t unit; /* bytes of an element */
    unsigned char *cells;
};

struct verify_result {
    bool done;
    ckv_status status;
    uint32_t flags;   /* of the run, those of the projection or-ed in where the stage has one */
    int64_t computed; /* rows whose norm was computed, where that is the same everywhere */
    struct verify_block block[VERIFY_BLOCKS];
    const char *stray; /* what of the caller's was written that must not be; NULL: nothing */
    char detail[400];  /* of an error status */
};

/* How a problem is run. */
enum verify_manner {
    VERIFY_PLAIN, /* dense tensors at round addresses, nothing in place: the reference's own run */
    VERIFY_PLACED /* as the problem says */
};

/* Runs the stages of the mask; results of others stay as they are.  False when out of memory.
 * A NULL `reference` stands for `context`: who selects the rows that compact moves. */
bool verify_solve(const ckv_context *context, const ckv_context *reference, const struct verify_problem *p,
                  unsigned stages, enum verify_manner manner, struct verify_result results[VERIFY_STAGES]);
void verify_results_free(struct verify_result results[VERIFY_STAGES]);

/* Fills in the reference's attention and norm where the problem has none. */
bool verify_complete(const ckv_context *reference, struct verify_problem *p);

/* Bits of the stage's outputs. */
uint64_t verify_bits(const struct verify_result *result);

/* True if both are the same; else `text` says where they first differ. */
#define VERIFY_TEXT 600
bool verify_same(enum verify_stage stage, const struct verify_result *want, const struct verify_result *got,
                 char text[VERIFY_TEXT]);

/* A bit that a backend is made to get wrong. */
struct verify_plant {
    const char *backend; /* NULL: none */
    enum verify_stage stage;
};
void verify_plant(const struct verify_plant *plant, const char *backend, const struct verify_problem *p,
                  struct verify_result results[VERIFY_STAGES]);

#endif
