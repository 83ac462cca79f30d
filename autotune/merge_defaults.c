/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge-defaults DEFAULTS RESULT...: adds contributed tuning files to the one that is
 * shipped.  A result is taken whole or not at all: damaged files, parameters and values
 * that no backend has, times that were not measured are refused.  Of two entries for the
 * same device, code and problem the faster one stays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/backend.h"
#include "lib/tuning_file.h"

static const ckv_backend *const backends[] = {&ckv_backend_cpu, &ckv_backend_cuda, &ckv_backend_hip,
                                              &ckv_backend_opencl};

typedef struct list {
    ckv_tuning_entry *entries;
    int32_t count;
} list;

/* ------------------------------------------------------------------ entries in memory */

/* Room for all that two files can hold. */
static int new_list(list *l)
{
    l->entries = calloc(2 * CKV_TUNING_ENTRIES_MAX, sizeof *l->entries);
    l->count = 0;
    return l->entries != NULL;
}

static void collect(void *user, const ckv_tuning_entry *entry)
{
    list *l = user;
    l->entries[l->count++] = *entry;
}

static ckv_tuning_entry *find(const list *l, const ckv_tuning_entry *entry)
{
    for (int32_t i = 0; i < l->count; i++)
        if (ckv_tuning_same_key(&l->entries[i], entry))
            return &l->entries[i];
    return NULL;
}

/* ------------------------------------------------------------------ what is sound */

static const ckv_backend *backend_of(const ckv_tuning_entry *entry)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcmp(backends[i]->name, entry->backend) == 0)
            return backends[i];
    return NULL;
}

static int is_of(const ckv_tunable *tunable, const ckv_tuning_entry *entry)
{
    return tunable->scope == entry->scope && strcmp(tunable->stage, entry->stage) == 0;
}

/* Labels are those of one machine's build of a backend: the names that others have are not
 * known here. */
static int has_value(const ckv_tunable *tunable, const ckv_tuning_value *value)
{
    if (tunable->labels != NULL)
        return value->label[0] != '\0';
    for (int32_t i = 0; i < tunable->count; i++)
        if (value->label[0] == '\0' && tunable->values[i] == value->number)
            return 1;
    return 0;
}

static int is_date(const char *text)
{
    static const char form[] = "0000-00-00";
    if (strlen(text) != sizeof form - 1)
        return 0;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '-' ? text[i] != '-' : text[i] < '0' || text[i] > '9')
            return 0;
    return 1;
}

/* NULL, or what is wrong. */
static const char *flaw_of(const ckv_tuning_entry *entry)
{
    const ckv_backend *backend = backend_of(entry);
    int32_t wanted = 0, found = 0;
    if (backend == NULL)
        return "no such backend";
    for (int32_t i = 0; i < backend->tunable_count; i++) {
        if (!is_of(&backend->tunables[i], entry))
            continue;
        wanted++;
        for (int32_t v = 0; v < entry->count; v++)
            found += strcmp(entry->values[v].name, backend->tunables[i].name) == 0 &&
                     has_value(&backend->tunables[i], &entry->values[v]);
    }
    if (wanted == 0)
        return "nothing to tune in such a stage";
    if (found != wanted || entry->count != wanted)
        return "not the parameters of the stage, each with one of its values";
    if (entry->device.vendor[0] == '\0' || entry->device.name[0] == '\0')
        return "a device without a name";
    if (entry->time_ns < 1 || entry->default_ns < entry->time_ns)
        return "not measured, or slower than untuned";
    return is_date(entry->date) ? NULL : "no date";
}

/* ------------------------------------------------------------------ files */

/* All of a contributed file; 0 after a line. */
static int read_result(const char *path, list *l)
{
    ckv_tuning_report report;
    l->count = 0;
    if (!ckv_tuning_file_read(path, collect, l, &report) || report.trouble) {
        fprintf(stderr, "merge-defaults: %s: %s\n", path, report.reason);
        return 0;
    }
    for (int32_t i = 0; i < l->count; i++) {
        const char *flaw = flaw_of(&l->entries[i]);
        if (flaw != NULL) {
            fprintf(stderr, "merge-defaults: %s: entry %d: %s\n", path, (int)l->entries[i].number, flaw);
            return 0;
        }
    }
    return 1;
}

/* The faster ones of `from` that `all` has not. */
static void merge(list *all, const list *from, list *fresh)
{
    for (int32_t i = 0; i < from->count; i++) {
        ckv_tuning_entry *old = find(all, &from->entries[i]);
        if (old != NULL && old->time_ns <= from->entries[i].time_ns)
            continue;
        if (old != NULL)
            *old = from->entries[i];
        else
            collect(all, &from->entries[i]);
        old = find(fresh, &from->entries[i]);
        if (old != NULL)
            *old = from->entries[i];
        else
            collect(fresh, &from->entries[i]);
    }
}

static int run(const char *defaults, char **results, list *all, list *one, list *fresh)
{
    ckv_tuning_report report;
    if (!ckv_tuning_file_read(defaults, collect, all, &report) || report.trouble) {
        fprintf(stderr, "merge-defaults: %s: %s\n", defaults, report.reason);
        return EXIT_FAILURE;
    }
    for (; *results != NULL; results++) {
        if (!read_result(*results, one))
            return EXIT_FAILURE;
        if (all->count + one->count > CKV_TUNING_ENTRIES_MAX) {
            fprintf(stderr, "merge-defaults: %s: more entries than a file holds\n", *results);
            return EXIT_FAILURE;
        }
        merge(all, one, fresh);
    }
    if (fresh->count > 0 && !ckv_tuning_file_write(defaults, fresh->entries, fresh->count, NULL, &report)) {
        fprintf(stderr, "merge-defaults: %s: %s\n", defaults, report.reason);
        return EXIT_FAILURE;
    }
    printf("%s: %d entries new or faster, %d in all\n", defaults, (int)fresh->count, (int)all->count);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    list all = {NULL, 0}, one = {NULL, 0}, fresh = {NULL, 0};
    int status = EXIT_FAILURE;
    if (argc < 3) {
        fprintf(stderr, "Usage: merge-defaults DEFAULTS.json RESULT.json...\n");
        return 2;
    }
    if (!new_list(&all) || !new_list(&one) || !new_list(&fresh))
        fprintf(stderr, "merge-defaults: no memory\n");
    else
        status = run(argv[1], argv + 2, &all, &one, &fresh);
    free(all.entries);
    free(one.entries);
    free(fresh.entries);
    return status;
}
