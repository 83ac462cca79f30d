/* SPDX-License-Identifier: Apache-2.0 */
/* The table on standard output, lines of JSON, and raw files for a comparison elsewhere. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "device.h"

/* ------------------------------------------------------------------ JSON */

static void text(FILE *file, const char *name, const char *value)
{
    fprintf(file, "\"%s\":\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', file);
        if ((unsigned char)*value >= ' ')
            fputc(*value, file);
    }
    fputs("\",", file);
}

static void real(FILE *file, const char *name, double value)
{
    if (isfinite(value))
        fprintf(file, "\"%s\":%.9g,", name, value);
    else
        fprintf(file, "\"%s\":null,", name);
}

static void date(char *text_, size_t size)
{
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL || strftime(text_, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text_[0] = '\0';
}

/* What every line starts with. */
static void begin(const struct report *report, const char *kind)
{
    const struct layer *l = report->subject->layer;
    const ckv_gpu_device_info *info = &report->subject->gpu->info;
    struct utsname system;
    FILE *file = report->json;
    char when[32];
    date(when, sizeof when);
    fputc('{', file);
    text(file, "kind", kind);
    text(file, "version", ckv_version());
    text(file, "date", when);
    if (uname(&system) == 0)
        text(file, "machine", system.machine);
    text(file, "backend", report->subject->gpu->driver->name);
    text(file, "device", info->name);
    text(file, "arch", info->arch);
    text(file, "driver", info->driver);
    text(file, "shape", report->options->shape);
    fprintf(file, "\"query_heads\":%d,\"kv_heads\":%d,\"head_dim\":%d,\"value_dim\":%d,\"hidden\":%d,",
            (int)l->query_heads, (int)l->kv_heads, (int)l->head_dim, (int)l->value_dim, (int)l->hidden);
    text(file, "dtype", report->options->dtype == CKV_F16 ? "f16" : "bf16");
    fprintf(file, "\"tokens\":%lld,\"keep\":\"%s\",\"budget\":%lld,\"window\":%lld,", (long long)l->tokens,
            report->options->keep_text, (long long)report->subject->info.budget,
            (long long)report->subject->info.window);
}

static void put_times(FILE *file, const struct times *times)
{
    real(file, "median", times->median);
    real(file, "min", times->least);
    real(file, "max", times->most);
    real(file, "lower_quartile", times->lower);
    real(file, "upper_quartile", times->upper);
    fprintf(file, "\"repeats\":%d,", times->repeats);
}

/* Of the last field the comma is written over. */
static void end(FILE *file)
{
    fputs("\"unit\":\"s\"}\n", file);
    fflush(file);
}

/* ------------------------------------------------------------------ lines */

void report_head(const struct report *report)
{
    const ckv_gpu_device_info *info = &report->subject->gpu->info;
    printf("%s: %s, %s%s%d compute units, %.1f GB, driver %s, libckv %s\n", report->subject->gpu->driver->name,
           info->name, info->arch, info->arch[0] == '\0' ? "" : ", ", (int)info->compute_units,
           (double)info->memory_bytes * 1e-9, info->driver, ckv_version());
    if (report->chip != NULL)
        printf("floors at the peaks of %s: int8 %.0f TOP/s, fp32 %.1f TFLOP/s, memory %.2f TB/s\n", report->chip->name,
               report->chip->int8 * 1e-12, report->chip->fp32 * 1e-12, report->chip->bytes * 1e-12);
    else
        printf("floors at the measured copy's bandwidth: no peaks known of this device\n");
}

void report_copy(const struct report *report, const struct times *times, double bytes)
{
    printf("copy of %.0f MB: %.3f ms, %.3f TB/s read and written\n", bytes * 1e-6, times->median * 1e3,
           2 * bytes / times->median * 1e-12);
    if (report->json == NULL)
        return;
    begin(report, "device-copy");
    real(report->json, "bytes", 2 * bytes);
    real(report->json, "bandwidth", 2 * bytes / times->median);
    put_times(report->json, times);
    end(report->json);
}

void report_case(const struct report *report)
{
    const struct layer *l = report->subject->layer;
    printf("\n%s: heads %d/%d, d %d, D %d, n = %lld, keep %s, window %lld, %s\n", report->options->shape,
           (int)l->query_heads, (int)l->kv_heads, (int)l->head_dim, (int)l->hidden, (long long)l->tokens,
           report->options->keep_text, (long long)report->subject->info.window,
           report->options->dtype == CKV_F16 ? "f16" : "bf16");
}

void report_check(struct report *report, enum stage stage, int equal)
{
    report->bad += equal != 1;
    printf("  %-17s %s\n", stage_names[stage], equal == 1 ? "bytes equal" : equal == 0 ? "DIFFERENT" : "FAILED");
    if (report->json == NULL)
        return;
    begin(report, "device-check");
    text(report->json, "stage", stage_names[stage]);
    text(report->json, "reference", report->options->reference);
    fprintf(report->json, "\"equal\":%s,", equal == 1 ? "true" : "false");
    end(report->json);
}

void report_skip(const struct report *report, enum stage stage, const char *why)
{
    (void)report;
    printf("  %-17s skipped: %s\n", stage_names[stage], why);
}

void report_times(const struct report *report, enum stage stage, const struct times *times)
{
    const char *bound;
    struct work work = work_of(report->subject, stage);
    double least = floor_of(report->subject, stage, report->chip, report->bandwidth, &bound);
    if (stage == SCORE || (stage == NORM && !report->good[SCORE]))
        printf("  %-17s %10s %10s %10s %4s %10s %7s  %s\n", "stage", "median ms", "min", "max", "runs", "floor ms",
               "share", "bound");
    printf("  %-17s %10.4f %10.4f %10.4f %4d %10.4f %6.1f%%  %s\n", stage_names[stage], times->median * 1e3,
           times->least * 1e3, times->most * 1e3, times->repeats, least * 1e3, 100 * least / times->median, bound);
    fflush(stdout);
    if (report->json == NULL)
        return;
    begin(report, "device-time");
    text(report->json, "stage", stage_names[stage]);
    put_times(report->json, times);
    real(report->json, "flops", work.flops);
    real(report->json, "integer_ops", work.integer_ops);
    real(report->json, "bytes", work.bytes);
    real(report->json, "floor", least);
    text(report->json, "bound", bound);
    real(report->json, "share", least / times->median);
    end(report->json);
}

/* ------------------------------------------------------------------ raw files */

static int write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    FILE *file;
    int good;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    good = file != NULL && fwrite(data, 1, bytes, file) == bytes;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    if (!good)
        fprintf(stderr, "ckv-device-bench: %s: %s\n", path, strerror(errno));
    return good;
}

