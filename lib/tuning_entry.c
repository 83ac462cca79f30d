/* SPDX-License-Identifier: Apache-2.0 */
/* Entries as JSON objects and back. */
#include "tuning_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define GIB ((int64_t)1 << 30)

static const char *const scopes[] = {"context", "projection", "plan"};

/* ------------------------------------------------------------------ comparing */

int ckv_tuning_same_device(const ckv_tuning_entry *a, const ckv_tuning_entry *b)
{
    return strcmp(a->backend, b->backend) == 0 && strcmp(a->device.vendor, b->device.vendor) == 0 &&
           strcmp(a->device.name, b->device.name) == 0 && strcmp(a->device.arch, b->device.arch) == 0 &&
           a->device.units == b->device.units && a->device.memory_bytes == b->device.memory_bytes &&
           a->device.local_bytes == b->device.local_bytes;
}

int ckv_tuning_same_code(const ckv_tuning_entry *a, const ckv_tuning_entry *b)
{
    return strcmp(a->library, b->library) == 0 && a->device.kernels == b->device.kernels &&
           strcmp(a->device.driver, b->device.driver) == 0;
}

int ckv_tuning_same_key(const ckv_tuning_entry *a, const ckv_tuning_entry *b)
{
    return ckv_tuning_same_device(a, b) && ckv_tuning_same_code(a, b) && strcmp(a->stage, b->stage) == 0 &&
           a->scope == b->scope && ckv_bucket_equal(&a->bucket, &b->bucket);
}

/* ------------------------------------------------------------------ checksum */

static int add_to_sum(const char *text, size_t size, void *sum)
{
    *(uint64_t *)sum = ckv_hash(*(uint64_t *)sum, text, size);
    return 0;
}

/* Over the entry without its sum, keys sorted, no blanks.  Numbers are integers, so that
 * there is but one way to write them. */
static int sum_of(const ckv_json *json, json_t *object, char text[17])
{
    uint64_t sum = CKV_HASH_START;
    json_t *copy = json->json_copy(object);
    int good = copy != NULL;
    if (good) {
        json->json_object_del(copy, "sum");
        good = json->json_dump_callback(copy, add_to_sum, &sum, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII) == 0;
    }
    ckv_json_release(json, copy);
    snprintf(text, 17, "%016llx", (unsigned long long)sum);
    return good;
}

/* ------------------------------------------------------------------ writing */

/* Objects under way: one failure and nothing more is added. */
typedef struct writer {
    const ckv_json *json;
    int good;
} writer;

static void put(writer *w, json_t *object, const char *name, json_t *value)
{
    /* Takes the value over in any case; NULL is an error. */
    w->good &= w->json->json_object_set_new(object, name, value) == 0;
}

static void put_text(writer *w, json_t *object, const char *name, const char *text)
{
    put(w, object, name, w->json->json_string(text));
}

static void put_number(writer *w, json_t *object, const char *name, int64_t number)
{
    put(w, object, name, w->json->json_integer(number));
}

static json_t *put_object(writer *w, json_t *object, const char *name)
{
    json_t *child = w->json->json_object();
    put(w, object, name, child);
    return w->good ? child : NULL; /* gone, where it could not be put */
}

static void put_device(writer *w, json_t *object, const ckv_tuning_entry *entry)
{
    const ckv_device_identity *d = &entry->device;
    char kernels[17];
    snprintf(kernels, sizeof kernels, "%016llx", (unsigned long long)d->kernels);
    put_text(w, object, "backend", entry->backend);
    put_text(w, object, "vendor", d->vendor);
    put_text(w, object, "name", d->name);
    put_text(w, object, "arch", d->arch);
    put_number(w, object, "units", d->units);
    put_number(w, object, "memory_gib", d->memory_bytes / GIB);
    put_number(w, object, "local_bytes", d->local_bytes);
    put_text(w, object, "driver", d->driver);
    put_text(w, object, "compiler", d->compiler);
    put_text(w, object, "kernels", kernels);
}

json_t *ckv_tuning_entry_to_json(const ckv_json *json, const ckv_tuning_entry *entry)
{
    writer w = {json, 1};
    json_t *object = json->json_object(), *bucket, *values;
    char sum[17];
    put_device(&w, put_object(&w, object, "device"), entry);
    put_text(&w, object, "library", entry->library);
    put_text(&w, object, "stage", entry->stage);
    put_text(&w, object, "scope", scopes[entry->scope]);
    bucket = put_object(&w, object, "bucket");
    for (int i = 0; i < CKV_BUCKET_SIZES; i++)
        if (entry->bucket.size[i] != 0)
            put_number(&w, bucket, ckv_bucket_names[i], entry->bucket.size[i]);
    values = put_object(&w, object, "values");
    for (int32_t i = 0; i < entry->count; i++) {
        const ckv_tuning_value *v = &entry->values[i];
        put(&w, values, v->name, v->label[0] != '\0' ? json->json_string(v->label) : json->json_integer(v->number));
    }
    put_number(&w, object, "time_ns", entry->time_ns);
    put_number(&w, object, "default_ns", entry->default_ns);
    put_text(&w, object, "date", entry->date);
    if (w.good && sum_of(json, object, sum)) {
        put_text(&w, object, "sum", sum);
        if (w.good)
            return object;
    }
    ckv_json_release(json, object);
    return NULL;
}

