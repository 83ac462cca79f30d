/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker does with a request. */
#include "workbench.h"

#include "bench/timing.h"
#include "space.h"
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MOST 10 /* candidates whose handles are kept: those of a race, and some */
#define REPEATS_MOST 1000
#define LONG_RUN 1.0 /* seconds of a stage from which on a candidate is compared on the small layer alone */

#define SMALL_TOKENS_SCORE 5003 /* several blocks of any backend, and a rest */
#define SMALL_TOKENS_NORM 801   /* the same; the reference takes half a second */
#define SMALL_HIDDEN 1032       /* fewer outputs would be quantised differently (spec 5.1) */

/* What the reference's, or the default's, bytes are. */
struct wanted {
    char stage[16];
    void *bytes;
    size_t size;
    double seconds; /* that it took to make them */
};

struct opened {
    char parameters[SPACE_TEXT];
    struct handles handles;
    unsigned long used; /* when, for which goes next */
};

/* A layer, a candidate's handles for it, and what must come out of each stage. */
struct bench {
    bool is_made;
    struct shape shape;
    int64_t tokens;
    struct tuned_layer layer;
    struct opened opened[OPEN_MOST];
    struct wanted wanted[SPACE_STAGES];
};

struct workbench {
    struct bench real, small_score, small_norm;
    unsigned long clock;
};

/* A request's fields. */
struct request {
    const char *op, *stage, *parameters, *base, *backend, *device;
    struct shape shape;
    int64_t tokens;
    int32_t threads, repeats;
};

/* ------------------------------------------------------------------ the request */

static int32_t integer(const json_t *object, const char *name)
{
    return (int32_t)json_integer_value(json_object_get(object, name));
}

static bool is_stage(const char *stage)
{
    static const char *const stages[] = {"score", "norm", "select", "compact", "evict"};

    for (size_t i = 0; stage != NULL && i < sizeof stages / sizeof stages[0]; i++)
        if (strcmp(stage, stages[i]) == 0)
            return true;
    return false;
}

static bool read_request(const json_t *object, struct request *request)
{
    const json_t *shape = json_object_get(object, "shape");

    memset(request, 0, sizeof *request);
    request->op = json_string_value(json_object_get(object, "op"));
    request->stage = json_string_value(json_object_get(object, "stage"));
    request->parameters = json_string_value(json_object_get(object, "parameters"));
    request->base = json_string_value(json_object_get(object, "base"));
    request->backend = json_string_value(json_object_get(object, "backend"));
    request->device = json_string_value(json_object_get(object, "device"));
    request->tokens = json_integer_value(json_object_get(object, "tokens"));
    request->threads = integer(object, "threads");
    request->repeats = integer(object, "repeats");
    snprintf(request->shape.name, sizeof request->shape.name, "tuned");
    request->shape.query_heads = integer(shape, "query_heads");
    request->shape.kv_heads = integer(shape, "kv_heads");
    request->shape.head_dim = integer(shape, "head_dim");
    request->shape.value_dim = integer(shape, "value_dim");
    request->shape.hidden = integer(shape, "hidden");
    return request->op != NULL && is_stage(request->stage) && request->parameters != NULL && request->base != NULL &&
           request->backend != NULL && request->tokens > 0 && request->shape.kv_heads > 0 &&
           request->shape.query_heads >= request->shape.kv_heads && request->shape.head_dim > 0 &&
           request->shape.value_dim > 0 && request->shape.hidden > 0 && request->repeats <= REPEATS_MOST;
}

/* ------------------------------------------------------------------ layers and handles */

static void bench_close(struct bench *bench)
{
    for (int i = 0; i < OPEN_MOST; i++)
        handles_close(&bench->opened[i].handles);
    for (int i = 0; i < SPACE_STAGES; i++)
        free(bench->wanted[i].bytes);
    tuned_layer_free(&bench->layer);
    memset(bench, 0, sizeof *bench);
}

static const char *bench_make(struct bench *bench, const struct shape *shape, int64_t tokens)
{
    const char *wrong;

    if (bench->is_made && bench->tokens == tokens && memcmp(&bench->shape, shape, sizeof *shape) == 0)
        return NULL;
    bench_close(bench);
    wrong = tuned_layer_make(&bench->layer, shape, tokens);
    bench->shape = *shape;
    bench->tokens = tokens;
    bench->is_made = wrong == NULL;
    return wrong;
}

/* The candidate's handles, opened where they are not yet. */
static const char *open_candidate(struct workbench *wb, struct bench *bench, const struct request *request,
                                  const char *backend, const char *parameters, struct handles **handles)
{
    struct opened *place = &bench->opened[0];
    const char *wrong;

    for (int i = 0; i < OPEN_MOST; i++) {
        struct opened *one = &bench->opened[i];

        if (one->handles.context != NULL && strcmp(one->parameters, parameters) == 0) {
            one->used = ++wb->clock;
            *handles = &one->handles;
            return NULL;
        }
        if (one->used < place->used)
            place = one;
    }
    handles_close(&place->handles);
    wrong = handles_open(&place->handles, &bench->layer, backend, backend == request->backend ? request->device : "0",
                         request->threads, parameters);
    snprintf(place->parameters, sizeof place->parameters, "%s", parameters);
    place->used = ++wb->clock;
    if (wrong != NULL) {
        handles_close(&place->handles);
        place->used = 0;
    }
    *handles = &place->handles;
    return wrong;
}

