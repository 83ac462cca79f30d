/* SPDX-License-Identifier: Apache-2.0 */
/* The cases in turn: the layer is made, checked on the device, timed there. */
#include <string.h>

#include "device.h"

#define NO_DEVICE 77

/* A stage's call, as what is timed. */
struct stage_call {
    struct subject *subject;
    enum stage stage;
};

static int call_stage(void *argument)
{
    struct stage_call *call = argument;
    return subject_call(call->subject, call->stage);
}

static int clear(struct subject *subject, enum place place, size_t offset, size_t bytes)
{
    const ckv_gpu *gpu = subject->gpu;
    ckv_gpu_memory memory = subject->memory[place];
    int code;
    memory.offset += (int64_t)offset;
    code = gpu->driver->clear(gpu->device, NULL, memory, bytes);
    if (code == CKV_GPU_OK)
        code = gpu->driver->wait(gpu->device, NULL);
    return code == CKV_GPU_OK ? 1 : failed(subject, "clearing", code);
}

/* One call, waited for, and its bytes.  `wanted` NULL: nothing to compare. */
static void check(struct report *report, struct subject *subject, const struct wanted *wanted, enum stage stage,
                  call_function call, void *argument)
{
    const ckv_gpu *gpu = subject->gpu;
    int equal = -1;
    if (call(argument)) {
        int code = gpu->driver->wait(gpu->device, subject->run.stream);
        if (code != CKV_GPU_OK)
            failed(subject, stage_names[stage], code);
        else
            equal = wanted == NULL ? 1 : verify(subject, wanted, stage, report->options->spoil == (int)stage);
    }
    report->good[stage] = equal == 1;
    if (wanted != NULL || equal != 1)
        report_check(report, stage, equal);
}

/* Records evict into a graph, and looks at what a replay gives. */
static void capture(struct report *report, struct subject *subject, const struct wanted *wanted, struct native *native)
{
    struct stage_call call = {subject, EVICT};
    const ckv_gpu *gpu = subject->gpu;
    size_t nodes = 0;
    int code;
    if (!native_capture(native, call_stage, &call, &nodes)) {
        report_check(report, REPLAY, -1);
        return;
    }
    printf("  a graph of ckv_evict has %zu nodes\n", nodes);
    /* A driver that ran the calls in place of recording them shows itself here. */
    code = gpu->driver->wait(gpu->device, subject->run.stream);
    if (code != CKV_GPU_OK || !clear(subject, SELECTION, 0, subject->selection_bytes)) {
        report_check(report, REPLAY, -1);
        return;
    }
    check(report, subject, wanted, REPLAY, native_replay, native);
}

static void check_all(struct report *report, struct subject *subject, const struct wanted *wanted,
                      struct native *native)
{
    static const enum stage stages[] = {SCORE, NORM, SELECT, COMPACT, EVICT, IN_PLACE};
    void *own = subject->run.stream;
    memset(report->good, 0, sizeof report->good);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        struct stage_call call = {subject, stages[i]};
        if (stages[i] == EVICT) /* what select left must not stand in for it */
            report->bad += !clear(subject, SELECTION, 0, subject->selection_bytes);
        check(report, subject, wanted, stages[i], call_stage, &call);
    }
    report->bad += !subject_fill(subject);
    if (native != NULL && native_has_graphs(native)) {
        subject->run.stream = native_stream(native);
        capture(report, subject, wanted, native);
        subject->run.stream = own;
    } else {
        report_skip(report, REPLAY, "graphs are CUDA's alone here");
    }
}

static void time_all(struct report *report, struct subject *subject, struct native *native)
{
    void *own = subject->run.stream;
    for (int stage = 0; stage < STAGES; stage++) {
        struct stage_call call = {subject, (enum stage)stage};
        struct times times;
        int good;
        if (!report->good[stage])
            continue;
        if (stage == REPLAY)
            subject->run.stream = native_stream(native);
        good = measure(subject, report->options, stage == REPLAY ? native_replay : call_stage,
                       stage == REPLAY ? (void *)native : (void *)&call, &times);
        subject->run.stream = own;
        if (good)
            report_times(report, (enum stage)stage, &times);
        report->bad += !good;
    }
}

static void time_copy(struct report *report, struct subject *subject, struct native *native)
{
    const ckv_gpu_device_info *info = &subject->gpu->info;
    int64_t bytes = report->options->copy != 0 ? report->options->copy : info->is_cpu ? 32 << 20 : 1 << 30;
    void *own = subject->run.stream;
    struct times times;
    if (native == NULL || bytes > info->memory_bytes / 8 || !native_prepare_copy(native, (size_t)bytes)) {
        printf("no copy was timed\n");
        return;
    }
    subject->run.stream = native_stream(native);
    if (measure(subject, report->options, native_copy, native, &times)) {
        report->bandwidth = 2 * (double)bytes / times.median;
        report_copy(report, &times, (double)bytes);
    }
    subject->run.stream = own;
}