/* ------------------------------------------------------------------ reading */

/* The first thing wrong sticks. */
typedef struct reader {
    const ckv_json *json;
    char *reason;
    size_t size;
} reader;

static int is_good(const reader *r)
{
    return r->reason[0] == '\0';
}

void ckv_tuning_describe(const ckv_json *json, const json_t *value, char *text, size_t size)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_REAL] = "a number with a fraction",
        [JSON_TRUE] = "true",        [JSON_FALSE] = "false",  [JSON_NULL] = "null"};
    if (value == NULL)
        snprintf(text, size, "missing");
    else if (value->type == JSON_STRING)
        snprintf(text, size, "'%.40s'", json->json_string_value(value));
    else if (value->type == JSON_INTEGER)
        snprintf(text, size, "%lld", json->json_integer_value(value));
    else
        snprintf(text, size, "%s", kinds[value->type]);
}

static void refuse(const reader *r, const char *name, const char *found, const char *wanted)
{
    if (is_good(r))
        snprintf(r->reason, r->size, "%s: %s, wanted %s", name, found, wanted);
}

static void refuse_value(const reader *r, const char *name, const json_t *value, const char *wanted)
{
    char found[64];
    ckv_tuning_describe(r->json, value, found, sizeof found);
    refuse(r, name, found, wanted);
}

/* Names are "field" or "object.field", for the message. */
static const json_t *get(const reader *r, const json_t *object, const char *name)
{
    const char *dot = strrchr(name, '.');
    return r->json->json_object_get(object, dot == NULL ? name : dot + 1);
}

static int is_type(const json_t *value, int type)
{
    return value != NULL && value->type == type;
}

static const json_t *get_object(const reader *r, const json_t *object, const char *name)
{
    const json_t *value = get(r, object, name);
    if (is_type(value, JSON_OBJECT))
        return value;
    refuse_value(r, name, value, "an object");
    return NULL;
}

static int copy_text(char *to, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size)
        return 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return 0;
    memcpy(to, text, length + 1);
    return 1;
}

static void get_text(const reader *r, const json_t *object, const char *name, char *to, size_t size)
{
    const json_t *value = get(r, object, name);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a text of at most %zu plain characters", size - 1);
    if (!is_type(value, JSON_STRING) || !copy_text(to, size, r->json->json_string_value(value)))
        refuse_value(r, name, value, wanted);
}

/* "%016llx" and nothing else. */
static void get_hash(const reader *r, const json_t *object, const char *name, uint64_t *to)
{
    char text[17] = "", again[17];
    get_text(r, object, name, text, sizeof text);
    *to = strtoull(text, NULL, 16);
    snprintf(again, sizeof again, "%016llx", (unsigned long long)*to);
    if (strcmp(text, again) != 0)
        refuse_value(r, name, get(r, object, name), "16 hexadecimal digits, in small letters");
}

static int64_t get_number(const reader *r, const json_t *object, const char *name, int64_t least, int64_t most)
{
    const json_t *value = get(r, object, name);
    int64_t number = is_type(value, JSON_INTEGER) ? r->json->json_integer_value(value) : -1;
    char wanted[64];
    if (is_type(value, JSON_INTEGER) && number >= least && number <= most)
        return number;
    snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", (long long)least, (long long)most);
    refuse_value(r, name, value, wanted);
    return 0;
}

static void get_device(const reader *r, const json_t *object, ckv_tuning_entry *entry)
{
    ckv_device_identity *d = &entry->device;
    get_text(r, object, "device.backend", entry->backend, sizeof entry->backend);
    get_text(r, object, "device.vendor", d->vendor, sizeof d->vendor);
    get_text(r, object, "device.name", d->name, sizeof d->name);
    get_text(r, object, "device.arch", d->arch, sizeof d->arch);
    get_text(r, object, "device.driver", d->driver, sizeof d->driver);
    get_text(r, object, "device.compiler", d->compiler, sizeof d->compiler);
    d->units = (int32_t)get_number(r, object, "device.units", 0, INT32_MAX);
    d->memory_bytes = get_number(r, object, "device.memory_gib", 0, 1 << 20) * GIB;
    d->local_bytes = get_number(r, object, "device.local_bytes", 0, INT32_MAX);
    get_hash(r, object, "device.kernels", &d->kernels);
}

