/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning files of a context: where they are, which of their entries fit, the best of these. */
#define _GNU_SOURCE /* dladdr */
#include "tuning_store.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "files.h"
#include "status.h"

#ifndef CKV_PKGDATADIR
#define CKV_PKGDATADIR "/usr/local/share/libckv"
#endif

#define SHIPPED "tuning/defaults.json"

/* ------------------------------------------------------------------ where */

static int put_path(char path[CKV_PATH_SIZE], const char *base, const char *below)
{
    int length = snprintf(path, CKV_PATH_SIZE, "%s%s", base, below);
    if (length > 0 && length < CKV_PATH_SIZE)
        return 1;
    path[0] = '\0';
    return 0;
}

static int is_off(void)
{
    const char *given = getenv("CKV_TUNE_CACHE");
    return given != NULL && strcmp(given, "off") == 0;
}

static void find_user_file(char path[CKV_PATH_SIZE])
{
    const char *given = getenv("CKV_TUNE_CACHE");
    if (given != NULL && given[0] != '\0')
        put_path(path, given, "");
    else if (!ckv_cache_path(path, CKV_PATH_SIZE, "tuning.json"))
        path[0] = '\0';
}

/* The folder that this code was loaded from, in `path`. */
static int find_own_folder(char path[CKV_PATH_SIZE])
{
    static const char marker = 0;
    Dl_info info;
    char *slash;
    if (dladdr(&marker, &info) == 0 || info.dli_fname == NULL || !put_path(path, info.dli_fname, ""))
        return 0;
    slash = strrchr(path, '/');
    if (slash == NULL)
        return 0;
    *slash = '\0';
    return 1;
}

/* Beside the library, which may have been moved with all its prefix, or where it was to
 * be installed. */
static void find_shipped_file(char path[CKV_PATH_SIZE])
{
    static const char *const below[] = {"/../share/libckv/" SHIPPED, "/../../share/libckv/" SHIPPED};
    const char *given = getenv("CKV_TUNE_DEFAULTS");
    char own[CKV_PATH_SIZE];
    if (given != NULL && given[0] != '\0') {
        put_path(path, given, "");
        return;
    }
    if (find_own_folder(own))
        for (size_t i = 0; i < sizeof below / sizeof below[0]; i++)
            if (put_path(path, own, below[i]) && access(path, F_OK) == 0)
                return;
    if (!put_path(path, CKV_PKGDATADIR "/" SHIPPED, "") || access(path, F_OK) != 0)
        path[0] = '\0';
}

/* ------------------------------------------------------------------ which entries */

/* One file on its way into the store. */
typedef struct intake {
    const ckv_context *context;
    ckv_tuning_store *store;
    const char *path;
    int user, full;
} intake;

static void skip(const intake *in, const ckv_tuning_entry *entry, const char *wrong)
{
    ckv_tuning_store *s = in->store;
    s->skipped++;
    s->trouble = 1;
    if (s->reason[0] == '\0')
        snprintf(s->reason, sizeof s->reason, "%s: entry %d: %s", in->path, (int)entry->number, wrong);
}

/* CKV_SOURCE_*, 0: too far. */
static uint8_t nearness(const ckv_tuning_entry *self, const ckv_tuning_entry *entry)
{
    if (strcmp(self->backend, entry->backend) != 0)
        return 0;
    if (ckv_tuning_same_device(self, entry))
        return CKV_SOURCE_DEVICE;
    if (strcmp(self->device.vendor, entry->device.vendor) != 0)
        return 0;
    return ckv_identity_same_arch(self->device.arch, entry->device.arch) ? CKV_SOURCE_ARCHITECTURE : CKV_SOURCE_VENDOR;
}

static int32_t find_tunable(const ckv_backend *backend, const char *name)
{
    int32_t i = 0;
    while (i < backend->tunable_count && strcmp(backend->tunables[i].name, name) != 0)
        i++;
    return i;
}

static int is_of(const ckv_tunable *tunable, const char *stage, ckv_tuning_scope scope)
{
    return tunable->scope == scope && strcmp(tunable->stage, stage) == 0;
}