/* The device is current from here to the end of the case. */
static void on_device(struct report *report, const struct layer *layer, const ckv_plan *plan,
                      const ckv_projection *projection, const struct wanted *wanted)
{
    const ckv_gpu *gpu = ckv_gpu_of(plan->context);
    struct subject subject = {.gpu = gpu};
    struct native *native = NULL;
    void *saved;
    int code = gpu->driver->enter(gpu->device, &saved), opened;
    report->subject = &subject;
    if (code != CKV_GPU_OK) {
        report->bad += 1;
        failed(&subject, "making the device current", code);
        return;
    }
    opened =
        subject_open(&subject, layer, plan, projection) && clear(&subject, WORKSPACE, subject.flags, sizeof(uint32_t));
    if (opened) {
        native = native_open(&subject);
        if (report->bandwidth == 0) {
            report_head(report);
            time_copy(report, &subject, native);
        }
        report_case(report);
        check_all(report, &subject, wanted, native);
        if (report->options->dump != NULL && report->options->dump_tokens == layer->tokens)
            report->bad += !dump(&subject, report->options);
        time_all(report, &subject, native);
        native_close(native);
    }
    report->bad += !opened;
    subject_close(&subject);
    gpu->driver->leave(gpu->device, saved);
}

static void run_case(struct report *report, ckv_context *context, int64_t tokens)
{
    const struct options *options = report->options;
    struct layer layer;
    struct wanted wanted;
    ckv_shape shape;
    ckv_policy policy;
    ckv_plan *plan = NULL;
    ckv_projection *projection = NULL;
    ckv_status status = CKV_ERROR_NO_MEMORY;
    int made = layer_make(&layer, options, tokens);
    memset(&wanted, 0, sizeof wanted);
    ckv_policy_init(&policy);
    policy.keep = options->keep;
    policy.window = options->window;
    ckv_shape_init(&shape);
    shape.query_heads = layer.query_heads;
    shape.kv_heads = layer.kv_heads;
    shape.tokens = tokens;
    shape.queries = layer.queries;
    shape.head_dim = layer.head_dim;
    shape.value_dim = layer.value_dim;
    shape.hidden = layer.hidden;
    if (made)
        status = ckv_plan_create(context, &shape, &policy, &plan);
    if (status == CKV_OK)
        status = ckv_projection_create(context, &layer.weight, layer.query_heads, layer.value_dim, &projection);
    if (made && status != CKV_OK)
        fprintf(stderr, "ckv-device-bench: %s: %s\n", ckv_status_string(status), ckv_error_detail());
    if (status == CKV_OK && (!options->check || wanted_make(&wanted, options, &layer, &policy)))
        on_device(report, &layer, plan, projection, options->check ? &wanted : NULL);
    else
        report->bad += 1;
    ckv_projection_destroy(projection);
    ckv_plan_destroy(plan);
    wanted_free(&wanted);
    layer_free(&layer);
}

/* A context of the backend asked for, or of the first that has a device. */
static ckv_context *open_context(const struct options *options)
{
    static const char *const names[] = {"cuda", "hip", "opencl"};
    ckv_context_options choice;
    ckv_context *context = NULL;
    ckv_context_options_init(&choice);
    choice.device = options->device;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && context == NULL; i++) {
        if (options->backend != NULL && strcmp(options->backend, names[i]) != 0)
            continue;
        choice.backend = names[i];
        if (ckv_context_create(&choice, &context) != CKV_OK)
            fprintf(stderr, "ckv-device-bench: no device of backend %s: %s\n", names[i], ckv_error_detail());
    }
    return context;
}

int main(int argc, char **argv)
{
    struct options options;
    struct report report = {.options = &options};
    ckv_context *context;
    int status = options_read(&options, argc, argv);
    if (status >= 0)
        return status;
    setvbuf(stdout, NULL, _IOLBF, 0); /* in step with stderr, and whole when stopped */
    context = open_context(&options);
    if (context == NULL)
        return NO_DEVICE;
    report.chip = chip_of(ckv_gpu_of(context)->info.name);
    if (options.json != NULL && (report.json = fopen(options.json, "a")) == NULL) {
        perror(options.json);
        ckv_context_destroy(context);
        return 1;
    }
    for (int i = 0; i < options.cases; i++)
        run_case(&report, context, options.tokens[i]);
    if (report.json != NULL && fclose(report.json) != 0)
        report.bad++;
    ckv_context_destroy(context);
    if (report.bad > 0)
        fprintf(stderr, "ckv-device-bench: %d failures\n", report.bad);
    return report.bad > 0;
}