/* A layer of few enough heads for the reference, with the widths of the real one. */
static struct shape small_shape(const struct shape *shape)
{
    struct shape small = *shape;
    int32_t group = shape->query_heads / shape->kv_heads, hidden = 8 * shape->value_dim + 8;

    small.kv_heads = shape->kv_heads < 2 ? shape->kv_heads : 2;
    small.query_heads = small.kv_heads * (group < 2 ? group : 2);
    hidden = hidden > SMALL_HIDDEN ? hidden : SMALL_HIDDEN;
    small.hidden = shape->hidden < hidden ? shape->hidden : hidden;
    return small;
}

/* ------------------------------------------------------------------ the bits */

static const char other_reference[] = "other bits than the reference's";
static const char other_default[] = "other bits than the default's";

/* What a stage must give on this layer: by `backend` with `parameters`, once. */
static const char *want(struct workbench *wb, struct bench *bench, const struct request *request, const char *backend,
                        const char *parameters, const struct wanted **wanted)
{
    struct wanted *place = bench->wanted;
    struct handles *handles;
    const char *wrong;

    while (place->bytes != NULL && strcmp(place->stage, request->stage) != 0)
        place++;
    *wanted = place;
    if (place->bytes != NULL)
        return NULL;
    wrong = open_candidate(wb, bench, request, backend, parameters, &handles);
    if (wrong == NULL)
        wrong = tuned_layer_complete(&bench->layer, handles);
    place->seconds = timing_clock();
    if (wrong == NULL)
        wrong = tuned_layer_run(&bench->layer, handles, request->stage, &place->bytes, &place->size);
    place->seconds = timing_clock() - place->seconds;
    snprintf(place->stage, sizeof place->stage, "%s", request->stage);
    return wrong;
}

static const char *compare(struct workbench *wb, struct bench *bench, const struct request *request,
                           const struct wanted *wanted, const char *difference)
{
    struct handles *handles;
    void *bytes = NULL;
    size_t size = 0;
    const char *wrong = open_candidate(wb, bench, request, request->backend, request->parameters, &handles);

    if (wrong == NULL)
        wrong = tuned_layer_run(&bench->layer, handles, request->stage, &bytes, &size);
    if (wrong == NULL && (size != wanted->size || memcmp(bytes, wanted->bytes, size) != 0))
        wrong = difference;
    free(bytes);
    return wrong;
}

static const char *check(struct workbench *wb, const struct request *request)
{
    struct shape shape = small_shape(&request->shape);
    bool is_norm = strcmp(request->stage, "norm") == 0 || strcmp(request->stage, "evict") == 0;
    struct bench *small = is_norm ? &wb->small_norm : &wb->small_score;
    const struct wanted *wanted = NULL;
    const char *wrong = bench_make(small, &shape, is_norm ? SMALL_TOKENS_NORM : SMALL_TOKENS_SCORE);

    if (wrong == NULL)
        wrong = want(wb, small, request, "ref", "", &wanted);
    if (wrong == NULL)
        wrong = compare(wb, small, request, wanted, other_reference);
    if (wrong == NULL)
        wrong = bench_make(&wb->real, &request->shape, request->tokens);
    if (wrong == NULL)
        wrong = want(wb, &wb->real, request, request->backend, request->base, &wanted);
    if (wrong == NULL && wanted->seconds < LONG_RUN && strcmp(request->parameters, request->base) != 0)
        wrong = compare(wb, &wb->real, request, wanted, other_default);
    return wrong;
}

static const char *take_time(struct workbench *wb, const struct request *request, json_t *answer)
{
    double seconds[REPEATS_MOST];
    struct handles *handles;
    const char *wrong = bench_make(&wb->real, &request->shape, request->tokens);
    json_t *list;

    if (wrong == NULL)
        wrong = open_candidate(wb, &wb->real, request, request->backend, request->base, &handles);
    if (wrong == NULL)
        wrong = tuned_layer_complete(&wb->real.layer, handles);
    if (wrong == NULL)
        wrong = open_candidate(wb, &wb->real, request, request->backend, request->parameters, &handles);
    if (wrong == NULL)
        wrong = tuned_layer_time(&wb->real.layer, handles, request->stage, request->repeats, seconds);
    if (wrong != NULL)
        return wrong;
    list = json_array();
    for (int32_t i = 0; i < request->repeats; i++)
        json_array_append_new(list, json_real(seconds[i]));
    json_object_set_new(answer, "seconds", list);
    return NULL;
}

static void serve(void *self, const json_t *object, json_t *answer)
{
    struct workbench *wb = self;
    struct request request;
    const char *wrong;

    if (!read_request(object, &request))
        wrong = "a request that lacks something";
    else if (strcmp(request.op, "check") == 0)
        wrong = check(wb, &request);
    else
        wrong = take_time(wb, &request, answer);
    if (wrong == NULL) {
        json_object_set_new(answer, "good", json_true());
        return;
    }
    worker_refuse(answer, wrong);
    /* A device that failed once may fail whoever comes next. */
    if (wrong != other_reference && wrong != other_default)
        json_object_set_new(answer, "last", json_true());
}

int workbench_serve(void)
{
    struct workbench *wb = calloc(1, sizeof *wb);
    int status = wb == NULL ? 1 : worker_serve(serve, wb);

    if (wb != NULL) {
        bench_close(&wb->real);
        bench_close(&wb->small_score);
        bench_close(&wb->small_norm);
    }
    free(wb);
    return status;
}
