/* SPDX-License-Identifier: Apache-2.0 */
/* The run of ckv verify; see verify_gate.h. */
#include "verify_gate.h"

#include "command.h"
#include "message.h"
#include "progress.h"
#include "signals.h"
#include "verify_shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIRST_WORK 1e7       /* multiply-adds of the first problem on a device of unknown speed */
#define STEP 32              /* the next may be so many times the greatest so far */
#define LONGEST 2.0          /* seconds of one problem on one target, with --minutes */
#define LONGEST_PATIENT 15.0 /* with --problems alone */
#define HEAD_START 0.3       /* seconds that every target has, whatever its share */
#define UNEQUAL 3            /* times an equal part that one of a backend's targets may have */
#define SHRINK_TRIES 6000
#define SHRINK_SECONDS 90.0

static int no_memory(void)
{
    message_error("out of memory");
    return EXIT_VERIFY_ERROR;
}

/* ------------------------------------------------------------------ who runs what */

/* Whether a target may take so many seconds more: backends share the time equally, and of a backend's
 * targets none may have more than some times an equal part of that. */
static bool has_share(const struct verify_gate *gate, const struct verify_target *target, double more, double elapsed)
{
    size_t backends = 0, own = 0;
    double used = 0, part;

    for (size_t i = 0; i < gate->all.count; i++) {
        const struct verify_target *other = &gate->all.targets[i];

        backends += i == 0 || strcmp(other->backend, other[-1].backend) != 0;
        if (strcmp(other->backend, target->backend) == 0) {
            used += other->seconds;
            own++;
        }
    }
    part = elapsed / (double)backends;
    return used + more <= HEAD_START * (double)own + part &&
           target->seconds + more <= HEAD_START + UNEQUAL * part / (double)own;
}

/* Whether a problem is of a size for the target, and the target has had less than its share.  Its
 * speed shows in the greatest problem so far; sizes far beyond that come step by step. */
static bool has_time(const struct verify_gate *gate, const struct verify_target *target, double work, double elapsed)
{
    const bool patient = gate->options.minutes <= 0;
    double expected = 0;

    if (target->widest > 0)
        expected = target->least + (target->widest_took - target->least) / target->widest * work;
    if (expected > (patient ? LONGEST_PATIENT : LONGEST))
        return false;
    if (patient)
        return true;
    if (work > (target->widest > 0 ? STEP * target->widest : FIRST_WORK))
        return false;
    return has_share(gate, target, expected, elapsed);
}

/* ------------------------------------------------------------------ one problem */

/* The reference's results, and its place in the digest. */
static int solve_reference(struct verify_gate *gate, struct verify_problem *p, struct verify_result *want)
{
    if (!verify_draw(p, gate->options.seed, gate->number) || !verify_complete(gate->all.reference, p) ||
        !verify_solve(gate->all.reference, NULL, p, VERIFY_ALL, VERIFY_PLAIN, want))
        return no_memory();
    for (int stage = 0; stage < VERIFY_STAGES; stage++) {
        if (want[stage].status == CKV_OK && want[stage].stray == NULL)
            continue;
        message_error("problem %" PRIu64 " of seed %" PRIu64 ": the reference: %s: %s", gate->number,
                      gate->options.seed, verify_stages[stage],
                      want[stage].status != CKV_OK ? want[stage].detail : "wrote beyond its output");
        return EXIT_VERIFY_ERROR;
    }
    verify_digest_add(gate->digest, want);
    gate->problems++;
    return EXIT_DONE;
}

