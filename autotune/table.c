/* SPDX-License-Identifier: Apache-2.0 */
/* What ckv tune shows, for people. */
#include "tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RANKS_SHOWN 10

static void milliseconds(double seconds, char *text, size_t size)
{
    double value = seconds * 1e3;

    snprintf(text, size, value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : value >= 0.1 ? "%.2f" : "%.4f", value);
}

/* "4K", or all digits. */
static void tokens_text(int64_t tokens, char *text, size_t size)
{
    if (tokens % 1024 == 0)
        snprintf(text, size, "%" PRId64 "K", tokens / 1024);
    else
        snprintf(text, size, "%" PRId64, tokens);
}

static void problem_text(const struct item *item, char *text, size_t size)
{
    const struct problem *p = item->problem;
    char tokens[24], timed[24], on[40] = "";

    tokens_text(p->tokens, tokens, sizeof tokens);
    tokens_text(item->timed, timed, sizeof timed);
    if (item->ran && item->timed != p->tokens)
        snprintf(on, sizeof on, " (on %s)", timed);
    snprintf(text, size, "%s, %s%s", item->group.scope == CKV_SCOPE_CONTEXT ? "any layer" : p->shape.name, tokens, on);
}

static void print_head(const struct tune *tune)
{
    printf("ckv %s, backend %s (%s)", ckv_version(), tune->backend, tune->device_name);
    if (strcmp(tune->backend, "ref") != 0)
        printf(", %" PRId32 " thread%s", tune->options.run.threads, tune->options.run.threads == 1 ? "" : "s");
    printf("\n");
}

/* ------------------------------------------------------------------ a dry run */

static void print_space(const struct space *space)
{
    printf("\n%-8s %-10s %-16s %-44s %s\n", "stage", "scope", "tunable", "meaning", "values, the default first");
    for (int32_t i = 0; i < space->count; i++) {
        const struct tunable *t = &space->tunables[i];

        printf("%-8s %-10s %-16s %-44s", t->stage, space_scope(t->scope), t->name, t->meaning);
        for (int32_t k = 0; k < t->count; k++)
            if (t->values[k] == space->fallback.value[i])
                printf(" %s%s", t->labels[k], t->held ? " (by the environment)" : "");
        for (int32_t k = 0; k < t->count && !t->held; k++)
            if (t->values[k] != space->fallback.value[i])
                printf(" %s", t->labels[k]);
        printf("\n");
    }
}

static void print_ranks(const struct tune *tune, const struct item *item)
{
    struct candidate ranked[RANKS_SHOWN];
    struct remote remote = {.plan = item->problem->plan};
    struct trials trials = remote_trials(&remote);
    struct search search = {
        .space = &item->problem->space, .group = &item->group, .base = item->base, .trials = &trials};
    size_t count = search_rank(&search, ranked, RANKS_SHOWN);
    char text[SPACE_TEXT], problem[100];

    (void)tune;
    problem_text(item, problem, sizeof problem);
    printf("\n%s, %s: %.0f candidates, by the model\n", item->group.stage, problem, item->group.size);
    for (size_t i = 0; i < count; i++) {
        double seconds = trials.estimate(trials.self, &item->group, &ranked[i]);
        char time[32];

        milliseconds(seconds, time, sizeof time);
        space_group_text(search.space, &item->group, &ranked[i], text, sizeof text);
        printf("  %3zu  %10s ms  %s%s\n", i + 1, seconds > 0 ? time : "?", text,
               space_distance(&item->group, &ranked[i], &item->base) == 0 ? "  (default)" : "");
    }
}

static void print_dry(const struct tune *tune)
{
    print_space(&tune->problems[0].space);
    for (size_t i = 0; i < tune->item_count; i++)
        print_ranks(tune, &tune->items[i]);
    printf("\nnothing was run, and nothing written\n");
}

/* ------------------------------------------------------------------ results */

