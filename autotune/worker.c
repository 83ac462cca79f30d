/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side: requests in, answers out. */
#define _POSIX_C_SOURCE 200809L
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void worker_refuse(json_t *answer, const char *reason)
{
    json_object_set_new(answer, "good", json_false());
    json_object_set_new(answer, "reason", json_string(reason));
}

static bool answer_line(worker_answer *answer, void *self, const char *line, FILE *out)
{
    json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, NULL), *object = json_object();
    bool good;

    if (json_is_object(request))
        answer(self, request, object);
    else
        worker_refuse(object, "the request is no object of JSON");
    good = json_dumpf(object, out, JSON_COMPACT) == 0 && fputc('\n', out) != EOF && fflush(out) == 0 &&
           !json_is_true(json_object_get(object, "last"));
    json_decref(request);
    json_decref(object);
    return good;
}

int worker_serve(worker_answer *answer, void *self)
{
    /* A library that prints must not print into an answer. */
    int number = dup(STDOUT_FILENO);
    FILE *out = number < 0 ? NULL : fdopen(number, "w");
    char *line = NULL;
    size_t room = 0;

    if (out == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 1;
    while (getline(&line, &room, stdin) > 0 && answer_line(answer, self, line, out))
        ;
    free(line);
    fclose(out);
    return 0;
}
