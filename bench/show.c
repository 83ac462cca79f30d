/* SPDX-License-Identifier: Apache-2.0 */
/* What a benchmark shows: what its two forms share. */
#include "show.h"

#include "tools/progress.h"

#include <stdio.h>

double show_floor(const double rates[BOUNDS], const struct work *work)
{
    return rates[work->bound] > 0 ? work_amount(work) / rates[work->bound] : 0;
}

const char *show_dtype(ckv_dtype dtype)
{
    return dtype == CKV_F32 ? "f32" : dtype == CKV_F16 ? "f16" : "bf16";
}

/* Each line is out before the next is measured: the wait is long. */
static void shown(struct show *show, bool good)
{
    show->complete = show->complete && good;
    fflush(stdout);
}

void show_begin(struct show *show)
{
    progress_wipe();
    show->complete = true;
    if (show->json)
        shown(show, json_begin(show));
    else
        table_begin(show);
    fflush(stdout);
}

void show_case(struct show *show, const struct bench_case *about)
{
    progress_wipe();
    if (!show->json)
        table_case(show, about);
    fflush(stdout);
}

void show_row(struct show *show, const struct bench_case *about, const struct row *row)
{
    progress_wipe();
    if (show->json)
        shown(show, json_row(show, about, row));
    else
        table_row(show, row);
    fflush(stdout);
}

void show_agreement(struct show *show, const struct bench_case *about, const struct agreement *agreement)
{
    progress_wipe();
    if (show->json)
        shown(show, json_agreement(show, about, agreement));
    else
        table_agreement(agreement);
    fflush(stdout);
}

void show_targets(struct show *show, const struct bench_case *about)
{
    progress_wipe();
    if (!show->json)
        table_targets(about);
    fflush(stdout);
}

void show_target(struct show *show, const struct bench_case *about, const struct target *target)
{
    progress_wipe();
    if (show->json)
        shown(show, json_target(show, about, target));
    else
        table_target(target);
    fflush(stdout);
}
