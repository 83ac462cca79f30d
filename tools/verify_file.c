/* SPDX-License-Identifier: Apache-2.0 */
/* A problem in a safetensors file: tensors dense, everything else as metadata. */
#include "verify_file.h"

#include "lib/sizes.h"
#include "message.h"
#include "output.h"
#include "safetensors.h"
#include "verify_place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ what is written */

/* Whole numbers of a problem: int32_t or int64_t. */
#define FIELD(key, member, least, most)                                                                                \
    {                                                                                                                  \
        key, offsetof(struct verify_problem, member), sizeof(((struct verify_problem *)0)->member), least, most        \
    }
static const struct field {
    const char *key;
    size_t offset, size;
    int64_t least, most;
} fields[] = {
    FIELD("kv_heads", axis[VERIFY_KV_HEADS], 1, 4096),
    FIELD("group", axis[VERIFY_GROUP], 0, 4096),
    FIELD("tokens", axis[VERIFY_TOKENS], 1, CKV_LIMIT_TOKENS),
    FIELD("queries", axis[VERIFY_QUERIES], 0, CKV_LIMIT_TOKENS),
    FIELD("head_dim", axis[VERIFY_HEAD_DIM], 0, CKV_LIMIT_HEAD_DIM),
    FIELD("value_dim", axis[VERIFY_VALUE_DIM], 0, CKV_LIMIT_VALUE_DIM),
    FIELD("hidden", axis[VERIFY_HIDDEN], 0, CKV_LIMIT_HIDDEN),
    FIELD("budget", policy.budget, -1, INT64_MAX),
    FIELD("keep.numerator", policy.keep.numerator, 0, CKV_LIMIT_RATIO),
    FIELD("keep.denominator", policy.keep.denominator, 1, CKV_LIMIT_RATIO),
    FIELD("alpha.numerator", policy.alpha.numerator, 0, CKV_LIMIT_RATIO),
    FIELD("alpha.denominator", policy.alpha.denominator, 1, CKV_LIMIT_RATIO),
    FIELD("window", policy.window, 0, INT32_MAX),
    FIELD("recent", policy.recent, -1, INT32_MAX),
    FIELD("sinks", policy.sinks, 0, INT32_MAX),
    FIELD("pool_width", policy.pool_width, 1, INT32_MAX),
    FIELD("skip", policy.skip, 0, 1),
    FIELD("threads", threads, 1, CKV_LIMIT_THREADS),
    FIELD("compact.keys", moves_keys, 0, 1),
    FIELD("compact.bytes", as_bytes, 0, 1),
    FIELD("compact.in_place", in_place, 0, 1),
    FIELD("compact.spare", spare, 0, 1 << 20),
};
#define FIELDS (sizeof fields / sizeof fields[0])

static const char *const backends[] = {"ref", "cpu", "cuda", "hip", "opencl"};
static const char *const pools[] = {"none", "max", "avg"};
static const char *const outputs[VERIFY_OUTPUTS] = {"attention", "norm", "rows"};

static bool put_number(struct output *output, const char *key, const struct field *field,
                       const struct verify_problem *p)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    char text[32];

    if (field->size == sizeof wide)
        memcpy(&wide, (const char *)p + field->offset, sizeof wide);
    else
        memcpy(&narrow, (const char *)p + field->offset, sizeof narrow);
    snprintf(text, sizeof text, "%" PRId64, field->size == sizeof wide ? wide : narrow);
    return output_metadata(output, key, text);
}

static bool put_float(struct output *output, const char *key, float value)
{
    char text[32];

    snprintf(text, sizeof text, "%a", (double)value);
    return output_metadata(output, key, text);
}

/* "odd+5" */
static bool put_place(struct output *output, const char *prefix, const char *name, const struct verify_place *place)
{
    char key[64], text[40];

    snprintf(key, sizeof key, "%s.%s", prefix, name);
    snprintf(text, sizeof text, "%s+%" PRId32, arrange_name(place->kind), place->offset);
    return output_metadata(output, key, text);
}