/* The number that a value stands for; 0: there is none such. */
static int number_of(const ckv_tunable *tunable, const ckv_tuning_value *value, int32_t *number)
{
    *number = value->number;
    if (tunable->labels == NULL)
        return value->label[0] == '\0';
    for (int32_t i = 0; i < tunable->count; i++)
        if (strcmp(tunable->labels[i], value->label) == 0) {
            *number = tunable->values[i];
            return 1;
        }
    return 0;
}

/* 0 with the reason: the entry is no whole configuration of this device. */
static int resolve(const ckv_context *context, const ckv_tuning_entry *entry, ckv_tuned *tuned, char *wrong,
                   size_t size)
{
    const ckv_backend *backend = context->backend;
    uint8_t has[CKV_TUNABLES_MAX] = {0};
    for (int32_t v = 0; v < entry->count; v++) {
        const ckv_tuning_value *value = &entry->values[v];
        int32_t i = find_tunable(backend, value->name);
        if (i == backend->tunable_count || !is_of(&backend->tunables[i], entry->stage, entry->scope)) {
            snprintf(wrong, size, "values.%s: no parameter of stage '%s' of backend '%s'", value->name, entry->stage,
                     backend->name);
            return 0;
        }
        if (!number_of(&backend->tunables[i], value, &tuned->value[i]) ||
            !ckv_tuning_allows(context, i, tuned->value[i])) {
            char number[16];
            snprintf(number, sizeof number, "%d", (int)value->number);
            snprintf(wrong, size, "values.%s: %s, wanted a value that this device takes (ckv info)", value->name,
                     value->label[0] == '\0' ? number : value->label);
            return 0;
        }
        has[i] = 1;
        tuned->stage = backend->tunables[i].stage;
    }
    for (int32_t i = 0; i < backend->tunable_count; i++)
        if (is_of(&backend->tunables[i], entry->stage, entry->scope) && !has[i]) {
            snprintf(wrong, size, "values.%s: missing, wanted all of the stage", backend->tunables[i].name);
            return 0;
        }
    return 1;
}

static int add(intake *in, const ckv_tuned *tuned)
{
    ckv_tuning_store *s = in->store;
    if (s->count == s->room) {
        int32_t room = 2 * s->room + 16;
        ckv_tuned *larger = ckv_context_allocate(in->context, (size_t)room * sizeof *larger, "context");
        if (larger == NULL)
            return 0;
        if (s->count > 0)
            memcpy(larger, s->entries, (size_t)s->count * sizeof *larger);
        if (s->entries != NULL)
            ckv_context_release(in->context, s->entries);
        s->entries = larger;
        s->room = room;
    }
    s->entries[s->count++] = *tuned;
    return 1;
}

static void take(void *user, const ckv_tuning_entry *entry)
{
    intake *in = user;
    ckv_tuned tuned = {.scope = entry->scope, .bucket = entry->bucket, .user = (uint8_t)in->user};
    char wrong[200];
    int whole;
    tuned.level = nearness(&in->store->self, entry);
    tuned.fresh = tuned.level == CKV_SOURCE_DEVICE && ckv_tuning_same_code(&in->store->self, entry);
    tuned.units = entry->device.units;
    if (in->full || tuned.level == 0 || (in->user && !tuned.fresh)) {
        in->store->foreign++;
        return;
    }
    whole = resolve(in->context, entry, &tuned, wrong, sizeof wrong);
    if (!whole && tuned.fresh)
        skip(in, entry, wrong);
    else if (!whole) /* right for what it was measured on, for all that is known here */
        in->store->foreign++;
    else
        in->full = !add(in, &tuned);
}

static ckv_status read_file(const ckv_context *context, ckv_tuning_store *store, const char *path, int user)
{
    intake in = {context, store, path, user, 0};
    ckv_tuning_report report;
    ckv_tuning_file_read(path, take, &in, &report);
    store->skipped += report.skipped;
    if (report.reason[0] != '\0' && (store->reason[0] == '\0' || (report.trouble && !store->trouble)))
        snprintf(store->reason, sizeof store->reason, "%s: %s", path, report.reason);
    store->trouble |= report.trouble;
    return in.full ? CKV_ERROR_NO_MEMORY : CKV_OK;
}

