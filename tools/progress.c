/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on standard error, for terminals and long work only. */
#include "progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 0.5  /* seconds of work before a bar appears */
#define LONG_WORK 5e8 /* multiply-adds that surely take the scalar reference longer than that */
#define BAR_WIDTH 30
#define BETWEEN 0.2 /* seconds between two pictures of a share */

static struct {
    bool enabled;
    double start;
    double work;    /* in all */
    double done;    /* in the stages before the present one */
    double current; /* in the present one */
    size_t layers;
} bar;

static volatile sig_atomic_t on_screen;

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(double work, size_t layers)
{
    bar.enabled = isatty(STDERR_FILENO) == 1;
    bar.start = seconds();
    bar.work = work;
    bar.done = 0;
    bar.current = 0;
    bar.layers = layers;
}

static void fill(char filled[BAR_WIDTH + 1], double share)
{
    for (int i = 0; i < BAR_WIDTH; i++)
        filled[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    filled[BAR_WIDTH] = '\0';
}

void progress_stage(size_t index, int32_t layer, const char *stage, double work)
{
    char filled[BAR_WIDTH + 1];
    double share;

    bar.done += bar.current;
    bar.current = work;
    if (!bar.enabled || (bar.work < LONG_WORK && seconds() - bar.start < PATIENCE))
        return;
    share = bar.work > 0 ? bar.done / bar.work : 0;
    if (share > 1)
        share = 1;
    fill(filled, share);
    on_screen = 1;
    fprintf(stderr, "\r[%s] %3d%%  layer %d (%zu of %zu): %s\033[K", filled, (int)(share * 100), (int)layer, index + 1,
            bar.layers, stage);
    fflush(stderr);
}

void progress_note(const char *text)
{
    if (isatty(STDERR_FILENO) != 1)
        return;
    on_screen = 1;
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
}

void progress_share(double share, const char *text)
{
    static double last;
    char filled[BAR_WIDTH + 1];
    double now = seconds();

    if (isatty(STDERR_FILENO) != 1 || (on_screen && now - last < BETWEEN))
        return;
    last = now;
    on_screen = 1;
    fill(filled, share > 1 ? 1 : share);
    if (share < 0)
        fprintf(stderr, "\r%s\033[K", text);
    else
        fprintf(stderr, "\r[%s] %3d%%  %s\033[K", filled, (int)((share > 1 ? 1 : share) * 100), text);
    fflush(stderr);
}

void progress_wipe(void)
{
    static const char wipe[] = "\r\033[K";
    int saved = errno;

    if (on_screen) {
        on_screen = 0;
        if (write(STDERR_FILENO, wipe, sizeof wipe - 1) < 0)
            bar.enabled = false;
    }
    errno = saved;
}

void progress_end(void)
{
    progress_wipe();
    bar.enabled = false;
}