static bool put_all(struct output *output, const struct verify_problem *p, const struct verify_case *found)
{
    bool good =
        output_metadata(output, "ckv.verify", "1") && output_metadata(output, "stage", verify_stages[found->stage]) &&
        output_metadata(output, "backend", found->backend) && output_metadata(output, "device", found->device) &&
        output_metadata(output, "variant", found->variant) &&
        output_metadata(output, "parameters", found->parameters) && output_metadata(output, "origin", found->origin) &&
        output_metadata(output, "difference", found->difference) && put_float(output, "epsilon", p->policy.epsilon) &&
        put_float(output, "scale", p->policy.scale) && output_metadata(output, "pool", pools[p->policy.pool]);

    for (size_t i = 0; good && i < FIELDS; i++)
        good = put_number(output, fields[i].key, &fields[i], p);
    for (int i = 0; good && i < VERIFY_INPUTS; i++)
        good = put_place(output, "in", verify_input_names[i], &p->place[i]);
    for (int i = 0; good && i < VERIFY_OUTPUTS; i++)
        good = put_place(output, "out", outputs[i], &p->to[i]);
    return good;
}

static enum st_dtype dtype_of(ckv_dtype dtype)
{
    return dtype == CKV_F32 ? ST_F32 : dtype == CKV_F16 ? ST_F16 : ST_BF16;
}

bool verify_file_write(const char *path, const struct verify_problem *p, const struct verify_case *found)
{
    struct output output;
    bool good;

    memset(&output, 0, sizeof output);
    good = put_all(&output, p, found);
    for (int i = 0; good && i < VERIFY_INPUTS; i++) {
        const int rank = i < VERIFY_WEIGHT ? 3 : 2;
        int64_t extent[3];

        if (p->cells[i] != NULL && verify_extents(p, (enum verify_input)i, extent))
            good = output_add(&output, 0, verify_input_names[i], dtype_of(p->dtype[i]), rank, extent + 3 - rank);
    }
    good = good && output_open(&output, path);
    for (int i = 0; good && i < VERIFY_INPUTS; i++)
        if (p->cells[i] != NULL && verify_count(p, (enum verify_input)i) > 0)
            good = output_write(&output, 0, verify_input_names[i], p->cells[i]);
    good = good && output_commit(&output);
    output_close(&output);
    return good;
}

/* ------------------------------------------------------------------ what is read */

struct reading {
    const char *path;
    const struct st_table *table;
    bool good; /* no error line so far */
};

static void wrong(struct reading *r, const char *key, const char *value, const char *wanted)
{
    if (r->good)
        message_error("%s: __metadata__: %s: '%s': wanted %s", r->path, key, value, wanted);
    r->good = false;
}

static const char *text_of(struct reading *r, const char *key)
{
    const char *text = st_metadata(r->table, key);

    if (text == NULL && r->good) {
        message_error("%s: __metadata__: no %s, wanted a file that ckv verify wrote", r->path, key);
        r->good = false;
    }
    return text == NULL ? "" : text;
}

static int64_t integer(struct reading *r, const char *key, const char *text, int64_t least, int64_t most)
{
    char wanted[80], *end = NULL;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0 && value >= least && value <= most)
        return value;
    snprintf(wanted, sizeof wanted, "an integer from %" PRId64 " to %" PRId64, least, most);
    wrong(r, key, text, wanted);
    return least;
}

static void read_number(struct reading *r, const struct field *field, struct verify_problem *p)
{
    int64_t wide = integer(r, field->key, text_of(r, field->key), field->least, field->most);
    int32_t narrow = (int32_t)wide;

    if (field->size == sizeof wide)
        memcpy((char *)p + field->offset, &wide, sizeof wide);
    else
        memcpy((char *)p + field->offset, &narrow, sizeof narrow);
}

static float read_float(struct reading *r, const char *key)
{
    const char *text = text_of(r, key);
    char *end = NULL;
    float value = strtof(text, &end);

    if (end == text || *end != '\0')
        wrong(r, key, text, "a number");
    return value;
}