/* ------------------------------------------------------------------ opening */

static void describe(ckv_tuning_store *s)
{
    const ckv_device_identity *d = &s->self.device;
    snprintf(s->device, sizeof s->device, "%s, %s %s, %s, %d units%s%s, kernels %016llx", s->self.backend, d->vendor,
             d->name, d->arch, (int)d->units, d->driver[0] == '\0' ? "" : ", driver ", d->driver,
             (unsigned long long)d->kernels);
}

static void identify(const ckv_context *context, ckv_tuning_store *s)
{
    ckv_device_identity *d = &s->self.device;
    context->backend->identify(context, d);
    ckv_identity_normalise(d);
    d->memory_bytes = (d->memory_bytes + ((int64_t)1 << 29)) & -((int64_t)1 << 30);
    snprintf(s->self.backend, sizeof s->self.backend, "%s", context->backend->name);
    snprintf(s->self.library, sizeof s->self.library, "%s", ckv_version());
    describe(s);
}

ckv_status ckv_tuning_open(ckv_context *context)
{
    ckv_tuning_store *s = ckv_context_allocate(context, sizeof *s, "context");
    ckv_status status = CKV_OK;
    if (s == NULL)
        return CKV_ERROR_NO_MEMORY;
    context->tuning = s;
    if (context->backend->identify == NULL) {
        snprintf(s->reason, sizeof s->reason, "backend '%s' has nothing to tune", context->backend->name);
        return CKV_OK;
    }
    identify(context, s);
    if (is_off()) {
        snprintf(s->reason, sizeof s->reason, "switched off by CKV_TUNE_CACHE");
        return CKV_OK;
    }
    find_user_file(s->path);
    find_shipped_file(s->shipped);
    if (s->path[0] == '\0')
        snprintf(s->reason, sizeof s->reason, "no folder for it: neither CKV_TUNE_CACHE, XDG_CACHE_HOME nor HOME");
    else
        status = read_file(context, s, s->path, 1);
    if (status == CKV_OK && s->shipped[0] != '\0')
        status = read_file(context, s, s->shipped, 0);
    return status;
}

void ckv_tuning_close(const ckv_context *context)
{
    if (context->tuning == NULL)
        return;
    if (context->tuning->entries != NULL)
        ckv_context_release(context, context->tuning->entries);
    ckv_context_release(context, context->tuning);
}

/* ------------------------------------------------------------------ looking up */

static uint8_t source_of(const ckv_tuned *t, const ckv_bucket *bucket)
{
    if (t->fresh && ckv_bucket_equal(&t->bucket, bucket))
        return t->user ? CKV_SOURCE_USER_FILE : CKV_SOURCE_SHIPPED_FILE;
    return t->level;
}

/* Within a source: the nearest bucket, then the user's own, then the device most alike. */
static double distance_of(const ckv_tuned *t, const ckv_bucket *bucket, int32_t units)
{
    double alike = t->units > 0 && units > 0 ? fabs(log2(t->units) - log2(units)) : 31;
    return ckv_bucket_distance(&t->bucket, bucket) + (t->user ? 0 : 0x1p-20) + alike * 0x1p-30;
}

const ckv_tuned *ckv_tuning_find(const ckv_tuning_store *store, const char *stage, ckv_tuning_scope scope,
                                 const ckv_problem *problem, uint8_t *source)
{
    const ckv_tuned *best = NULL;
    double least = 0;
    ckv_bucket bucket;
    *source = 0;
    ckv_bucket_of(problem, stage, scope, &bucket);
    for (int32_t i = 0; i < store->count; i++) {
        const ckv_tuned *t = &store->entries[i];
        double distance;
        uint8_t from;
        if (t->scope != scope || strcmp(t->stage, stage) != 0)
            continue;
        from = source_of(t, &bucket);
        distance = distance_of(t, &bucket, store->self.device.units);
        if (best != NULL && (from > *source || (from == *source && distance > least)))
            continue;
        best = t; /* of equals the later one, which is younger */
        least = distance;
        *source = from;
    }
    return best;
}