static const char *ending_text(enum ending ending)
{
    switch (ending) {
    case ENDING_BUDGET:
        return "; the time was up";
    case ENDING_STOPPED:
        return "; stopped";
    case ENDING_MODEL:
        return "; not run";
    case ENDING_DEFAULT:
        return "; the default could not be timed";
    default:
        return "";
    }
}

static void print_item(const struct tune *tune, const struct item *item)
{
    const struct found *found = &item->found;
    char problem[100], before[32] = "-", after[32] = "-", gain[32] = "-", share[32] = "-", text[SPACE_TEXT];
    double floor = tune_floor(tune, item);

    problem_text(item, problem, sizeof problem);
    space_group_text(&item->problem->space, &item->group, &found->chosen, text, sizeof text);
    if (found->measured) {
        milliseconds(found->default_seconds, before, sizeof before);
        milliseconds(found->chosen_seconds, after, sizeof after);
        snprintf(gain, sizeof gain, "%+.1f%%", 100 * (1 / found->ratio - 1));
    }
    if (found->measured && floor > 0)
        snprintf(share, sizeof share, "%.0f%%", 100 * floor / found->chosen_seconds);
    printf("%-8s %-26s %11s %11s %7s %8s  %s%s%s\n", item->group.stage, problem, before, after, gain, share, text,
           found->changed ? "" : " (default)", ending_text(found->ending));
}

static void print_exhaustive(const struct item *item)
{
    const struct found *found = &item->found;
    char searched[32], best[32], text[SPACE_TEXT], problem[100];

    if (!found->exhaustive)
        return;
    problem_text(item, problem, sizeof problem);
    milliseconds(found->searched_seconds, searched, sizeof searched);
    milliseconds(found->best_seconds, best, sizeof best);
    space_group_text(&item->problem->space, &item->group, &found->best, text, sizeof text);
    printf("%-8s %-26s %11s %11s %+6.1f%%           %s\n", item->group.stage, problem, searched, best,
           100 * (found->best_ratio - 1), text);
}

static void print_rejected(const struct item *item)
{
    char text[SPACE_TEXT], problem[100];

    problem_text(item, problem, sizeof problem);
    for (const struct rejected *r = item->found.rejected; r != NULL; r = r->next) {
        space_group_text(&item->problem->space, &item->group, &r->candidate, text, sizeof text);
        printf("rejected: %s, %s: %s: %s\n", item->group.stage, problem, text, r->reason);
    }
}

static void print_results(const struct tune *tune)
{
    bool any = false;

    printf("\n%-8s %-26s %11s %11s %7s %8s  %s\n", "stage", "layer, tokens", "default, ms", "tuned, ms", "gain",
           "of limit", "values");
    for (size_t i = 0; i < tune->item_count; i++)
        if (tune->items[i].ran)
            print_item(tune, &tune->items[i]);
    for (size_t i = 0; i < tune->item_count; i++)
        any = any || tune->items[i].found.exhaustive;
    if (any)
        printf("\n%-8s %-26s %11s %11s %7s           %s\n", "stage", "all candidates timed", "search, ms", "best, ms",
               "slower", "the best of all");
    for (size_t i = 0; any && i < tune->item_count; i++)
        print_exhaustive(&tune->items[i]);
    printf("\n");
    for (size_t i = 0; i < tune->item_count; i++)
        print_rejected(&tune->items[i]);
    printf("%s%.1f s of %.4g s; ", tune->stopped ? "stopped after " : "", tune->seconds, tune->options.budget);
    printf(tune->path[0] != '\0' ? "saved in %s\n" : "nothing was saved%s\n", tune->path);
}

bool tune_table(const struct tune *tune)
{
    print_head(tune);
    if (tune->item_count == 0)
        printf("nothing to tune: the backend has no choice%s\n",
               tune->options.stage_count > 0 ? " for these stages" : "");
    else if (tune->options.dry_run)
        print_dry(tune);
    else
        print_results(tune);
    return true;
}