/* Counts what agreed; the first stage that does not is the gate's finding. */
static void judge(struct verify_gate *gate, struct verify_target *target, const struct verify_result *want,
                  const struct verify_result *got)
{
    for (int i = 0; i < VERIFY_STAGES; i++) {
        const enum verify_stage stage = (enum verify_stage)i;
        struct verify_count *count = &target->count[i];
        char text[VERIFY_TEXT];

        if ((target->stages & 1u << i) == 0)
            continue;
        count->problems++;
        count->bits += got[i].status == CKV_OK ? verify_bits(&want[i]) : 0;
        if (verify_same(stage, &want[i], &got[i], text))
            continue;
        if (got[i].status != CKV_OK)
            count->errors++;
        else
            count->differences++;
        if (gate->culprit != NULL)
            continue;
        gate->culprit = target;
        gate->failed = got[i].status != CKV_OK;
        gate->found.stage = stage;
        snprintf(gate->found.difference, sizeof gate->found.difference, "%s", text);
    }
}

/* What a target took for a problem. */
static void clock_problem(struct verify_target *target, double took, double work)
{
    if (target->widest <= 0 || took < target->least)
        target->least = took;
    if (work >= target->widest) {
        target->widest = work;
        target->widest_took = took;
    }
}

static int solve_on(struct verify_gate *gate, struct verify_target *target, const struct verify_problem *p,
                    const struct verify_result *want)
{
    struct verify_result got[VERIFY_STAGES];
    double opened = command_clock(), start, end;
    const ckv_context *context = verify_target_context(target, p->threads);
    int status = EXIT_DONE;

    memset(got, 0, sizeof got);
    if (context == NULL)
        return EXIT_VERIFY_ERROR;
    start = command_clock();
    if (!verify_solve(context, gate->all.reference, p, target->stages, VERIFY_PLACED, got))
        status = no_memory();
    end = command_clock();
    target->seconds += end - opened;
    clock_problem(target, end - start, verify_work(p));
    verify_plant(&gate->options.plant, target->backend, p, got);
    if (status == EXIT_DONE)
        judge(gate, target, want, got);
    verify_results_free(got);
    return status;
}

bool verify_gate_compare(const struct verify_gate *gate, struct verify_target *target, enum verify_stage stage,
                         const struct verify_problem *p, bool *same, char text[VERIFY_TEXT])
{
    struct verify_result want[VERIFY_STAGES], got[VERIFY_STAGES];
    const ckv_context *context = verify_target_context(target, p->threads);
    bool good = context != NULL;

    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    *same = true;
    good = good && verify_solve(gate->all.reference, NULL, p, 1u << stage, VERIFY_PLAIN, want) &&
           verify_solve(context, gate->all.reference, p, 1u << stage, VERIFY_PLACED, got);
    if (good && want[stage].status == CKV_OK) {
        verify_plant(&gate->options.plant, target->backend, p, got);
        *same = verify_same(stage, &want[stage], &got[stage], text);
    } else if (good) { /* no problem at all */
        snprintf(text, VERIFY_TEXT, "%s", want[stage].detail);
        good = false;
    } else {
        snprintf(text, VERIFY_TEXT, "out of memory, or the device cannot be opened");
    }
    verify_results_free(want);
    verify_results_free(got);
    return good;
}

/* ------------------------------------------------------------------ what was found */

static bool still_differs(void *context, const struct verify_problem *p)
{
    struct verify_gate *gate = context;
    char text[VERIFY_TEXT];
    bool same;

    progress_share(-1, "making the problem that differs smaller");
    if (!verify_gate_compare(gate, gate->culprit, gate->found.stage, p, &same, text) || same)
        return false;
    snprintf(gate->found.difference, sizeof gate->found.difference, "%s", text);
    return true;
}

