/* SPDX-License-Identifier: Apache-2.0 */
/* ckv tune: what is tuned, in which order, within which time. */
#define _POSIX_C_SOURCE 200809L
#include "tools/command.h"
#include "bench/threads.h"
#include "tools/message.h"
#include "tools/progress.h"
#include "tune.h"
#include "workbench.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_SHARE 0.1    /* of the budget */
#define PATIENCE 10.0         /* seconds that a candidate may take beyond what the default explains */
#define LEAST_SHARE (1.0 / 6) /* of the budget, for one item: less would be too little for all of them */
#define LONG_RUN 0.25         /* seconds by the model, from which on fewer tokens are timed ... */
#define LEAST_TIMED 2048      /* ... but as many blocks as matter */
#define LIMITS_FROM 30.0      /* budgets below are too short to measure the machine's limits */
#define ITEMS_MOST (TUNE_MOST * TUNE_MOST * SPACE_GROUPS)

static volatile sig_atomic_t stop;

static void on_stop(int number)
{
    (void)number;
    stop = 1;
}

/* Ctrl-C and its like end the search and not the command: what is finished is saved. */
static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action, before;

    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_stop;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

/* ------------------------------------------------------------------ what is tuned */

static bool find_device(struct tune *tune)
{
    for (int32_t i = 0; i < ckv_device_count(tune->context); i++) {
        ckv_device_info info = {.struct_size = sizeof info};

        if (ckv_device_query(tune->context, i, &info) != CKV_OK) {
            message_error("%s", ckv_error_detail());
            return false;
        }
        if (!info.selected)
            continue;
        tune->backend = info.backend;
        tune->device_name = info.name;
        snprintf(tune->device, sizeof tune->device, "%d", (int)info.device);
    }
    return true;
}

static bool open_problem(struct tune *tune, struct problem *problem, const struct shape *shape, int64_t tokens)
{
    ckv_shape sizes;

    problem->shape = *shape;
    problem->tokens = tokens;
    problem->info.struct_size = sizeof problem->info;
    ckv_shape_init(&sizes);
    sizes.query_heads = shape->query_heads;
    sizes.kv_heads = shape->kv_heads;
    sizes.tokens = tokens;
    sizes.queries = WORKBENCH_QUERIES;
    sizes.head_dim = shape->head_dim;
    sizes.value_dim = shape->value_dim;
    sizes.hidden = shape->hidden;
    if (ckv_plan_create(tune->context, &sizes, NULL, &problem->plan) == CKV_OK &&
        ckv_plan_query(problem->plan, &problem->info) == CKV_OK)
        return space_read(tune->context, problem->plan, &problem->space);
    message_error("%s, %lld tokens: %s", shape->name, (long long)tokens, ckv_error_detail());
    return false;
}

static bool open_problems(struct tune *tune)
{
    const struct tune_options *options = &tune->options;
    struct shape shapes[TUNE_MOST];

    for (size_t i = 0; i < options->subject_count; i++)
        if (!shapes_read("--shapes", options->subjects[i], &shapes[i]))
            return false;
    tune->problems = calloc(options->subject_count * options->token_count, sizeof *tune->problems);
    tune->items = calloc(ITEMS_MOST, sizeof *tune->items);
    if (tune->problems == NULL || tune->items == NULL) {
        message_error("out of memory");
        return false;
    }
    for (size_t i = 0; i < options->subject_count; i++)
        for (size_t k = 0; k < options->token_count; k++)
            if (!open_problem(tune, &tune->problems[tune->problem_count++], &shapes[i], options->tokens[k]))
                return false;
    return true;
}

/* What is tuned for one of the two holds for the other. */
static bool is_same(int32_t scope, const struct problem *a, const struct problem *b)
{
    const struct shape *x = &a->shape, *y = &b->shape;

    if (scope == CKV_SCOPE_CONTEXT)
        return true;
    if (x->query_heads != y->query_heads || x->value_dim != y->value_dim || x->hidden != y->hidden)
        return false;
    return scope == CKV_SCOPE_PROJECTION ||
           (x->kv_heads == y->kv_heads && x->head_dim == y->head_dim && a->tokens == b->tokens);
}

static bool is_listed(const struct tune *tune, const struct problem *problem, const struct group *group)
{
    for (size_t i = 0; i < tune->item_count; i++) {
        const struct item *item = &tune->items[i];

        if (item->group.scope == group->scope && strcmp(item->group.stage, group->stage) == 0 &&
            is_same(group->scope, item->problem, problem))
            return true;
    }
    return false;
}

