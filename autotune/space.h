/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to choose from: the backend's tunables, in groups that are tuned together. */
#ifndef CKV_AUTOTUNE_SPACE_H
#define CKV_AUTOTUNE_SPACE_H

#include <ckv/ckv.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPACE_MOST 32    /* tunables */
#define SPACE_VALUES 64  /* of one */
#define SPACE_TEXT 1024  /* "name=value,..." of all */
#define SPACE_LABEL 40   /* of one value */
#define SPACE_STAGES 8   /* names of stages in a list */
#define SPACE_GROUPS 32  /* at most one a tunable */
#define CANDIDATES 4096L /* of a group that are ever listed */

struct tunable {
    const char *stage, *name, *meaning;
    int32_t scope; /* CKV_SCOPE_* */
    int32_t count, values[SPACE_VALUES];
    char labels[SPACE_VALUES][SPACE_LABEL];
    bool held; /* the environment says what it is */
};

/* One value for each tunable. */
struct candidate {
    int32_t value[SPACE_MOST];
};

struct space {
    int32_t count;
    struct tunable tunables[SPACE_MOST];
    struct candidate fallback; /* what a plan has untuned */
};

/* Tunables of one stage and scope: one measured configuration. */
struct group {
    const char *stage;    /* whose tunables */
    const char *measured; /* the stage that is timed: of "all", evict */
    int32_t scope;
    int32_t count, members[SPACE_MOST];
    double size; /* of the full cross product */
};

/* The plan's context's tunables with the values that the device takes.  False after one error line. */
bool space_read(const ckv_context *context, const ckv_plan *plan, struct space *space);

/* Groups of the stages asked for (all if none), in the order in which they are tuned: what
 * holds for more comes first. */
size_t space_groups(const struct space *space, const char *const *stages, size_t stage_count, struct group *groups);

/* The group's `number`th combination, 0 being any, on top of the base. */
struct candidate space_nth(const struct space *space, const struct group *group, const struct candidate *base,
                           int64_t number);

/* In how many tunables of the group the two differ. */
int space_distance(const struct group *group, const struct candidate *a, const struct candidate *b);

/* "name=value,..." of all tunables but those that are held, or of a group's alone. */
void space_text(const struct space *space, const struct candidate *candidate, char *text, size_t size);
void space_group_text(const struct space *space, const struct group *group, const struct candidate *candidate,
                      char *text, size_t size);

const char *space_scope(int32_t scope); /* "context", "projection", "plan" */

#endif