static int word(struct reading *r, const char *key, const char *const *words, int count, const char *wanted)
{
    const char *text = text_of(r, key);

    for (int i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    wrong(r, key, text, wanted);
    return 0;
}

static struct verify_place read_place(struct reading *r, const char *prefix, const char *name, int kinds)
{
    struct verify_place place = {ARRANGE_DENSE, 0};
    char key[64], kind[40];
    const char *text, *plus;

    snprintf(key, sizeof key, "%s.%s", prefix, name);
    text = text_of(r, key);
    plus = strchr(text, '+');
    snprintf(kind, sizeof kind, "%.*s", plus == NULL ? 0 : (int)(plus - text), text);
    place.kind = arrange_named(kind);
    if ((int)place.kind >= kinds) {
        wrong(r, key, text, "a layout, a plus sign and a number");
        place.kind = ARRANGE_DENSE;
    } else {
        place.offset = (int32_t)integer(r, key, plus + 1, 0, 63);
    }
    return place;
}

static void copy_text(struct reading *r, const char *key, char *to, size_t size)
{
    const char *text = text_of(r, key);

    if (strlen(text) >= size)
        wrong(r, key, text, "a shorter text");
    snprintf(to, size, "%s", text);
}

static void read_tensor(struct reading *r, struct verify_problem *p, enum verify_input input, unsigned stages)
{
    const int rank = input < VERIFY_WEIGHT ? 3 : 2;
    const struct st_tensor *tensor;
    int64_t extent[3];
    char name[48], shape[80];
    bool fits;

    snprintf(name, sizeof name, "layers.0.%s", verify_input_names[input]);
    tensor = st_find(r->table, name);
    if (!r->good || (tensor == NULL && !verify_reads(p, stages, input)))
        return;
    if (tensor == NULL) {
        message_error("%s: no tensor %s, wanted one for the stage", r->path, name);
        r->good = false;
        return;
    }
    fits = verify_extents(p, input, extent) && tensor->rank == rank;
    for (int i = 0; fits && i < rank; i++)
        fits = tensor->shape[i] == extent[3 - rank + i];
    if (!fits || (tensor->dtype != ST_F32 &&
                  (input >= VERIFY_ATTENTION || (tensor->dtype != ST_F16 && tensor->dtype != ST_BF16)))) {
        st_shape_text(tensor, shape, sizeof shape);
        message_error("%s: %s: %s of shape %s, wanted a dtype and a shape that fit the metadata", r->path, name,
                      st_dtype_name(tensor->dtype), shape);
        r->good = false;
        return;
    }
    p->dtype[input] = tensor->dtype == ST_F32 ? CKV_F32 : tensor->dtype == ST_F16 ? CKV_F16 : CKV_BF16;
    if (!verify_allocate(p, input)) {
        message_error("%s: %s: out of memory", r->path, name);
        r->good = false;
        return;
    }
    memcpy(p->cells[input], tensor->data, (size_t)(tensor->end - tensor->begin));
    if (!verify_settle(p, input)) {
        message_error("%s: %s: out of memory", r->path, name);
        r->good = false;
    }
}

static void read_all(struct reading *r, struct verify_problem *p, struct verify_case *found)
{
    ckv_policy_init(&p->policy);
    if (strcmp(text_of(r, "ckv.verify"), "1") != 0)
        wrong(r, "ckv.verify", text_of(r, "ckv.verify"), "1");
    found->stage =
        (enum verify_stage)word(r, "stage", verify_stages, VERIFY_STAGES, "score, norm, select, compact or evict");
    snprintf(found->backend, sizeof found->backend, "%s",
             backends[word(r, "backend", backends, 5, "ref, cpu, cuda, hip or opencl")]);
    copy_text(r, "device", found->device, sizeof found->device);
    copy_text(r, "variant", found->variant, sizeof found->variant);
    copy_text(r, "parameters", found->parameters, sizeof found->parameters);
    copy_text(r, "origin", found->origin, sizeof found->origin);
    copy_text(r, "difference", found->difference, sizeof found->difference);
    for (size_t i = 0; i < FIELDS; i++)
        read_number(r, &fields[i], p);
    p->policy.epsilon = read_float(r, "epsilon");
    p->policy.scale = read_float(r, "scale");
    p->policy.pool = (ckv_pool)word(r, "pool", pools, 3, "none, max or avg");
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        p->place[i] = read_place(r, "in", verify_input_names[i], ARRANGEMENTS);
        p->dtype[i] = CKV_F32;
    }
    for (int i = 0; i < VERIFY_OUTPUTS; i++)
        p->to[i] = read_place(r, "out", outputs[i], ARRANGE_APART);
    for (int i = 0; i < VERIFY_INPUTS; i++)
        read_tensor(r, p, (enum verify_input)i, 1u << found->stage);
}

bool verify_file_read(const char *path, struct verify_problem *p, struct verify_case *found)
{
    struct st_file file;
    struct reading r = {.path = path, .table = &file.table, .good = true};

    memset(p, 0, sizeof *p);
    memset(found, 0, sizeof *found);
    memset(&file, 0, sizeof file);
    r.good = st_open(&file, path);
    if (r.good)
        read_all(&r, p, found);
    st_close(&file);
    return r.good;
}