/* Shrinks a difference, saves what is left, and says so. */
static int settle(struct verify_gate *gate)
{
    const struct verify_options *options = &gate->options;
    struct verify_case *found = &gate->found;
    struct verify_shrink shrink = {still_differs, gate, SHRINK_TRIES, SHRINK_SECONDS, 0, signals_noted};
    char where[VERIFY_NAME], name[300];
    bool saved;

    verify_target_text(gate->culprit, where, sizeof where);
    snprintf(found->backend, sizeof found->backend, "%s", gate->culprit->backend);
    snprintf(found->device, sizeof found->device, "%s", gate->culprit->device);
    snprintf(found->variant, sizeof found->variant, "%s", gate->culprit->variant);
    snprintf(found->origin, sizeof found->origin, "problem %" PRIu64 " of seed %" PRIu64, gate->number, options->seed);
    if (!gate->failed && !verify_shrink(&shrink, found->stage, &gate->problem))
        message_warning("out of memory: the problem is not as small as it could be");
    gate->tries = shrink.tries;
    snprintf(found->parameters, sizeof found->parameters, "%s",
             gate->culprit->parameters[verify_target_index(gate->problem.threads)]);
    snprintf(name, sizeof name, "ckv-verify-%s%" PRIu64 "-%" PRIu64 ".safetensors",
             options->plant.backend == NULL ? "" : "planted-", options->seed, gate->number);
    snprintf(gate->path, sizeof gate->path, "%s", options->output == NULL ? name : options->output);
    progress_wipe();
    message_error("%s: %s: %s", where, verify_stages[found->stage], found->difference);
    saved = verify_file_write(gate->path, &gate->problem, found);
    if (!saved)
        gate->path[0] = '\0';
    return saved && !gate->failed ? EXIT_VERIFY_DIFFERS : EXIT_VERIFY_ERROR;
}

/* ------------------------------------------------------------------ all problems */

static void show_progress(const struct verify_gate *gate, double elapsed)
{
    const struct verify_options *options = &gate->options;
    double of_time = options->minutes > 0 ? elapsed / (60 * options->minutes) : 0;
    double of_problems = options->problems > 0 ? (double)gate->problems / (double)options->problems : 0;
    char text[80];

    snprintf(text, sizeof text, "%" PRIu64 " problems", gate->problems);
    progress_share(of_time > of_problems ? of_time : of_problems, text);
}

/* Every target in turn, another first each time. */
static int run_problem(struct verify_gate *gate, double start, double end)
{
    struct verify_result want[VERIFY_STAGES];
    struct verify_problem p;
    int status;

    memset(want, 0, sizeof want);
    status = solve_reference(gate, &p, want);
    for (size_t i = 0; status == EXIT_DONE && i < gate->all.count && gate->culprit == NULL; i++) {
        struct verify_target *target = &gate->all.targets[(gate->number + i) % gate->all.count];
        double now = command_clock();

        show_progress(gate, now - start);
        if (now < end && has_time(gate, target, verify_work(&p), now - start))
            status = solve_on(gate, target, &p, want);
        else
            target->left_out++;
    }
    verify_results_free(want);
    if (gate->culprit != NULL)
        gate->problem = p;
    else
        verify_free(&p);
    return status;
}

int verify_gate_run(struct verify_gate *gate)
{
    const struct verify_options *options = &gate->options;
    double start = command_clock(), end = options->minutes > 0 ? start + 60 * options->minutes : start + 1e12;
    int status = EXIT_DONE;

    gate->digest = verify_digest_new();
    if (gate->digest == NULL)
        return no_memory();
    while (status == EXIT_DONE && gate->culprit == NULL && signals_noted() == 0 &&
           (gate->number == 0 || command_clock() < end) &&
           (options->problems == 0 || gate->number < options->problems)) {
        status = run_problem(gate, start, end);
        if (gate->culprit == NULL)
            gate->number++;
    }
    gate->broken = status != EXIT_DONE;
    if (status == EXIT_DONE && gate->culprit != NULL)
        status = settle(gate);
    progress_wipe();
    gate->seconds = command_clock() - start;
    if (status == EXIT_DONE && signals_noted() != 0) { /* a difference says more */
        gate->signal = signals_noted();
        message_error("interrupted by %s after %" PRIu64 " problems", signals_name(gate->signal), gate->problems);
        status = 128 + gate->signal;
    }
    return status;
}