static void list_items(struct tune *tune)
{
    for (size_t i = 0; i < tune->problem_count; i++) {
        const struct problem *problem = &tune->problems[i];
        struct group groups[SPACE_GROUPS];
        size_t count = space_groups(&problem->space, tune->options.stages, tune->options.stage_count, groups);

        for (size_t k = 0; k < count; k++)
            if (!is_listed(tune, problem, &groups[k]))
                tune->items[tune->item_count++] =
                    (struct item){.problem = problem, .group = groups[k], .base = problem->space.fallback};
    }
}

/* What was chosen before and holds here too. */
static void set_base(const struct tune *tune, struct item *item)
{
    item->base = item->problem->space.fallback;
    for (const struct item *before = tune->items; before < item; before++) {
        if (!before->found.changed || !is_same(before->group.scope, before->problem, item->problem))
            continue;
        for (int32_t i = 0; i < before->group.count; i++) {
            int32_t member = before->group.members[i];

            item->base.value[member] = before->found.chosen.value[member];
        }
    }
}

/* ------------------------------------------------------------------ the search */

static void note(void *user, int done, int of)
{
    const struct tune *tune = user;
    const struct item *item = &tune->items[tune->now];
    double left = tune->start + tune->options.budget - timing_clock();
    char text[200];

    snprintf(text, sizeof text, "%s, %s, %lld tokens: candidate %d of %d; %.0f s left", item->group.stage,
             item->problem->shape.name, (long long)item->problem->tokens, done, of, left > 0 ? left : 0);
    progress_share(((double)tune->now + (double)done / (of + 1)) / (double)tune->item_count, text);
}

/* Work grows with the tokens, and which blocks are best does not depend on the hundredth of
 * them: a layer cut short tells the same in less time. */
static int64_t timed_tokens(const struct item *item)
{
    int64_t tokens = item->problem->tokens, cut;
    double seconds = 0;

    if (ckv_estimate(item->problem->plan, item->group.measured, item->base.value, &seconds) != CKV_OK ||
        seconds <= LONG_RUN || tokens <= LEAST_TIMED)
        return tokens;
    cut = (int64_t)((double)tokens * LONG_RUN / seconds) / 1024 * 1024;
    return cut > LEAST_TIMED ? cut : LEAST_TIMED;
}

static struct search search_of(struct tune *tune, struct item *item, const struct trials *trials)
{
    double now = timing_clock(), left = tune->start + tune->options.budget - now;

    set_base(tune, item);
    tune->now = (size_t)(item - tune->items);
    tune->remote.space = &item->problem->space;
    tune->remote.shape = &item->problem->shape;
    item->timed = timed_tokens(item);
    tune->remote.tokens = item->timed;
    tune->remote.plan = item->problem->plan;
    tune->remote.base = item->base;
    return (struct search){.space = &item->problem->space,
                           .group = &item->group,
                           .base = item->base,
                           .trials = trials,
                           .deadline = now + fmax(left / (double)(tune->item_count - tune->now),
                                                  fmin(left, LEAST_SHARE * tune->options.budget)),
                           .patience = fmin(PATIENCE, PATIENCE_SHARE * tune->options.budget),
                           .model_only = tune->options.budget == 0 || tune->options.dry_run,
                           .exhaustive = tune->options.exhaustive};
}

static void search_items(struct tune *tune)
{
    struct trials trials = remote_trials(&tune->remote);

    for (size_t i = 0; i < tune->item_count && !stop; i++) {
        struct item *item = &tune->items[i];
        struct search search = search_of(tune, item, &trials);

        note(tune, 0, 1);
        search_run(&search, &item->found);
        item->ran = true;
        if (item->found.measured)
            tune_save(tune, item);
    }
    tune->stopped = stop != 0;
    worker_close(&tune->remote.worker);
}

static bool measure_limits(struct tune *tune)
{
    const struct isa *isa = strcmp(tune->backend, "cpu") == 0 ? isa_find(tune->device_name) : NULL;

    if (isa == NULL || tune->options.budget < LIMITS_FROM || tune->options.dry_run || tune->item_count == 0)
        return true;
    progress_note("measuring this machine's limits");
    tune->has_limits = limits_measure(&tune->limits, isa, threads_usable(tune->options.run.threads), true);
    return tune->has_limits;
}

