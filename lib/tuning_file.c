/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuning files.  A file is one JSON object; written by us, each entry has a line to itself,
 * so that of a file that is no JSON any more, its entries can still be had.
 */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "tuning_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

#define FORMAT "ckv-tuning"
#define VERSION 1
#define HEAD "{\"format\":\"" FORMAT "\",\"version\":1,"
#define DEPTH_MAX 8 /* of brackets; ours have 3 */
#define LINKS_MAX 40
#define VALUES_MAX (1 << 19) /* of a file, so that it does not grow in memory */

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
note(ckv_tuning_report *report, const char *format, ...)
{
    va_list arguments;
    if (report->reason[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(report->reason, sizeof report->reason, format, arguments);
    va_end(arguments);
    for (char *at = report->reason; *at != '\0'; at++) /* parts of it are the file's */
        if (*at < ' ' || *at > '~')
            *at = '?';
}

/* ------------------------------------------------------------------ bytes */

typedef struct text {
    char *bytes;
    size_t size, room;
} text;

/* Fills `t`; 0 with the errno, 0 for what is no errno. */
static int read_text(const char *path, text *t, ckv_tuning_report *report)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO in its place must not hold us */
    int good = 0;
    ssize_t got;
    if (file < 0) {
        report->trouble = errno != ENOENT && errno != ENOTDIR;
        note(report, "%s", strerror(errno));
        return 0;
    }
    report->trouble = 1;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        note(report, "not a file");
    else if ((uint64_t)status.st_size > CKV_TUNING_FILE_SIZE)
        note(report, "larger than %zu MiB", CKV_TUNING_FILE_SIZE >> 20);
    else if ((t->bytes = malloc((size_t)status.st_size + 1)) == NULL)
        note(report, "no memory");
    else if ((got = ckv_read_some(file, t->bytes, (size_t)status.st_size)) < 0)
        note(report, "%s", strerror(errno));
    else {
        t->size = (size_t)got;
        good = 1;
    }
    close(file);
    report->trouble = !good;
    return good;
}

static int append(const char *bytes, size_t size, void *to)
{
    text *t = to;
    if (size == 0)
        return 0;
    if (t->room - t->size < size) {
        size_t room = 2 * (t->room + size);
        char *larger = realloc(t->bytes, room);
        if (larger == NULL)
            return -1;
        t->bytes = larger;
        t->room = room;
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    return 0;
}

/* ------------------------------------------------------------------ documents */

typedef struct document {
    json_t *root;
    json_t *entries; /* an array, of the root */
} document;

static void free_document(const ckv_json *json, document *d)
{
    ckv_json_release(json, d->root);
    *d = (document){NULL, NULL};
}

/* Brackets nested, values counted, before anything is made of them.  0 with where and what. */
static int is_small(const char *bytes, size_t size, json_error_t *error)
{
    int depth = 0, in_string = 0;
    size_t values = 0;
    error->line = 1;
    for (size_t i = 0; i < size; i++) {
        char c = bytes[i];
        error->line += c == '\n';
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = 0;
            continue;
        }
        in_string = c == '"';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        values += c == ',' || c == '{' || c == '[';
        if (depth > DEPTH_MAX || values > VALUES_MAX) {
            snprintf(error->text, sizeof error->text,
                     depth > DEPTH_MAX ? "more than %d brackets inside each other" : "more than %d values",
                     depth > DEPTH_MAX ? DEPTH_MAX : VALUES_MAX);
            return 0;
        }
    }
    return 1;
}

static json_t *parse(const ckv_json *json, const char *bytes, size_t size, json_error_t *error)
{
    return is_small(bytes, size, error) ? json->json_loadb(bytes, size, JSON_REJECT_DUPLICATES, error) : NULL;
}

static int start_document(const ckv_json *json, document *d)
{
    d->root = json->json_object();
    d->entries = json->json_array();
    /* json_object_set_new takes the array over, or releases it. */
    if (json->json_object_set_new(d->root, "format", json->json_string(FORMAT)) == 0 &&
        json->json_object_set_new(d->root, "version", json->json_integer(VERSION)) == 0)
        if (json->json_object_set_new(d->root, "entries", d->entries) == 0)
            return 1;
    free_document(json, d);
    return 0;
}

/* Lines that are objects by themselves, of a text that is not one. */
static int recover(const ckv_json *json, const text *t, document *d)
{
    if (!start_document(json, d))
        return 0;
    for (size_t at = 0, length; at < t->size; at += length + 1) {
        const char *end = memchr(t->bytes + at, '\n', t->size - at);
        json_error_t ignored;
        json_t *object = NULL;
        size_t size;
        length = end == NULL ? t->size - at : (size_t)(end - t->bytes) - at;
        size = length;
        while (size > 0 && strchr(" \t\r,", t->bytes[at + size - 1]) != NULL)
            size--;
        if (size > 0 && t->bytes[at] == '{' && t->bytes[at + size - 1] == '}')
            object = parse(json, t->bytes + at, size, &ignored);
        /* A whole document is no entry. */
        if (object != NULL && json->json_object_get(object, "format") != NULL)
            ckv_json_release(json, object);
        else if (object != NULL && json->json_array_append_new(d->entries, object) != 0)
            break;
    }
    return 1;
}

static int is_ours(const ckv_json *json, const json_t *root, ckv_tuning_report *report)
{
    const json_t *format = json->json_object_get(root, "format"), *version = json->json_object_get(root, "version");
    const json_t *entries = json->json_object_get(root, "entries");
    char found[64];
    if (format == NULL || format->type != JSON_STRING || strcmp(json->json_string_value(format), FORMAT) != 0) {
        ckv_tuning_describe(json, format, found, sizeof found);
        note(report, "not a tuning file: format: %s, wanted '" FORMAT "'", found);
    } else if (version == NULL || version->type != JSON_INTEGER || json->json_integer_value(version) != VERSION) {
        ckv_tuning_describe(json, version, found, sizeof found);
        note(report, "a tuning file of another version: version: %s, wanted %d", found, VERSION);
    } else if (entries == NULL || entries->type != JSON_ARRAY) {
        ckv_tuning_describe(json, entries, found, sizeof found);
        note(report, "a tuning file without entries: entries: %s, wanted a list", found);
    } else {
        return 1;
    }
    return 0;
}

/* 1 with the document.  0 where the text is no tuning file of this version; the report
 * says so, and also when only a part of it could be read. */
static int understand(const ckv_json *json, const text *t, document *d, ckv_tuning_report *report)
{
    json_error_t error = {0};
    d->root = parse(json, t->bytes, t->size, &error);
    if (d->root != NULL) {
        if (is_ours(json, d->root, report)) {
            d->entries = json->json_object_get(d->root, "entries");
            return 1;
        }
        report->trouble = 1;
        free_document(json, d);
        return 0;
    }
    report->trouble = 1;
    if (!recover(json, t, d)) {
        note(report, "no memory");
        return 0;
    }
    /* Without an entry, at least the beginning must be ours. */
    if (json->json_array_size(d->entries) > 0 ||
        memcmp(t->bytes, HEAD, t->size < sizeof HEAD - 1 ? t->size : sizeof HEAD - 1) == 0) {
        if (t->size == 0)
            note(report, "empty");
        else
            note(report, "damaged at line %d: %s", error.line, error.text);
        return 1;
    }
    note(report, "not a tuning file: line %d: %s", error.line, error.text);
    free_document(json, d);
    return 0;
}

/* ------------------------------------------------------------------ reading */

static void visit_all(const ckv_json *json, const document *d, ckv_tuning_visit *visit, void *user,
                      ckv_tuning_report *report)
{
    size_t count = json->json_array_size(d->entries);
    for (size_t i = 0; i < count; i++) {
        ckv_tuning_entry entry;
        char reason[200] = "";
        int keyed;
        if (i < CKV_TUNING_ENTRIES_MAX && ckv_tuning_entry_from_json(json, json->json_array_get(d->entries, i), &entry,
                                                                     &keyed, reason, sizeof reason)) {
            report->valid++;
            entry.number = (int32_t)i + 1;
            visit(user, &entry);
            continue;
        }
        if (i >= CKV_TUNING_ENTRIES_MAX)
            snprintf(reason, sizeof reason, "one more than the %d that are read", CKV_TUNING_ENTRIES_MAX);
        report->skipped++;
        report->trouble = 1;
        note(report, "entry %zu: %s", i + 1, reason);
    }
}

static int read_from(const text *t, ckv_tuning_visit *visit, void *user, ckv_tuning_report *report)
{
    const ckv_json *json = ckv_json_load();
    document d;
    if (json == NULL) {
        report->trouble = 1;
        note(report, "%s", ckv_json_absence());
        return 0;
    }
    if (!understand(json, t, &d, report))
        return 0;
    visit_all(json, &d, visit, user, report);
    free_document(json, &d);
    return 1;
}

int ckv_tuning_text_read(const char *bytes, size_t size, ckv_tuning_visit *visit, void *user, ckv_tuning_report *report)
{
    text t = {NULL, 0, 0};
    int good;
    memset(report, 0, sizeof *report);
    if (append(bytes, size, &t) != 0 || append("", 1, &t) != 0) {
        free(t.bytes);
        note(report, "no memory");
        return 0;
    }
    t.size = size;
    good = read_from(&t, visit, user, report);
    free(t.bytes);
    return good;
}

int ckv_tuning_file_read(const char *path, ckv_tuning_visit *visit, void *user, ckv_tuning_report *report)
{
    text t = {NULL, 0, 0};
    int good;
    memset(report, 0, sizeof *report);
    good = read_text(path, &t, report) && read_from(&t, visit, user, report);
    free(t.bytes);
    return good;
}

/* ------------------------------------------------------------------ merging */

static int is_replaced(const ckv_json *json, json_t *old, const ckv_tuning_entry *entries, int32_t count)
{
    ckv_tuning_entry entry;
    char reason[128];
    int keyed;
    ckv_tuning_entry_from_json(json, old, &entry, &keyed, reason, sizeof reason);
    for (int32_t i = 0; keyed && i < count; i++)
        if (ckv_tuning_same_key(&entry, &entries[i]))
            return 1;
    return 0;
}

/* The entries that stay, then the new ones; 0: no memory. */
static int merge(const ckv_json *json, document *d, const ckv_tuning_entry *entries, int32_t count)
{
    json_t *all = json->json_array();
    size_t old = json->json_array_size(d->entries);
    int good = all != NULL;
    for (size_t i = 0; good && i < old; i++) {
        json_t *entry = json->json_array_get(d->entries, i);
        if (entry->type == JSON_OBJECT && !is_replaced(json, entry, entries, count))
            good = json->json_array_append_new(all, ckv_json_keep(entry)) == 0;
    }
    for (int32_t i = 0; good && i < count; i++)
        good = json->json_array_append_new(all, ckv_tuning_entry_to_json(json, &entries[i])) == 0;
    if (!good) {
        ckv_json_release(json, all);
        return 0;
    }
    if (json->json_object_set_new(d->root, "entries", all) != 0)
        return 0;
    d->entries = all;
    return 1;
}

static int write_member(const ckv_json *json, const char *key, const json_t *value, text *t)
{
    json_t *name = json->json_string(key);
    int good = name != NULL && json->json_dump_callback(name, append, t, JSON_COMPACT | JSON_ENCODE_ANY) == 0 &&
               append(":", 1, t) == 0 &&
               json->json_dump_callback(value, append, t, JSON_COMPACT | JSON_ENCODE_ANY) == 0 &&
               append(",", 1, t) == 0;
    ckv_json_release(json, name);
    return good;
}

/* One entry a line, from number `first` on. */
static int write_entries(const ckv_json *json, const document *d, size_t first, text *t)
{
    size_t count = json->json_array_size(d->entries);
    int good = append("\"entries\":[", 11, t) == 0;
    for (size_t i = first; good && i < count; i++)
        good = append(i == first ? "\n" : ",\n", i == first ? 1 : 2, t) == 0 &&
               json->json_dump_callback(json->json_array_get(d->entries, i), append, t,
                                        JSON_COMPACT | JSON_ENSURE_ASCII) == 0;
    return good && append("\n]}\n", 4, t) == 0;
}

static int write_from(const ckv_json *json, const document *d, size_t first, text *t)
{
    int good = 1;
    t->size = 0;
    good = append(HEAD, sizeof HEAD - 1, t) == 0;
    for (void *at = json->json_object_iter(d->root); good && at != NULL;
         at = json->json_object_iter_next(d->root, at)) {
        const char *key = json->json_object_iter_key(at);
        if (strcmp(key, "format") != 0 && strcmp(key, "version") != 0 && strcmp(key, "entries") != 0)
            good = write_member(json, key, json->json_object_iter_value(at), t);
    }
    return good && write_entries(json, d, first, t);
}

/* Leaves the oldest entries out until the file is small enough to be read again. */
static int write_document(const ckv_json *json, const document *d, text *t)
{
    size_t count = json->json_array_size(d->entries);
    size_t first = count > CKV_TUNING_ENTRIES_MAX ? count - CKV_TUNING_ENTRIES_MAX : 0;
    json_error_t ignored;
    for (;;) {
        if (!write_from(json, d, first, t))
            return 0;
        if (t->size <= CKV_TUNING_FILE_SIZE && is_small(t->bytes, t->size, &ignored))
            return 1;
        if (first >= count)
            return 0;
        first += (count - first + 3) / 4;
    }
}

/* ------------------------------------------------------------------ replacing */

/* "FOLDER/name" gives FOLDER. */
static void folder_of(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, path, length);
    strcpy(folder + length, length == 0 ? "." : "");
}