int dump(const struct subject *subject, const struct options *options)
{
    const struct layer *l = subject->layer;
    const ckv_gpu *gpu = subject->gpu;
    size_t bytes = tensor_bytes(&subject->tensor[NORMS]);
    char meta[400], *norm = malloc(bytes);
    int good, code = norm == NULL ? CKV_GPU_FAILED
                                  : gpu->driver->download(gpu->device, NULL, norm, subject->memory[NORMS], bytes);
    if (code == CKV_GPU_OK)
        code = gpu->driver->wait(gpu->device, NULL);
    if (code != CKV_GPU_OK) {
        free(norm);
        return failed(subject, "copying from the device", code);
    }
    if (mkdir(options->dump, 0777) != 0 && errno != EEXIST)
        fprintf(stderr, "ckv-device-bench: %s: %s\n", options->dump, strerror(errno));
    snprintf(meta, sizeof meta,
             "{\"query_heads\":%d,\"kv_heads\":%d,\"value_dim\":%d,\"hidden\":%d,\"tokens\":%lld,\"dtype\":\"%s\"}\n",
             (int)l->query_heads, (int)l->kv_heads, (int)l->value_dim, (int)l->hidden, (long long)l->tokens,
             options->dtype == CKV_F16 ? "f16" : "bf16");
    good = write_file(options->dump, "value.bin", l->value.data, tensor_bytes(&l->value)) &&
           write_file(options->dump, "weight.bin", l->weight.data, tensor_bytes(&l->weight)) &&
           write_file(options->dump, "norm.bin", norm, bytes) &&
           write_file(options->dump, "meta.json", meta, strlen(meta));
    free(norm);
    return good;
}
