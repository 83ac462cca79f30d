/* SPDX-License-Identifier: Apache-2.0 */
/* ckv bench: times stages and layers, beside the machine's limits and the peers. */
#include "bench.h"

#include "threads.h"
#include "tools/message.h"
#include "tools/progress.h"

#include <string.h>

/* The backend and device that the context took. */
static bool find_device(struct bench *bench)
{
    for (int32_t i = 0; i < ckv_device_count(bench->context); i++) {
        ckv_device_info info = {.struct_size = sizeof info};

        if (ckv_device_query(bench->context, i, &info) != CKV_OK) {
            message_error("%s", ckv_error_detail());
            return false;
        }
        if (info.selected) {
            bench->report.backend = info.backend;
            bench->report.device = info.name;
        }
    }
    return true;
}

/* Limits are those of the instructions that the backend uses, where that is known. */
static bool measure_limits(struct bench *bench)
{
    const struct isa *isa = NULL;

    if (strcmp(bench->report.backend, "cpu") == 0)
        isa = isa_find(bench->report.device);
    else if (strcmp(bench->report.backend, "ref") == 0)
        isa = isa_find("portable");
    bench->has_limits = isa != NULL;
    if (isa == NULL)
        return true;
    progress_note("measuring this machine's limits");
    bench->report.limits = &bench->limits;
    return limits_measure(&bench->limits, isa, bench->threads, bench->options.quick);
}

static bool readable(const char *path)
{
    const struct layer_choice every = {NULL, 0};
    struct st_file file;
    struct layer_list layers;
    bool good;

    memset(&file, 0, sizeof file);
    memset(&layers, 0, sizeof layers);
    good = st_open(&file, path) && layers_find(&file, NULL, &every, &layers);
    layers_free(&layers);
    st_close(&file);
    return good;
}

/* Every file is looked at before anything is measured. */
static bool check_shapes(const struct bench_options *options)
{
    for (size_t i = 0; i < options->subject_count; i++) {
        const char *point = strrchr(options->subjects[i], '.');
        bool is_capture = point != NULL && strcmp(point, ".safetensors") == 0;
        struct shape shape;

        if (is_capture && options->targets) {
            message_error("--targets: with the capture %s, wanted a shape: its sizes are set", options->subjects[i]);
            return false;
        }
        if (is_capture ? !readable(options->subjects[i]) : !shapes_read("--shapes", options->subjects[i], &shape))
            return false;
    }
    return true;
}

static bool run(struct bench *bench)
{
    struct options *options = &bench->options.run;
    struct show *show = &bench->report;

    if (!check_shapes(&bench->options))
        return false;
    if (options->threads == 0)
        options->threads = threads_default();
    if (options->threads == 0)
        return false;
    bench->context = command_context(options);
    if (bench->context == NULL || !find_device(bench))
        return false;
    bench->threads = strcmp(show->backend, "ref") == 0 ? 1 : threads_usable(options->threads);
    if (!bench->options.peers || !blas_open(&bench->blas))
        bench->blas.library = NULL;
    if (!measure_limits(bench))
        return false;
    bench->agrees = true;
    show->json = options->json;
    show->threads = bench->threads;
    show->blas = &bench->blas;
    show->peers = bench->options.peers;
    machine_describe(&show->machine);
    show_begin(show);
    if (!(bench->options.targets ? run_targets(bench) : run_cases(bench)))
        return false;
    if (!show->complete)
        message_error("JSON report: cannot be written");
    return show->complete && bench->agrees;
}

int command_bench(int argc, char **argv)
{
    struct bench bench;
    bool good;

    memset(&bench, 0, sizeof bench);
    if (!bench_options_parse(argc, argv, &bench.options)) {
        bench_options_free(&bench.options);
        return EXIT_USAGE;
    }
    good = run(&bench);
    progress_wipe();
    limits_close(&bench.limits);
    blas_close(&bench.blas);
    ckv_context_destroy(bench.context);
    bench_options_free(&bench.options);
    return good ? EXIT_DONE : EXIT_INPUT;
}
