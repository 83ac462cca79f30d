/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to choose from. */
#include "space.h"

#include "tools/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void read_values(const ckv_context *context, int32_t index, const ckv_tunable_info *info, struct tunable *t)
{
    t->stage = info->stage;
    t->name = info->name;
    t->meaning = info->meaning;
    t->scope = info->scope;
    for (int32_t i = 0; i < info->count && t->count < SPACE_VALUES; i++) {
        if (!ckv_tunable_allows(context, index, info->values[i]))
            continue;
        t->values[t->count] = info->values[i];
        if (info->labels != NULL)
            snprintf(t->labels[t->count], SPACE_LABEL, "%s", info->labels[i]);
        else
            snprintf(t->labels[t->count], SPACE_LABEL, "%" PRId32, info->values[i]);
        t->count++;
    }
}

bool space_read(const ckv_context *context, const ckv_plan *plan, struct space *space)
{
    int32_t count = ckv_tunable_count(context);

    memset(space, 0, sizeof *space);
    if (count > SPACE_MOST) {
        message_error("%" PRId32 " tunables, wanted at most %d", count, SPACE_MOST);
        return false;
    }
    space->count = count;
    for (int32_t i = 0; i < count; i++) {
        ckv_tunable_info info = {.struct_size = sizeof info};
        ckv_parameter parameter = {.struct_size = sizeof parameter};

        if (ckv_tunable_query(context, i, &info) != CKV_OK || ckv_plan_parameter(plan, i, &parameter) != CKV_OK) {
            message_error("%s", ckv_error_detail());
            return false;
        }
        read_values(context, i, &info, &space->tunables[i]);
        space->tunables[i].held = parameter.source == CKV_SOURCE_ENVIRONMENT;
        space->fallback.value[i] = parameter.value;
    }
    return true;
}

static bool is_wanted(const char *stage, const char *const *stages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(stages[i], stage) == 0)
            return true;
    return count == 0;
}

static struct group *group_of(const struct tunable *t, struct group *groups, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (groups[i].scope == t->scope && strcmp(groups[i].stage, t->stage) == 0)
            return &groups[i];
    groups[*count] = (struct group){
        .stage = t->stage, .measured = strcmp(t->stage, "all") == 0 ? "evict" : t->stage, .scope = t->scope, .size = 1};
    return &groups[(*count)++];
}

size_t space_groups(const struct space *space, const char *const *stages, size_t stage_count, struct group *groups)
{
    size_t count = 0;

    for (int32_t scope = CKV_SCOPE_CONTEXT; scope <= CKV_SCOPE_PLAN; scope++)
        for (int32_t i = 0; i < space->count; i++) {
            const struct tunable *t = &space->tunables[i];
            struct group *group;

            if (t->scope != scope || t->held || t->count < 2 || !is_wanted(t->stage, stages, stage_count))
                continue;
            group = group_of(t, groups, &count);
            group->members[group->count++] = i;
            group->size *= t->count;
        }
    return count;
}

struct candidate space_nth(const struct space *space, const struct group *group, const struct candidate *base,
                           int64_t number)
{
    struct candidate candidate = *base;

    for (int32_t i = 0; i < group->count; i++) {
        const struct tunable *t = &space->tunables[group->members[i]];

        candidate.value[group->members[i]] = t->values[number % t->count];
        number /= t->count;
    }
    return candidate;
}

int space_distance(const struct group *group, const struct candidate *a, const struct candidate *b)
{
    int distance = 0;

    for (int32_t i = 0; i < group->count; i++)
        distance += a->value[group->members[i]] != b->value[group->members[i]];
    return distance;
}

static size_t put(const struct tunable *t, int32_t value, char *text, size_t used, size_t size)
{
    const char *label = "?";

    for (int32_t i = 0; i < t->count; i++)
        if (t->values[i] == value)
            label = t->labels[i];
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, "%s%s=%s", used == 0 ? "" : ",", t->name, label);
    return used;
}

void space_text(const struct space *space, const struct candidate *candidate, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int32_t i = 0; i < space->count; i++)
        if (!space->tunables[i].held)
            used = put(&space->tunables[i], candidate->value[i], text, used, size);
}

void space_group_text(const struct space *space, const struct group *group, const struct candidate *candidate,
                      char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int32_t i = 0; i < group->count; i++)
        used = put(&space->tunables[group->members[i]], candidate->value[group->members[i]], text, used, size);
}

const char *space_scope(int32_t scope)
{
    return scope == CKV_SCOPE_CONTEXT ? "context" : scope == CKV_SCOPE_PROJECTION ? "projection" : "plan";
}
