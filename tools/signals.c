/* SPDX-License-Identifier: Apache-2.0 */
/* What the command does when a signal stops it. */
#include "signals.h"

#include "mapping.h"
#include "output.h"
#include "progress.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static void on_stop(int number)
{
    progress_wipe();
    output_remove_unfinished();
    /* SA_RESETHAND put the default action back: this time it ends the process,
     * and the parent sees which signal did. */
    raise(number);
}

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

static volatile sig_atomic_t noted;

/* `flags` of sigaction; neither signal interrupts the other's handler.  What is ignored from outside (nohup)
 * stays ignored. */
static void set_both(void (*handler)(int), int flags)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action, before;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

static void on_first(int number)
{
    noted = number;
    set_both(on_stop, (int)SA_RESETHAND);
}

void signals_note(void)
{
    set_both(on_first, SA_RESTART);
}

int signals_noted(void)
{
    return (int)noted;
}

const char *signals_name(int number)
{
    return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "a signal";
}

static void on_bus_error(int number, siginfo_t *information, void *context)
{
    const char *path = mapping_path_at(information->si_addr);

    (void)context;
    progress_wipe();
    output_remove_unfinished();
    if (path == NULL) {
        raise(number);
        return;
    }
    put("ckv: ");
    put(path);
    put(": cannot be read any further: the file shrank or its device failed while it was in use\n");
    _exit(1);
}

void signals_install(void)
{
    static const int stopping[] = {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXCPU};
    struct sigaction action, before;

    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_stop;
    action.sa_flags = (int)SA_RESETHAND;
    for (size_t i = 0; i < sizeof stopping / sizeof stopping[0]; i++) {
        /* A signal ignored from outside (nohup) stays ignored. */
        if (sigaction(stopping[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(stopping[i], &action, NULL);
    }
    action.sa_flags = (int)SA_RESETHAND | SA_SIGINFO;
    action.sa_sigaction = on_bus_error;
    sigaction(SIGBUS, &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
}