double tune_floor(const struct tune *tune, const struct item *item)
{
    static const char *const names[] = {"score", "norm", "select", "compact"};
    const struct problem *p = item->problem;
    struct layer layer = {.query_heads = p->shape.query_heads,
                          .kv_heads = p->shape.kv_heads,
                          .tokens = item->timed,
                          .head_dim = p->shape.head_dim,
                          .value_dim = p->shape.value_dim,
                          .hidden = p->shape.hidden};
    bool is_evict = strcmp(item->group.measured, "evict") == 0;
    double sum = 0;

    layer.query.dtype = layer.key.dtype = layer.value.dtype = CKV_BF16;
    for (int stage = BENCH_SCORE; tune->has_limits && stage <= BENCH_COMPACT; stage++) {
        struct work work =
            work_of((enum bench_stage)stage, &layer, p->info.window, p->info.budget * item->timed / p->tokens);

        if (strcmp(item->group.measured, names[stage]) == 0 || (is_evict && stage <= BENCH_SELECT))
            sum += work_amount(&work) / tune->limits.all[work.bound].rate;
    }
    return sum;
}

/* ------------------------------------------------------------------ the command */

/* Nothing that could have been saved was lost. */
static bool all_saved(const struct tune *tune)
{
    for (size_t i = 0; i < tune->item_count; i++) {
        const struct item *item = &tune->items[i];

        if (item->found.measured && !item->saved) {
            message_error("%s", item->unsaved);
            return false;
        }
    }
    return true;
}

/* False after one error line: of all that was tried, not even a default could be timed. */
static bool any_timed(const struct tune *tune)
{
    const struct item *failed = NULL;

    for (size_t i = 0; i < tune->item_count; i++) {
        const struct item *item = &tune->items[i];

        if (item->found.measured)
            return true;
        if (failed == NULL && item->ran && item->found.ending == ENDING_DEFAULT)
            failed = item;
    }
    if (failed == NULL)
        return true;
    message_error("nothing could be tuned: %s, %s, %lld tokens: the default could not be timed: %s",
                  failed->group.stage, failed->problem->shape.name, (long long)failed->problem->tokens,
                  failed->found.rejected == NULL ? "out of memory" : failed->found.rejected->reason);
    return false;
}

static bool run(struct tune *tune)
{
    struct options *options = &tune->options.run;
    bool good;

    catch_signals();
    tune_hide_file(tune);
    if (options->threads == 0)
        options->threads = threads_default();
    if (options->threads == 0)
        return false;
    tune->start = timing_clock();
    tune->context = command_context(options);
    if (tune->context == NULL || !find_device(tune) || !open_problems(tune))
        return false;
    list_items(tune);
    if (tune->item_count > 0 && tune->options.budget > 0 && !tune->options.dry_run && !tune_check_file(tune))
        return false;
    if (!measure_limits(tune))
        return false;
    tune->remote.worker.stop = &stop;
    tune->remote.backend = tune->backend;
    tune->remote.device = tune->device;
    tune->remote.threads = options->threads;
    tune->remote.note = note;
    tune->remote.user = tune;
    if (!tune->options.dry_run)
        search_items(tune);
    tune->seconds = timing_clock() - tune->start;
    progress_wipe();
    good = options->json ? tune_json(tune) : tune_table(tune);
    fflush(stdout);
    return any_timed(tune) && all_saved(tune) && good;
}

int command_tune(int argc, char **argv)
{
    struct tune *tune = calloc(1, sizeof *tune);
    bool good;

    if (tune == NULL) {
        message_error("out of memory");
        return EXIT_INPUT;
    }
    if (!tune_options_parse(argc, argv, &tune->options)) {
        tune_options_free(&tune->options);
        free(tune);
        return EXIT_USAGE;
    }
    good = run(tune);
    progress_wipe();
    for (size_t i = 0; i < tune->item_count; i++)
        search_free(&tune->items[i].found);
    for (size_t i = 0; i < tune->problem_count; i++)
        ckv_plan_destroy(tune->problems[i].plan);
    limits_close(&tune->limits);
    ckv_context_destroy(tune->context);
    free(tune->items);
    free(tune->problems);
    free(tune->file);
    tune_options_free(&tune->options);
    free(tune);
    return good ? EXIT_DONE : EXIT_INPUT;
}

int command_tune_worker(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return workbench_serve();
}
