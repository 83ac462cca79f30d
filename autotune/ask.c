/* SPDX-License-Identifier: Apache-2.0 */
/* The side of who asks: starts a worker, waits for answers, ends one that does not answer. */
#ifdef __linux__
#define _GNU_SOURCE /* strsignal, sys/prctl.h */
#include <sys/prctl.h>
#else
#define _POSIX_C_SOURCE 200809L
#endif
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MOST ((size_t)1 << 20)

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* ------------------------------------------------------------------ starting and ending */

/* In the child, before exec.  A group of its own: a terminal's Ctrl-C is for the one who
 * asks.  Nothing of the parent's is left open, and no worker outlives it. */
static void become(const char *program, int in, int out)
{
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    signal(SIGPIPE, SIG_DFL);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(126);
    if (program != NULL)
        execl(program, "ckv", WORKER_COMMAND, (char *)NULL);
    else
        execl("/proc/self/exe", "ckv", WORKER_COMMAND, (char *)NULL);
    execlp("ckv", "ckv", WORKER_COMMAND, (char *)NULL); /* where there is no /proc */
    _exit(126);
}

static bool make_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

static bool start(struct worker *worker)
{
    int to[2], from[2];

    if (!make_pipe(to))
        return false;
    if (!make_pipe(from)) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    fflush(NULL);
    worker->process = fork();
    if (worker->process == 0)
        become(worker->program, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    worker->requests = to[1];
    worker->answers = from[0];
    if (worker->process < 0) {
        close(to[1]);
        close(from[0]);
        worker->process = 0;
        return false;
    }
    worker->used = 0;
    worker->starts++;
    return true;
}

#define PATIENCE 2.0 /* seconds in which a worker that has closed its pipes must have ended */

/* Its end's status. */
static int finish(struct worker *worker, bool kill_it)
{
    const struct timespec moment = {0, 5000000};
    double end = now() + PATIENCE;
    int status = 0;

    close(worker->requests);
    close(worker->answers);
    while (!kill_it && waitpid(worker->process, &status, WNOHANG) == 0) {
        kill_it = now() >= end;
        nanosleep(&moment, NULL);
    }
    if (kill_it) {
        kill(worker->process, SIGKILL);
        while (waitpid(worker->process, &status, 0) < 0 && errno == EINTR)
            ;
    }
    worker->process = 0;
    return status;
}

void worker_close(struct worker *worker)
{
    if (worker->process > 0)
        finish(worker, true);
    free(worker->text);
    worker->text = NULL;
    worker->used = worker->room = 0;
}

/* ------------------------------------------------------------------ one request */

static bool is_stopped(const struct worker *worker)
{
    return worker->stop != NULL && *worker->stop != 0;
}

/* The pipe holds a request whole, being larger, so that this does not wait. */
static bool send(const struct worker *worker, const json_t *request)
{
    char *text = json_dumps(request, JSON_COMPACT);
    size_t length = text == NULL ? 0 : strlen(text), sent = 0;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    bool good = text != NULL;

    if (!good)
        return false;
    text[length++] = '\n'; /* in place of the end */
    sigaction(SIGPIPE, &ignore, &before);
    while (good && sent < length) {
        ssize_t some = write(worker->requests, text + sent, length - sent);

        if (some > 0)
            sent += (size_t)some;
        else
            good = some < 0 && errno == EINTR && !is_stopped(worker);
    }
    sigaction(SIGPIPE, &before, NULL);
    free(text);
    return good;
}

/* More of an answer: 1, 0 at its end, -1 when nothing came. */
static int receive(struct worker *worker)
{
    ssize_t some;

    if (worker->used + 4096 > worker->room) {
        char *grown = worker->room > ANSWER_MOST ? NULL : realloc(worker->text, worker->room + 8192);

        if (grown == NULL)
            return 0;
        worker->text = grown;
        worker->room += 8192;
    }
    some = read(worker->answers, worker->text + worker->used, worker->room - worker->used - 1);
    if (some < 0)
        return errno == EINTR || errno == EAGAIN ? -1 : 0;
    worker->used += (size_t)some;
    worker->text[worker->used] = '\0';
    return some > 0;
}

/* ASKED_DIED: the answer ended without a line. */
static enum asked wait_for_line(struct worker *worker, double limit)
{
    double end = now() + limit;

    for (;;) {
        struct pollfd from = {worker->answers, POLLIN, 0};
        double left = end - now();

        if (is_stopped(worker))
            return ASKED_STOPPED;
        if (left <= 0)
            return ASKED_LATE;
        /* In short turns: a signal may come between the look and the wait. */
        if (poll(&from, 1, left < 0.1 ? (int)(left * 1e3) + 1 : 100) <= 0)
            continue;
        if (receive(worker) == 0)
            return ASKED_DIED;
        if (worker->used > 0 && memchr(worker->text, '\n', worker->used) != NULL)
            return ASKED_ANSWERED;
    }
}

static void tell_end(int status, char *reason, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(reason, size, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 126)
        snprintf(reason, size, "the worker could not be started");
    else
        snprintf(reason, size, "ended the process with status %d", WEXITSTATUS(status));
}

enum asked worker_ask(struct worker *worker, const json_t *request, double limit, json_t **answer, char *reason,
                      size_t size)
{
    enum asked asked = ASKED_DIED;

    *answer = NULL;
    if (worker->process == 0 && !start(worker)) {
        snprintf(reason, size, "the worker could not be started: %s", strerror(errno));
        return ASKED_DIED;
    }
    worker->used = 0;
    if (send(worker, request))
        asked = wait_for_line(worker, limit);
    if (asked == ASKED_ANSWERED) {
        *answer = json_loads(worker->text, JSON_DISABLE_EOF_CHECK, NULL);
        if (!json_is_object(*answer)) {
            json_decref(*answer);
            *answer = NULL;
            finish(worker, true);
            snprintf(reason, size, "an answer that is no JSON");
            return ASKED_DIED;
        }
        if (json_is_true(json_object_get(*answer, "last")))
            finish(worker, false);
        return ASKED_ANSWERED;
    }
    if (asked == ASKED_DIED)
        tell_end(finish(worker, false), reason, size);
    else
        finish(worker, true);
    return asked;
}
