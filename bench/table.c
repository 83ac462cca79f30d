/* SPDX-License-Identifier: Apache-2.0 */
/* What a benchmark shows, as tables. */
#include "show.h"

#include <inttypes.h>
#include <stdio.h>

#ifdef CKV_BENCH_CXX
#define SELECTION "std::nth_element; "
#else
#define SELECTION ""
#endif

/* ------------------------------------------------------------------ cells */

static void milliseconds(double seconds, char *text, size_t size)
{
    double value = seconds * 1e3;

    snprintf(text, size, value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : value >= 0.1 ? "%.2f" : "%.4f", value);
}

static void per_second(double rate, char *text, size_t size)
{
    snprintf(text, size, rate >= 99.95e9 ? "%.0f" : rate >= 9.995e9 ? "%.1f" : "%.2f", rate * 1e-9);
}

static void spread_text(const struct times *times, char *text, size_t size)
{
    if (times->repeats == 1)
        snprintf(text, size, "1 run");
    else
        snprintf(text, size, "%.1f%%", 100 * timing_spread(times));
}

/* "16K", or all digits. */
static void tokens_text(int64_t tokens, char *text, size_t size)
{
    if (tokens % 1024 == 0)
        snprintf(text, size, "%" PRId64 "K", tokens / 1024);
    else
        snprintf(text, size, "%" PRId64, tokens);
}

/* ------------------------------------------------------------------ the machine */

static void print_limits(const struct limits *limits)
{
    static const char *const what[BOUNDS] = {"fp32 multiply-adds", "int16 multiply-adds", "memory read",
                                             "memory copy, read and written"};
    char one[32], all[32], threads[32];

    snprintf(threads, sizeof threads, "%" PRId32 " threads", limits->threads);
    printf("\n%-30s %-24s %10s %10s\n", "limits of this machine", "measured with", "1 thread",
           limits->threads == 1 ? "" : threads);
    for (int i = 0; i < BOUNDS; i++) {
        enum bound bound = (enum bound)i;

        per_second(limits->one[i].rate, one, sizeof one);
        per_second(limits->all[i].rate, all, sizeof all);
        printf("  %-28s %-24s %10s %10s %s\n", what[i], limits_method(limits, bound), one,
               limits->threads == 1 ? "" : all, limits_unit(bound));
    }
}

void table_begin(const struct show *show)
{
    const struct machine *machine = &show->machine;

    printf("ckv %s, backend %s (%s), %" PRId32 " thread%s; %s; %d processors: %s\n", ckv_version(), show->backend,
           show->device, show->threads, show->threads == 1 ? "" : "s", machine->compiler, machine->processors,
           machine->processor);
    if (machine->load > 0.5)
        printf("note: the load average was %.1f as this began; other work disturbs the figures\n", machine->load);
    if (show->limits != NULL)
        print_limits(show->limits);
    else
        printf("\nno limits are known for this backend\n");
    if (show->peers)
        printf("\npeers, fp32, as many threads: %s; " SELECTION "memcpy\n",
               show->blas->library == NULL ? show->blas->reason : show->blas->config);
}

/* ------------------------------------------------------------------ stages */

static void print_case(const struct bench_case *about)
{
    const struct layer *layer = &about->subject->layer;

    printf("%s: %" PRId32 "/%" PRId32 " heads, head_dim %" PRId32 ", hidden %" PRId32 ", %s", about->subject->name,
           layer->query_heads, layer->kv_heads, layer->head_dim, layer->hidden, show_dtype(layer->key.dtype));
}

void table_case(const struct show *show, const struct bench_case *about)
{
    char keep[32], tokens[24];

    tokens_text(about->subject->layer.tokens, tokens, sizeof tokens);
    bench_keep_text(&about->keep, keep, sizeof keep);
    printf("\n");
    print_case(about);
    printf("; %s tokens, keep %s (%" PRId64 ")\n", tokens, keep, about->info->budget);
    printf("  %-8s %9s %6s  %-13s %-22s %6s", "stage", "time, ms", "spread", "       rate", "of limit", "share");
    if (show->peers)
        printf("  %-29s %9s %7s", "peer", "time, ms", "ours is");
    printf("\n");
}

static void print_peer(const struct row *row)
{
    char time[32];

    if (row->peer == NULL) {
        printf("%s", row->stage == BENCH_LAYER ? "" : "  none");
        return;
    }
    milliseconds(row->peer_times.median, time, sizeof time);
    printf("  %-29s %9s %6.2fx", row->peer, time, row->peer_times.median / row->times.median);
}

void table_row(const struct show *show, const struct row *row)
{
    const struct work *work = &row->work;
    char time[32], spread[32], rate[32], limit[64] = "", share[32] = "";

    milliseconds(row->times.median, time, sizeof time);
    spread_text(&row->times, spread, sizeof spread);
    per_second(work_amount(work) / row->times.median, rate, sizeof rate);
    if (show->limits != NULL) {
        snprintf(limit, sizeof limit, "%s",
                 row->stage == BENCH_LAYER ? "sum of its stages'" : limits_name(show->limits, work->bound));
        snprintf(share, sizeof share, "%.0f%%", 100 * row->floor / row->times.median);
    }
    printf("  %-8s %9s %6s  %6s %-6s %-22s %6s", bench_stages[row->stage], time, spread,
           row->stage == BENCH_LAYER ? "" : rate, row->stage == BENCH_LAYER ? "" : limits_unit(work->bound), limit,
           share);
    if (show->peers)
        print_peer(row);
    printf("\n");
}

void table_agreement(const struct agreement *agreement)
{
    printf("  the peers agree: attention within %.1e of the largest, norms within %.1e, %.2f%% of the kept entries\n",
           agreement->attention_error, agreement->norm_error, 100 * agreement->overlap);
}

/* ------------------------------------------------------------------ targets */

void table_targets(const struct bench_case *about)
{
    printf("\ntargets, ");
    print_case(about);
    printf("\n  %-44s %9s %6s  %-46s %9s %8s\n", "", "time, ms", "spread", "against", "time, ms", "");
}

void table_target(const struct target *target)
{
    char time[32], spread[32], against[32], result[32];
    double ratio = target->against_seconds / target->times.median;

    milliseconds(target->times.median, time, sizeof time);
    spread_text(&target->times, spread, sizeof spread);
    milliseconds(target->against_seconds, against, sizeof against);
    snprintf(result, sizeof result, target->is_share ? "%.0f%%" : "%.2fx", target->is_share ? 100 * ratio : ratio);
    printf("  %-44s %9s %6s  %-46s %9s %8s\n", target->what, time, spread, target->against, against, result);
}
