/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckv-device-bench: a layer in a GPU's own memory, checked against a backend of the
 * host and then timed by the device's events.
 *
 *   main.c      the cases in turn
 *   options.c   the command line
 *   data.c      a made-up layer in host memory
 *   subject.c   the same on the device, and the calls that are timed
 *   verify.c    the device's bytes against the host's
 *   timing.c    events, medians
 *   native.c    what the drivers' table lacks: a copy on the device, graphs
 *   floors.c    the least work of a stage, and what known chips can do
 *   report.c    the table and the lines of JSON
 */
#ifndef CKV_BENCH_DEVICE_H
#define CKV_BENCH_DEVICE_H

#include <stdint.h>
#include <stdio.h>

#include "backends/gpu/gpu.h"

enum stage { SCORE, NORM, SELECT, COMPACT, EVICT, REPLAY, IN_PLACE, STAGES };
extern const char *const stage_names[STAGES];

/* ------------------------------------------------------------------ options */

#define CASES_MAX 16

struct options {
    const char *backend, *device, *reference, *shape, *json, *dump;
    int32_t query_heads, kv_heads, head_dim, value_dim, hidden, window;
    int64_t tokens[CASES_MAX];
    int cases;
    int64_t dump_tokens;
    ckv_dtype dtype;
    const char *keep_text;
    ckv_ratio keep;
    int repeats, warm_up;
    double most;  /* seconds of one stage's repeats */
    int check;    /* 0: nothing is compared */
    int spoil;    /* a stage whose result is changed before it is compared, or -1 */
    int64_t copy; /* bytes of the copy; 0: by the device */
};

/* -1, or the exit status. */
int options_read(struct options *options, int argc, char **argv);

/* ------------------------------------------------------------------ data */

struct layer {
    int32_t query_heads, kv_heads, head_dim, value_dim, hidden;
    int64_t tokens, queries;
    ckv_tensor query, key, value, weight;
    void *memory[4];
};

/* The same numbers on every machine, whatever the threads.  0 without memory. */
int layer_make(struct layer *layer, const struct options *options, int64_t tokens);
void layer_free(struct layer *layer);
size_t tensor_bytes(const ckv_tensor *tensor); /* of a dense one */

/* ------------------------------------------------------------------ on the device */

enum place { QUERY, KEY, VALUE, ATTENTION, NORMS, KEPT_KEY, KEPT_VALUE, SELECTION, WORKSPACE, PLACES };

struct subject {
    const struct layer *layer;
    const ckv_gpu *gpu;
    const ckv_plan *plan;
    const ckv_projection *projection;
    ckv_plan_info info;
    ckv_gpu_memory memory[PLACES];
    ckv_tensor tensor[SELECTION];
    ckv_selection selection;
    size_t positions, stages, selection_bytes; /* offsets within SELECTION */
    size_t flags;                              /* and within WORKSPACE */
    ckv_run run;
};

/* False after an error line; close in any case.  The device is current meanwhile. */
int subject_open(struct subject *subject, const struct layer *layer, const ckv_plan *plan,
                 const ckv_projection *projection);
void subject_close(struct subject *subject);
int subject_fill(struct subject *subject); /* keys and values anew */

/* A stage's calls, enqueued on subject->run.stream.  REPLAY's is native_replay. */
int subject_call(struct subject *subject, enum stage stage);

/* What failed, on stderr; 0. */
int failed(const struct subject *subject, const char *doing, int code);

/* ------------------------------------------------------------------ checks */

/* What the host's backend makes of the layer. */
struct wanted {
    float *attention, *norm;
    int32_t *positions, *offsets;
    uint8_t *stages;
    char *key, *value; /* compacted in place: all rows */
    ckv_plan_info info;
    uint32_t flags;
    double seconds;
};

int wanted_make(struct wanted *wanted, const struct options *options, const struct layer *layer,
                const ckv_policy *policy);
void wanted_free(struct wanted *wanted);

/* The stage's results on the device, as they stand.  1: equal; 0: different, one line says
 * where; -1: could not be had. */
int verify(struct subject *subject, const struct wanted *wanted, enum stage stage, int spoil);

/* ------------------------------------------------------------------ time */

struct times {
    double median, least, most, lower, upper; /* seconds; quartiles */
    int repeats;                              /* 0: not measured */
};

typedef int (*call_function)(void *argument);
int measure(const struct subject *subject, const struct options *options, call_function call, void *argument,
            struct times *times);

/* ------------------------------------------------------------------ beside the table of drivers */

struct native;
/* NULL after a line that says why.  The device is current. */
struct native *native_open(const struct subject *subject);
void native_close(struct native *native);
void *native_stream(const struct native *native);

/* Copies between two blocks of the size on the device, again and again. */
int native_prepare_copy(struct native *native, size_t bytes);
int native_copy(void *native);

int native_has_graphs(const struct native *native);
/* Records `call` and makes a graph of it; its nodes. */
int native_capture(struct native *native, call_function call, void *argument, size_t *nodes);
int native_replay(void *native);

/* ------------------------------------------------------------------ floors */

/* The least work of a stage; the layer's is that of its stages. */
struct work {
    double flops, integer_ops, bytes;
};
struct work work_of(const struct subject *subject, enum stage stage);

struct chip {
    const char *name, *unlike; /* parts of the device's name */
    double int8, fp32, bytes;  /* a second, dense, at the vendor's figures */
};
/* NULL where it is none of the known ones. */
const struct chip *chip_of(const char *device);

/* Seconds at the peaks or, of an unknown chip, at the measured bandwidth alone; NaN without. */
double floor_of(const struct subject *subject, enum stage stage, const struct chip *chip, double measured,
                const char **bound);

/* ------------------------------------------------------------------ report */

struct report {
    const struct options *options;
    const struct subject *subject;
    const struct chip *chip;
    double bandwidth; /* measured; 0: not yet */
    FILE *json;
    int good[STAGES]; /* of this case: ran, with the bytes wanted; only such are timed */
    int bad;          /* differences and failures */
};

void report_head(const struct report *report);
void report_case(const struct report *report);
void report_copy(const struct report *report, const struct times *times, double bytes);
void report_check(struct report *report, enum stage stage, int equal);
void report_skip(const struct report *report, enum stage stage, const char *why);
void report_times(const struct report *report, enum stage stage, const struct times *times);

/* The layer, its projection and the device's norms as raw files with meta.json. */
int dump(const struct subject *subject, const struct options *options);

#endif
