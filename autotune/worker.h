/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of its own in which candidates run, so that one that dies or never ends takes
 * nothing else with it.  The command starts itself again as `ckv tune-worker`; a line of
 * JSON is a request, one line the answer.
 *
 * Request   an object with "op" and what the op needs
 * Answer    {"good": true, ...}, or {"good": false, "reason": "..."}; with "last": true the
 *           worker ends after it, its device being in a bad state
 */
#ifndef CKV_AUTOTUNE_WORKER_H
#define CKV_AUTOTUNE_WORKER_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WORKER_COMMAND "tune-worker"

/* ------------------------------------------------------------------ in the worker */

/* Fills the answer, which is an empty object. */
typedef void worker_answer(void *self, const json_t *request, json_t *answer);

/* Serves requests on the standard streams until there are no more; the exit status. */
int worker_serve(worker_answer *answer, void *self);

/* "good": false, and why. */
void worker_refuse(json_t *answer, const char *reason);

/* ------------------------------------------------------------------ in who asks */

struct worker {
    const char *program;               /* NULL: this one */
    const volatile sig_atomic_t *stop; /* optional: set by a signal handler, ends the waiting */
    pid_t process;                     /* 0: none runs */
    int requests, answers;             /* pipes */
    char *text;                        /* what came of an answer */
    size_t used, room;
    int starts;
};

enum asked { ASKED_ANSWERED, ASKED_LATE, ASKED_DIED, ASKED_STOPPED };

/* Starts a worker where none runs.  Waits for at most `limit` seconds; a worker that is late
 * is killed.  *answer is the caller's with ASKED_ANSWERED; otherwise `reason` says how it
 * ended.  The request is not released. */
enum asked worker_ask(struct worker *worker, const json_t *request, double limit, json_t **answer, char *reason,
                      size_t size);
void worker_close(struct worker *worker);

#endif
