/* SPDX-License-Identifier: Apache-2.0 */
/* Trials in a worker's process: requests made, answers read. */
#include "remote.h"

#include "bench/timing.h"

#include <stdio.h>
#include <string.h>

static double read_clock(void *self)
{
    (void)self;
    return timing_clock();
}

static double estimate(void *self, const struct group *group, const struct candidate *candidate)
{
    const struct remote *remote = self;
    double seconds = 0;

    if (ckv_estimate(remote->plan, group->measured, candidate->value, &seconds) != CKV_OK)
        return 0;
    return seconds;
}

static json_t *request_of(const struct remote *remote, const char *op, const struct group *group,
                          const struct candidate *candidate)
{
    const struct shape *s = remote->shape;
    char text[SPACE_TEXT], base[SPACE_TEXT];

    space_text(remote->space, candidate, text, sizeof text);
    space_text(remote->space, &remote->base, base, sizeof base);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?, s:i, s:I, s:{s:i, s:i, s:i, s:i, s:i}}", "op", op, "stage",
                     group->measured, "parameters", text, "base", base, "backend", remote->backend, "device",
                     remote->device, "threads", (int)remote->threads, "tokens", (json_int_t)remote->tokens, "shape",
                     "query_heads", (int)s->query_heads, "kv_heads", (int)s->kv_heads, "head_dim", (int)s->head_dim,
                     "value_dim", (int)s->value_dim, "hidden", (int)s->hidden);
}

/* The answer is the caller's with VERDICT_GOOD. */
static enum verdict ask(struct remote *remote, const json_t *request, double limit, json_t **answer, char *reason)
{
    const char *why;

    switch (worker_ask(&remote->worker, request, limit, answer, reason, SEARCH_REASON)) {
    case ASKED_ANSWERED:
        break;
    case ASKED_LATE:
        return VERDICT_LATE;
    case ASKED_STOPPED:
        return VERDICT_STOPPED;
    default:
        return VERDICT_REJECTED;
    }
    if (json_is_true(json_object_get(*answer, "good")))
        return VERDICT_GOOD;
    why = json_string_value(json_object_get(*answer, "reason"));
    snprintf(reason, SEARCH_REASON, "%s", why == NULL ? "no reason was given" : why);
    json_decref(*answer);
    *answer = NULL;
    return VERDICT_REJECTED;
}

static enum verdict check(void *self, const struct group *group, const struct candidate *candidate, double limit,
                          char *reason)
{
    struct remote *remote = self;
    json_t *request = request_of(remote, "check", group, candidate), *answer = NULL;
    enum verdict verdict = ask(remote, request, limit, &answer, reason);

    json_decref(request);
    json_decref(answer);
    return verdict;
}

static enum verdict take_time(void *self, const struct group *group, const struct candidate *candidate, int repeats,
                              double limit, double *seconds, char *reason)
{
    struct remote *remote = self;
    json_t *request = request_of(remote, "time", group, candidate), *answer = NULL, *list;
    enum verdict verdict;

    json_object_set_new(request, "repeats", json_integer(repeats));
    verdict = ask(remote, request, limit, &answer, reason);
    json_decref(request);
    if (verdict != VERDICT_GOOD)
        return verdict;
    list = json_object_get(answer, "seconds");
    for (int i = 0; i < repeats; i++) {
        const json_t *one = json_array_get(list, (size_t)i);

        seconds[i] = json_number_value(one);
        if (!json_is_number(one) || !(seconds[i] >= 0)) {
            snprintf(reason, SEARCH_REASON, "an answer without times");
            verdict = VERDICT_REJECTED;
            break;
        }
    }
    json_decref(answer);
    return verdict;
}

static void note(void *self, int done, int of)
{
    const struct remote *remote = self;

    if (remote->note != NULL)
        remote->note(remote->user, done, of);
}

struct trials remote_trials(struct remote *remote)
{
    return (struct trials){
        .self = remote, .clock = read_clock, .estimate = estimate, .check = check, .time = take_time, .note = note};
}
