/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows: what its two forms share. */
#include "report.h"

#include "message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const report_stages[STAGES] = {"projection", "score", "norm", "select", "evict", "compact", "perturbation"};

/* ------------------------------------------------------------------ gathering */

bool report_begin(struct report *report, const struct options *options, bool is_evict, size_t count)
{
    memset(report, 0, sizeof *report);
    report->options = options;
    report->is_evict = is_evict;
    report->count = count;
    report->layers = calloc(count, sizeof *report->layers);
    if (report->layers == NULL) {
        message_error("%s: out of memory", options->input);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        for (int stage = 0; stage < STAGES; stage++)
            report->layers[i].seconds[stage] = -1;
        report->layers[i].exact_norms = -1;
    }
    return true;
}

void report_free(struct report *report)
{
    free(report->layers);
    memset(report, 0, sizeof *report);
}

const char *report_tensor(uint32_t flag)
{
    switch (flag) {
    case CKV_NONFINITE_QUERY:
        return "query";
    case CKV_NONFINITE_KEY:
        return "key";
    case CKV_NONFINITE_VALUE:
        return "value";
    case CKV_NONFINITE_WEIGHT:
        return "o_proj.weight";
    case CKV_NONFINITE_ATTENTION:
        return "attention";
    case CKV_NONFINITE_NORM:
        return "norm";
    default:
        return NULL;
    }
}

void report_nonfinite(struct report *report, size_t index, uint32_t flags, const char *weight_path)
{
    struct layer_report *layer = &report->layers[index];

    for (uint32_t flag = 1; flag != 0; flag <<= 1) {
        const char *tensor = report_tensor(flag);

        if ((flags & ~layer->nonfinite & flag) == 0 || tensor == NULL)
            continue;
        layer->nonfinite |= flag;
        if (flag == CKV_NONFINITE_ATTENTION || flag == CKV_NONFINITE_NORM)
            message_warning("%s: layers.%" PRId32 ".%s: has NaN or infinity; NaN ranks last", report->options->input,
                            layer->number, tensor);
        else
            message_warning("%s: layers.%" PRId32 ".%s: has NaN or infinity; NaN is read as 0, infinity as 2^40",
                            flag == CKV_NONFINITE_WEIGHT ? weight_path : report->options->input, layer->number, tensor);
    }
}

void report_totals(const struct report *report, struct totals *totals)
{
    memset(totals, 0, sizeof *totals);
    for (int stage = 0; stage < STAGES; stage++)
        totals->seconds[stage] = -1;
    for (size_t i = 0; i < report->count; i++) {
        const struct layer_report *layer = &report->layers[i];

        totals->entries += layer->kv_heads * layer->tokens;
        totals->kept += layer->kept;
        if (layer->exact_norms >= 0) {
            totals->ranked += layer->kv_heads * layer->tokens;
            totals->exact_norms += layer->exact_norms;
        }
        totals->bytes_before += layer->bytes_before;
        totals->bytes_after += layer->bytes_after;
        for (int stage = 0; stage < STAGES; stage++) {
            if (layer->seconds[stage] < 0)
                continue;
            totals->seconds[stage] = layer->seconds[stage] + (totals->seconds[stage] < 0 ? 0 : totals->seconds[stage]);
        }
        if (!layer->measured)
            continue;
        totals->measured++;
        totals->stage1_mass += layer->perturbation.stage1_mass.mean;
        totals->criticalkv += layer->perturbation.criticalkv.mean;
        totals->attention_only += layer->perturbation.attention_only.mean;
        totals->lower += layer->perturbation.criticalkv.mean < layer->perturbation.attention_only.mean;
        totals->equal += layer->perturbation.criticalkv.mean == layer->perturbation.attention_only.mean;
    }
    if (totals->measured > 0) {
        totals->stage1_mass /= (double)totals->measured;
        totals->criticalkv /= (double)totals->measured;
        totals->attention_only /= (double)totals->measured;
    }
}

double report_change(double criticalkv, double attention_only)
{
    return attention_only == 0 ? 0 : criticalkv / attention_only - 1;
}

bool report_print(const struct report *report)
{
    if (report->options->json)
        return report_json(report, stdout);
    report_table(report, stdout);
    return true;
}
