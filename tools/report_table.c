/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows, as a table. */
#include "report.h"

#include <inttypes.h>
#include <string.h>

/* ------------------------------------------------------------------ cells of the table */

/* "-" for what was not done. */
static void milliseconds(double seconds, char *text, size_t size)
{
    if (seconds < 0)
        snprintf(text, size, "-");
    else
        snprintf(text, size, seconds < 0.01 ? "%.2f" : seconds < 1 ? "%.1f" : "%.0f", seconds * 1e3);
}

static void bytes(uint64_t count, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)count;
    size_t unit = 0;

    while (value >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size,
             unit == 0 || value >= 99.95 ? "%.0f %s"
             : value >= 9.995            ? "%.1f %s"
                                         : "%.2f %s",
             value, units[unit]);
}

/* Four significant digits, in as few columns. */
static void magnitude(double value, char *text, size_t size)
{
    if (value == 0)
        snprintf(text, size, "0");
    else if (value >= 1e6 || value < 1e-4)
        snprintf(text, size, "%.3e", value);
    else
        snprintf(text, size, "%.*f", value >= 999.95 ? 1 : value >= 99.995 ? 2 : value >= 9.9995 ? 3 : 4, value);
}

static double percent(int64_t part, int64_t whole)
{
    return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

struct cells {
    char before[16], after[16], norms[16], mass[16], criticalkv[24], attention_only[24], change[24], times[STAGES][16];
};

static void fill_cells(struct cells *cells, uint64_t before, uint64_t after, int64_t norms, int64_t ranked,
                       bool measured, double mass, double criticalkv, double attention_only, const double *seconds)
{
    bytes(before, cells->before, sizeof cells->before);
    bytes(after, cells->after, sizeof cells->after);
    if (ranked > 0)
        snprintf(cells->norms, sizeof cells->norms, "%.1f%%", percent(norms, ranked));
    else
        snprintf(cells->norms, sizeof cells->norms, "-");
    if (measured) {
        snprintf(cells->mass, sizeof cells->mass, "%.1f%%", mass * 100);
        magnitude(criticalkv, cells->criticalkv, sizeof cells->criticalkv);
        magnitude(attention_only, cells->attention_only, sizeof cells->attention_only);
        snprintf(cells->change, sizeof cells->change, "%+.1f%%", report_change(criticalkv, attention_only) * 100);
    } else {
        snprintf(cells->mass, sizeof cells->mass, "-");
        snprintf(cells->criticalkv, sizeof cells->criticalkv, "-");
        snprintf(cells->attention_only, sizeof cells->attention_only, "-");
        snprintf(cells->change, sizeof cells->change, "-");
    }
    for (int stage = 0; stage < STAGES; stage++)
        milliseconds(seconds[stage], cells->times[stage], sizeof cells->times[stage]);
}

/* ------------------------------------------------------------------ the table */

static void print_head(const struct report *report, FILE *stream)
{
    const struct options *options = report->options;
    struct policy_text policy;

    options_policy_text(&options->policy, &policy);
    fprintf(stream, "%s -> %s\n", options->input, options->output);
    fprintf(stream, "backend %s (%s", report->backend, report->device);
    if (strcmp(report->device, report->variant) != 0)
        fprintf(stream, ", %s", report->variant);
    fprintf(stream, "); ");
    if (policy.budget[0] != '\0')
        fprintf(stream, "budget %s per KV head", policy.budget);
    else
        fprintf(stream, "keep %s", policy.keep);
    fprintf(stream, ", alpha %s, epsilon %s, window %" PRId32 ", recent%s%s, sinks %" PRId32 ", pool %s%s\n\n",
            policy.alpha, policy.epsilon, options->policy.window, options->policy.recent < 0 ? " = " : " ",
            policy.recent, options->policy.sinks, policy.pool, options->policy.skip == 0 ? ", every norm" : "");
}

/* The first columns; that of the scale is there when some layer has one. */
static void print_evict_start(FILE *stream, const char *layer, const char *heads, bool has_scale, const char *scale)
{
    fprintf(stream, "%5s %7s ", layer, heads);
    if (has_scale)
        fprintf(stream, "%9s ", scale);
}

#define EVICT_ROW "%8s %8s %6s  %8s %8s  %7s %10s %10s %8s  %6s  %7s %7s %7s %7s %7s\n"

static void print_evict_row(FILE *stream, const char *tokens, const char *kept, double share, const struct cells *cells)
{
    char text[16];

    snprintf(text, sizeof text, "%.1f%%", share);
    fprintf(stream, EVICT_ROW, tokens, kept, text, cells->before, cells->after, cells->mass, cells->criticalkv,
            cells->attention_only, cells->change, cells->norms, cells->times[STAGE_SCORE], cells->times[STAGE_NORM],
            cells->times[STAGE_SELECT], cells->times[STAGE_EVICT], cells->times[STAGE_COMPACT]);
}

static void print_evict(const struct report *report, const struct totals *totals, FILE *stream)
{
    struct cells cells;
    bool has_scale = false;

    for (size_t i = 0; i < report->count; i++)
        has_scale = has_scale || report->layers[i].scale != 0.0f;
    print_evict_start(stream, "", "Q/KV", has_scale, "logits'");
    fprintf(stream, "%8s %8s %6s  %17s  %7s %30s  %6s  %39s\n", "", "kept per", "", "K and V, bytes", "stage 1",
            "output perturbation, L1", "exact", "time, ms");
    print_evict_start(stream, "layer", "heads", has_scale, "scale");
    fprintf(stream, EVICT_ROW, "tokens", "KV head", "kept", "before", "after", "mass", "CriticalKV", "attn. only",
            "change", "norms", "score", "norm", "select", "evict", "compact");
    for (size_t i = 0; i < report->count; i++) {
        const struct layer_report *layer = &report->layers[i];
        char number[16], heads[32], scale[16], tokens[24], kept[24];

        snprintf(number, sizeof number, "%" PRId32, layer->number);
        snprintf(heads, sizeof heads, "%" PRId32 "/%" PRId32, layer->query_heads, layer->kv_heads);
        snprintf(scale, sizeof scale, layer->scale == 0.0f ? "-" : "%.4g", (double)layer->scale);
        snprintf(tokens, sizeof tokens, "%" PRId64, layer->tokens);
        snprintf(kept, sizeof kept, "%" PRId64, layer->budget);
        fill_cells(&cells, layer->bytes_before, layer->bytes_after, layer->exact_norms,
                   layer->exact_norms < 0 ? 0 : layer->kv_heads * layer->tokens, layer->measured,
                   layer->perturbation.stage1_mass.mean, layer->perturbation.criticalkv.mean,
                   layer->perturbation.attention_only.mean, layer->seconds);
        print_evict_start(stream, number, heads, has_scale, scale);
        print_evict_row(stream, tokens, kept, percent(layer->kept, layer->kv_heads * layer->tokens), &cells);
    }
    fill_cells(&cells, totals->bytes_before, totals->bytes_after, totals->exact_norms, totals->ranked,
               totals->measured > 0, totals->stage1_mass, totals->criticalkv, totals->attention_only, totals->seconds);
    print_evict_start(stream, "all", "", has_scale, "");
    print_evict_row(stream, "", "", percent(totals->kept, totals->entries), &cells);
    if (totals->measured == 0)
        return;
    fprintf(stream,
            "\nCriticalKV changes the attention output less than attention-only selection of as many entries in %zu of "
            "%zu layers",
            totals->lower, totals->measured);
    if (totals->equal > 0)
        fprintf(stream, ", as much in %zu", totals->equal);
    fprintf(stream, "; mean %s against %s (%s).\n", cells.criticalkv, cells.attention_only, cells.change);
}

#define SELECT_ROW "%5s %8s %8s %8s %6s  %7s\n"

static void print_select(const struct report *report, const struct totals *totals, FILE *stream)
{
    char share[16], time[16];

    fprintf(stream, SELECT_ROW, "", "", "", "kept per", "", "time,");
    fprintf(stream, SELECT_ROW, "layer", "KV heads", "tokens", "KV head", "kept", "ms");
    for (size_t i = 0; i < report->count; i++) {
        const struct layer_report *layer = &report->layers[i];
        char number[16], heads[16], tokens[24], kept[24];

        snprintf(number, sizeof number, "%" PRId32, layer->number);
        snprintf(heads, sizeof heads, "%" PRId32, layer->kv_heads);
        snprintf(tokens, sizeof tokens, "%" PRId64, layer->tokens);
        snprintf(kept, sizeof kept, "%" PRId64, layer->budget);
        snprintf(share, sizeof share, "%.1f%%", percent(layer->kept, layer->kv_heads * layer->tokens));
        milliseconds(layer->seconds[STAGE_SELECT], time, sizeof time);
        fprintf(stream, SELECT_ROW, number, heads, tokens, kept, share, time);
    }
    snprintf(share, sizeof share, "%.1f%%", percent(totals->kept, totals->entries));
    milliseconds(totals->seconds[STAGE_SELECT], time, sizeof time);
    fprintf(stream, SELECT_ROW, "all", "", "", "", share, time);
}

void report_table(const struct report *report, FILE *stream)
{
    struct totals totals;

    report_totals(report, &totals);
    print_head(report, stream);
    if (report->is_evict)
        print_evict(report, &totals, stream);
    else
        print_select(report, &totals, stream);
}