/* So that the name lasts as the file does; where this fails, nothing can be done. */
static void sync_folder(const char *folder)
{
    int file = open(folder, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    (void)!fsync(file);
    close(file);
}

static int replace(const char *path, const char *folder, const text *t, ckv_tuning_report *report)
{
    char draft[CKV_PATH_SIZE + 8];
    struct stat old;
    int file, good;
    snprintf(draft, sizeof draft, "%s.XXXXXX", path);
    file = mkstemp(draft);
    if (file < 0) {
        note(report, "%s", strerror(errno));
        return 0;
    }
    good = ckv_write_all(file, t->bytes, t->size) && fsync(file) == 0;
    if (good && stat(path, &old) == 0)
        (void)!fchmod(file, old.st_mode & 0777);
    if (!good)
        note(report, "%s", strerror(errno));
    if (close(file) != 0 && good) {
        note(report, "%s", strerror(errno));
        good = 0;
    }
    if (good && rename(draft, path) != 0) {
        note(report, "%s", strerror(errno));
        good = 0;
    }
    if (good)
        sync_folder(folder);
    else
        unlink(draft);
    return good;
}

/* What is there, which may be nothing; 0 where it is not to be written over. */
static int read_old(const ckv_json *json, const char *path, document *d, ckv_tuning_report *report)
{
    text old = {NULL, 0, 0};
    ckv_tuning_report found = {0};
    int good;
    if (read_text(path, &old, &found))
        good = understand(json, &old, d, &found);
    else
        good = !found.trouble && start_document(json, d);
    if (!good)
        note(report, "%s", found.reason);
    free(old.bytes);
    return good;
}

/* Reads what is there, adds, and puts it in place. */
static int update(const char *path, const char *folder, const ckv_tuning_entry *entries, int32_t count,
                  ckv_tuning_report *report)
{
    const ckv_json *json = ckv_json_load();
    text new = {NULL, 0, 0};
    document d = {NULL, NULL};
    int good;
    if (json == NULL) {
        note(report, "%s", ckv_json_absence());
        return 0;
    }
    good = read_old(json, path, &d, report);
    if (good && !(merge(json, &d, entries, count) && write_document(json, &d, &new))) {
        note(report, "no memory");
        good = 0;
    }
    good = good && replace(path, folder, &new, report);
    free_document(json, &d);
    free(new.bytes);
    return good;
}

/* ------------------------------------------------------------------ where to */

/* Where a link leads, one step: in its own folder unless its text says which.  0: too long. */
static int follow_once(char path[CKV_PATH_SIZE], char folder[CKV_PATH_SIZE + 2])
{
    char target[CKV_PATH_SIZE];
    const ssize_t length = readlink(path, target, sizeof target);
    int written;
    if (length <= 0 || (size_t)length >= sizeof target)
        return 0;
    target[length] = '\0';
    folder_of(path, folder);
    written = target[0] == '/' ? snprintf(path, CKV_PATH_SIZE, "%s", target)
                               : snprintf(path, CKV_PATH_SIZE, "%.*s/%s", CKV_PATH_SIZE, folder, target);
    return written < CKV_PATH_SIZE;
}

/* The file that is meant and its folder.  A link stays one, also where what it leads to is still to be made.
 * 0 with the reason. */
static int find_target(const char *given, char path[CKV_PATH_SIZE], char folder[CKV_PATH_SIZE + 2],
                       ckv_tuning_report *report)
{
    struct stat status;
    int wrong = 0;
    if (given[0] == '\0')
        wrong = ENOENT;
    else if (strlen(given) >= CKV_PATH_SIZE)
        wrong = ENAMETOOLONG;
    else
        strcpy(path, given);
    for (int links = 0; wrong == 0 && lstat(path, &status) == 0 && S_ISLNK(status.st_mode); links++)
        wrong = links == LINKS_MAX ? ELOOP : follow_once(path, folder) ? 0 : ENAMETOOLONG;
    if (wrong == 0 && path[strlen(path) - 1] == '/')
        wrong = EISDIR;
    if (wrong != 0) {
        note(report, "%s", strerror(wrong));
        return 0;
    }
    folder_of(path, folder);
    return 1;
}

/* What a write begins with, and taken back: a draft in the folder, or, where that is still to be made, a folder in the
 * nearest that there is. */
static int can_begin(const char *path, char folder[CKV_PATH_SIZE + 2], ckv_tuning_report *report)
{
    char draft[CKV_PATH_SIZE + 16];
    struct stat status;
    int there = stat(folder, &status) == 0, good;
    if (there) {
        snprintf(draft, sizeof draft, "%s.XXXXXX", path);
        const int file = mkstemp(draft);
        good = file >= 0 && close(file) == 0 && unlink(draft) == 0;
    } else {
        while (!there && errno == ENOENT && strcmp(folder, ".") != 0) {
            char above[CKV_PATH_SIZE + 2];
            folder_of(folder, above);
            strcpy(folder, above);
            there = stat(folder, &status) == 0;
        }
        snprintf(draft, sizeof draft, "%s/ckv-XXXXXX", folder);
        good = there && mkdtemp(draft) != NULL && rmdir(draft) == 0;
    }
    if (!good)
        note(report, "%s", strerror(errno));
    return good;
}

int ckv_tuning_file_check(const char *given, ckv_tuning_report *report)
{
    const ckv_json *json = ckv_json_load();
    char path[CKV_PATH_SIZE], folder[CKV_PATH_SIZE + 2];
    document d = {NULL, NULL};
    int good;
    memset(report, 0, sizeof *report);
    if (json == NULL)
        note(report, "%s", ckv_json_absence());
    good = json != NULL && find_target(given, path, folder, report) && read_old(json, path, &d, report) &&
           can_begin(path, folder, report);
    if (json != NULL)
        free_document(json, &d);
    report->trouble = !good;
    return good;
}

int ckv_tuning_file_write(const char *given, const ckv_tuning_entry *entries, int32_t count,
                          const ckv_tuning_locking *locking, ckv_tuning_report *report)
{
    char path[CKV_PATH_SIZE], folder[CKV_PATH_SIZE + 2];
    ckv_tuning_lock lock;
    int good = 0;
    memset(report, 0, sizeof *report);
    if (find_target(given, path, folder, report)) {
        ckv_make_folders(folder);
        if (ckv_tuning_lock_take(&lock, path, locking))
            good = update(path, folder, entries, count, report);
        else
            note(report, "locked by another process");
        ckv_tuning_lock_release(&lock, good);
    }
    report->trouble = !good;
    return good;
}
