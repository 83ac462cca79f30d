/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of tuning files share. */
#define _XOPEN_SOURCE 700
#include "unit.h"

#include "tuning.h"

#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/hash.h"

static char folder[200], joined[400];

const char *tuning_folder(void)
{
    if (folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%.150s/ckv-tuning-XXXXXX", base == NULL ? "/tmp" : base);
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

const char *tuning_path(const char *name)
{
    snprintf(joined, sizeof joined, "%s/%s", tuning_folder(), name);
    return joined;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void tuning_remove(void)
{
    if (folder[0] != '\0')
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
}

void tuning_put(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

char *tuning_get(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    size_t room = 16u << 20;
    char *bytes;
    if (file == NULL)
        return NULL;
    bytes = malloc(room);
    assert_non_null(bytes);
    *size = fread(bytes, 1, room - 1, file);
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}

int tuning_count_files(const char *where)
{
    DIR *open = opendir(where);
    int count = 0;
    for (const struct dirent *found = NULL; open != NULL && (found = readdir(open)) != NULL;)
        count += found->d_name[0] != '.';
    if (open != NULL)
        closedir(open);
    return count;
}

ckv_tuning_entry tuning_entry(int n)
{
    ckv_tuning_entry e = {.backend = "cuda",
                          .device = {.vendor = "nvidia",
                                     .name = "geforce-rtx-0",
                                     .arch = "sm_00",
                                     .driver = "550.54 \"quoted\"",
                                     .compiler = "built ahead",
                                     .kernels = UINT64_C(0xfedcba9876543210),
                                     .units = 132,
                                     .memory_bytes = (int64_t)80 << 30,
                                     .local_bytes = 49152},
                          .library = "0.1.0",
                          .stage = "norm",
                          .scope = CKV_TUNE_PLAN,
                          .count = 2,
                          .values = {{"rows", "", n}, {"route", "mma", 0}},
                          .time_ns = 1000 + n,
                          .default_ns = 2000,
                          .date = "2026-01-31"};
    e.bucket.size[CKV_BUCKET_TOKENS] = 1 << (n % 20);
    e.bucket.size[CKV_BUCKET_HIDDEN] = 1 + n / 20;
    return e;
}

static void visit(void *user, const ckv_tuning_entry *entry)
{
    tuning_list *list = user;
    if (list->count < (int)(sizeof list->entry / sizeof list->entry[0]))
        list->entry[list->count] = *entry;
    list->count++;
}

void tuning_read_text(const char *bytes, size_t size, tuning_list *list)
{
    memset(list, 0, sizeof *list);
    list->read = ckv_tuning_text_read(bytes, size, visit, list, &list->report);
    assert_int_equal(list->count, list->report.valid);
}

void tuning_read(const char *path, tuning_list *list)
{
    memset(list, 0, sizeof *list);
    list->read = ckv_tuning_file_read(path, visit, list, &list->report);
    assert_int_equal(list->count, list->report.valid);
}

/* Members of an object come in any order. */
static int same_values(const ckv_tuning_entry *a, const ckv_tuning_entry *b)
{
    int same = 0;
    for (int32_t i = 0; i < a->count; i++)
        for (int32_t k = 0; k < b->count; k++)
            same += memcmp(&a->values[i], &b->values[k], sizeof a->values[i]) == 0;
    return a->count == b->count && same == a->count;
}

int tuning_has(const tuning_list *list, const ckv_tuning_entry *entry)
{
    for (int i = 0; i < list->count && i < (int)(sizeof list->entry / sizeof list->entry[0]); i++) {
        const ckv_tuning_entry *e = &list->entry[i];
        if (ckv_tuning_same_key(e, entry) && strcmp(e->device.compiler, entry->device.compiler) == 0 &&
            same_values(e, entry) && e->time_ns == entry->time_ns && e->default_ns == entry->default_ns &&
            strcmp(e->date, entry->date) == 0)
            return 1;
    }
    return 0;
}

static void test_skipped(void **state)
{
    (void)state;
    skip_because(ckv_json_absence());
}

int tuning_skip(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_skipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ------------------------------------------------------------------ texts */

typedef struct text {
    char *bytes;
    size_t size;
} text;

static int append(const char *bytes, size_t size, void *user)
{
    text *t = user;
    t->bytes = realloc(t->bytes, t->size + size + 1);
    assert_non_null(t->bytes);
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    t->bytes[t->size] = '\0';
    return 0;
}

/* Worked out anew, from docs/tuning.md. */
static void sum(const ckv_json *json, json_t *object)
{
    text t = {NULL, 0};
    char digits[17];
    json->json_object_del(object, "sum");
    assert_int_equal(json->json_dump_callback(object, append, &t, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII),
                     0);
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)ckv_hash(CKV_HASH_START, t.bytes, t.size));
    json->json_object_set_new(object, "sum", json->json_string(digits));
    free(t.bytes);
}

char *tuning_document(const char *const *entries, int count, size_t *size)
{
    static const char head[] = "{\"format\":\"ckv-tuning\",\"version\":1,\"entries\":[\n";
    const ckv_json *json = ckv_json_load();
    text t = {NULL, 0};
    assert_non_null(json);
    append(head, sizeof head - 1, &t);
    for (int i = 0; i < count; i++) {
        json_t *object = json->json_loadb(entries[i], strlen(entries[i]), 0, NULL);
        if (object == NULL)
            fail_msg("no JSON: %s", entries[i]);
        if (object->type == JSON_OBJECT)
            sum(json, object);
        append(",\n", i == 0 ? 0 : 2, &t);
        json->json_dump_callback(object, append, &t, JSON_COMPACT);
        ckv_json_release(json, object);
    }
    append("\n]}\n", 4, &t);
    *size = t.size;
    return t.bytes;
}

char *tuning_entry_text(const ckv_tuning_entry *entry)
{
    const ckv_json *json = ckv_json_load();
    json_t *object = ckv_tuning_entry_to_json(json, entry);
    text t = {NULL, 0};
    assert_non_null(object);
    json->json_dump_callback(object, append, &t, JSON_COMPACT);
    ckv_json_release(json, object);
    return t.bytes;
}

char *tuning_replace(const char *whole, const char *from, const char *to)
{
    const char *at = strstr(whole, from);
    text t = {NULL, 0};
    if (at == NULL)
        fail_msg("no %s in %s", from, whole);
    append(whole, (size_t)(at - whole), &t);
    append(to, strlen(to), &t);
    append(at + strlen(from), strlen(at + strlen(from)), &t);
    return t.bytes;
}