static void get_scope(const reader *r, const json_t *object, ckv_tuning_entry *entry)
{
    char text[16] = "";
    get_text(r, object, "scope", text, sizeof text);
    for (int i = 0; i < (int)(sizeof scopes / sizeof scopes[0]); i++)
        if (strcmp(text, scopes[i]) == 0) {
            entry->scope = (ckv_tuning_scope)i;
            return;
        }
    refuse_value(r, "scope", get(r, object, "scope"), "context, projection or plan");
}

static void get_bucket(const reader *r, json_t *object, ckv_bucket *bucket)
{
    for (void *at = r->json->json_object_iter(object); at != NULL; at = r->json->json_object_iter_next(object, at)) {
        char name[64];
        int i = 0;
        while (i < CKV_BUCKET_SIZES && strcmp(r->json->json_object_iter_key(at), ckv_bucket_names[i]) != 0)
            i++;
        snprintf(name, sizeof name, "bucket.%.40s", r->json->json_object_iter_key(at));
        if (i == CKV_BUCKET_SIZES)
            refuse(r, name, "no size that this version knows", "none but such");
        else
            bucket->size[i] = (int32_t)get_number(r, object, name, 1, 1 << 30);
    }
}

static void get_value(const reader *r, const char *name, const json_t *given, ckv_tuning_value *value)
{
    int64_t number = 0;
    int good = 1;
    char field[64];
    snprintf(field, sizeof field, "values.%.40s", name);
    if (!copy_text(value->name, sizeof value->name, name) || name[0] == '\0')
        refuse(r, field, "no name", "one of at most 31 plain characters");
    if (is_type(given, JSON_STRING)) {
        const char *label = r->json->json_string_value(given);
        good = good && label[0] != '\0' && copy_text(value->label, sizeof value->label, label);
    } else {
        number = is_type(given, JSON_INTEGER) ? r->json->json_integer_value(given) : -1;
        good = good && number >= 0 && number <= INT32_MAX;
    }
    value->number = good ? (int32_t)number : 0;
    if (!good)
        refuse_value(r, field, given, "a label of at most 31 plain characters or a whole number from 0 to 2147483647");
}

static void get_values(const reader *r, json_t *object, ckv_tuning_entry *entry)
{
    size_t count = r->json->json_object_size(object);
    char found[32];
    if (count == 0 || count > CKV_TUNABLES_MAX) {
        snprintf(found, sizeof found, "%zu of them", count);
        refuse(r, "values", found, "1 to 16");
        return;
    }
    for (void *at = r->json->json_object_iter(object); at != NULL; at = r->json->json_object_iter_next(object, at))
        get_value(r, r->json->json_object_iter_key(at), r->json->json_object_iter_value(at),
                  &entry->values[entry->count++]);
}

static void get_key(const reader *r, json_t *object, ckv_tuning_entry *entry)
{
    const json_t *device = get_object(r, object, "device"), *bucket = get_object(r, object, "bucket");
    if (device != NULL)
        get_device(r, device, entry);
    get_text(r, object, "library", entry->library, sizeof entry->library);
    get_text(r, object, "stage", entry->stage, sizeof entry->stage);
    get_scope(r, object, entry);
    if (bucket != NULL)
        get_bucket(r, r->json->json_object_get(object, "bucket"), &entry->bucket);
}

static void check_sum(const reader *r, json_t *object)
{
    char wanted[17], text[100];
    const json_t *sum = get(r, object, "sum");
    const int known = sum_of(r->json, object, wanted);
    if (known && is_type(sum, JSON_STRING) && strcmp(r->json->json_string_value(sum), wanted) == 0)
        return;
    snprintf(text, sizeof text, "'%s' for what the entry holds: it was changed or damaged", known ? wanted : "?");
    refuse_value(r, "sum", sum, text);
}

int ckv_tuning_entry_from_json(const ckv_json *json, json_t *object, ckv_tuning_entry *entry, int *keyed, char *reason,
                               size_t size)
{
    const reader r = {json, reason, size};
    const json_t *values;
    memset(entry, 0, sizeof *entry);
    reason[0] = '\0';
    *keyed = 0;
    if (!is_type(object, JSON_OBJECT)) {
        refuse_value(&r, "entry", object, "an object");
        return 0;
    }
    get_key(&r, object, entry);
    *keyed = is_good(&r);
    values = get_object(&r, object, "values");
    if (values != NULL)
        get_values(&r, json->json_object_get(object, "values"), entry);
    entry->time_ns = get_number(&r, object, "time_ns", 0, INT64_MAX);
    entry->default_ns = get_number(&r, object, "default_ns", 0, INT64_MAX);
    get_text(&r, object, "date", entry->date, sizeof entry->date);
    if (is_good(&r))
        check_sum(&r, object);
    return is_good(&r);
}
