/* SPDX-License-Identifier: Apache-2.0 */
/* The run of ckv verify: problem after problem, until one differs or all are done. */
#ifndef CKV_TOOLS_VERIFY_GATE_H
#define CKV_TOOLS_VERIFY_GATE_H

#include "verify_digest.h"
#include "verify_file.h"
#include "verify_options.h"

struct verify_gate {
    struct verify_options options;
    struct verify_targets all;
    struct verify_digest *digest;
    uint64_t problems; /* that the reference has solved */
    double seconds;
    bool broken; /* the run ended early, by no target's finding */
    int signal;  /* that ended it after a whole problem, 0: none */

    /* What ended it early. */
    struct verify_target *culprit; /* NULL: nothing */
    bool failed;                   /* by an error status */
    struct verify_case found;
    uint64_t number; /* of the problem */
    int64_t tries;   /* to shrink it */
    struct verify_problem problem;
    char path[300]; /* where it was saved, "" where it was not */
};

/* The exit status, after one error line unless it is EXIT_DONE. */
int verify_gate_run(struct verify_gate *gate);

/* Runs the problem of --replay: prints what differs, on standard output. */
int verify_gate_replay(struct verify_gate *gate);

/* Runs one stage of a problem on the reference and on a target.  True if both can be told:
 * `same`, or what differs first. */
bool verify_gate_compare(const struct verify_gate *gate, struct verify_target *target, enum verify_stage stage,
                         const struct verify_problem *p, bool *same, char text[VERIFY_TEXT]);

#endif
