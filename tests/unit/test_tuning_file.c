/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning files: what is written is read again, what is damaged is left out, what is not
 * understood stays. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "tuning.h"

static int teardown(void **state)
{
    (void)state;
    tuning_remove();
    return 0;
}

/* A file of entries 0 ... count - 1. */
static void write_some(const char *path, int count)
{
    ckv_tuning_report report;
    for (int i = 0; i < count; i++) {
        ckv_tuning_entry e = tuning_entry(i);
        if (!ckv_tuning_file_write(path, &e, 1, NULL, &report))
            fail_msg("%s", report.reason);
    }
}

static void save(const char *path, int n)
{
    ckv_tuning_entry e = tuning_entry(n);
    ckv_tuning_report report;
    if (!ckv_tuning_file_write(path, &e, 1, NULL, &report))
        fail_msg("%s", report.reason);
}

/* Every entry that was read is one of the first `count`, byte for byte. */
static void assert_none_changed(const tuning_list *list, int count)
{
    int known = 0;
    for (int i = 0; i < count; i++) {
        ckv_tuning_entry e = tuning_entry(i);
        known += tuning_has(list, &e);
    }
    assert_int_equal(known, list->count);
}

static void test_round_trip(void **state)
{
    const char *path = tuning_path("a/b/tuning.json");
    tuning_list list;
    ckv_tuning_entry e = tuning_entry(1);
    ckv_tuning_report report;
    (void)state;
    tuning_read(path, &list);
    assert_int_equal(list.read, 0);
    assert_int_equal(list.report.trouble, 0);
    write_some(path, 3);
    tuning_read(path, &list);
    assert_int_equal(list.read, 1);
    assert_int_equal(list.count, 3);
    assert_none_changed(&list, 3);
    assert_string_equal(list.report.reason, "");
    assert_int_equal(list.report.trouble, 0);
    e.time_ns = 7; /* the same key: in place of the old one */
    assert_true(ckv_tuning_file_write(path, &e, 1, NULL, &report));
    tuning_read(path, &list);
    assert_int_equal(list.count, 3);
    assert_true(tuning_has(&list, &e));
    assert_int_equal(tuning_count_files(tuning_path("a/b")), 2); /* itself and its lock */
}

/* Each part of the key makes another entry. */
static void test_key(void **state)
{
    const char *path = tuning_path("tuning.json");
    ckv_tuning_entry e[12];
    ckv_tuning_report report;
    tuning_list list;
    (void)state;
    for (int i = 0; i < 12; i++)
        e[i] = tuning_entry(0);
    strcpy(e[1].backend, "hip");
    strcpy(e[2].device.vendor, "amd");
    strcpy(e[3].device.name, "geforce-rtx-1");
    strcpy(e[4].device.arch, "sm_01");
    strcpy(e[5].device.driver, "551");
    strcpy(e[6].library, "0.1.1");
    strcpy(e[7].stage, "score");
    e[8].device.kernels++;
    e[9].device.units++;
    e[10].scope = CKV_TUNE_PROJECTION;
    e[11].bucket.size[CKV_BUCKET_GROUP] = 4;
    for (int i = 0; i < 12; i++) {
        assert_true(ckv_tuning_file_write(path, &e[i], 1, NULL, &report));
        tuning_read(path, &list);
        assert_int_equal(list.count, i + 1);
    }
    for (int i = 0; i < 12; i++)
        assert_true(tuning_has(&list, &e[i]));
}

static void test_truncated_at_every_byte(void **state)
{
    const char *path = tuning_path("tuning.json");
    size_t size;
    char *whole;
    int most = 0, lines = 0;
    (void)state;
    write_some(path, 3);
    whole = tuning_get(path, &size);
    for (size_t n = 0; n < size; n++) {
        char *part = malloc(n == 0 ? 1 : n); /* of just that size, for checkers of memory */
        tuning_list list;
        assert_non_null(part);
        memcpy(part, whole, n);
        tuning_read_text(part, n, &list);
        free(part);
        assert_none_changed(&list, 3);
        assert_true(list.count >= most); /* what was whole before is so still */
        lines += n > 0 && whole[n - 1] == '\n';
        assert_true(list.count >= lines - 1); /* the first is the header */
        most = list.count;
        if (n + 1 < size && !list.report.trouble)
            fail_msg("%zu bytes of %zu: no trouble told", n, size);
        if (n % 23 == 0) { /* it can be saved into, and keeps what is whole */
            tuning_list after;
            tuning_put(path, whole, n);
            save(path, 9);
            tuning_read(path, &after);
            assert_int_equal(after.count, list.count + 1);
            assert_int_equal(after.report.trouble, 0);
        }
    }
    assert_int_equal(most, 3);
    free(whole);
}

static void test_a_bit_flipped_in_every_byte(void **state)
{
    const char *path = tuning_path("tuning.json");
    size_t size;
    char *whole;
    (void)state;
    write_some(path, 3);
    whole = tuning_get(path, &size);
    const size_t head = (size_t)(strchr(whole, '\n') - whole), tail = size - 4; /* "\n]}\n" */
    for (size_t n = 0; n < size; n++)
        for (int bit = 0; bit < 8; bit++) {
            const char was = whole[n];
            tuning_list list;
            whole[n] = (char)(was ^ 1 << bit);
            tuning_read_text(whole, size, &list);
            whole[n] = was;
            assert_none_changed(&list, 3);
            assert_true(list.count == 3 || list.report.trouble);
            /* The others live; the end of a line joins two. */
            if (n > head && list.count != (n >= tail ? 3 : was == '\n' ? 1 : 2) && !(n == tail && list.count == 2))
                fail_msg("byte %zu bit %d: %d entries", n, bit, list.count);
        }
    free(whole);
}

/* ------------------------------------------------------------------ bad entries */

/* Each change of a sound entry, with its checksum right, and a part of the reason. */
static const struct {
    const char *from, *to, *reason;
} bad[] = {
    {"\"rows\":0", "\"rows\":2147483648",
     "values.rows: 2147483648, wanted a label of at most 31 plain characters or a whole number"},
    {"\"rows\":0", "\"rows\":-1", "values.rows: -1, wanted a label of at most 31 plain characters or a whole number"},
    {"\"rows\":0", "\"rows\":1.5",
     "values.rows: a number with a fraction, wanted a label of at most 31 plain characters or a whole number"},
    {"\"rows\":0", "\"rows\":true",
     "values.rows: true, wanted a label of at most 31 plain characters or a whole number"},
    {"\"rows\":0", "\"rows\":\"\"", "values.rows: '', wanted a label of at most 31 plain characters or a whole number"},
    {"\"rows\":0", "\"rows\":\"a label longer than any label can be\"",
     "values.rows: 'a label longer than any label can be', wanted a label of at most 31 plain characters or a whole number"},
    {"\"rows\":0", "\"rows\":\"\\u00e9\"", "values.rows: '"},
    {"\"rows\":0", "\"a name longer than any name of a tunable\":0",
     "values.a name longer than any name of a tunable: no name, wanted one of at most 31"},
    {"\"rows\":0", "\"\":0", "values.: no name, wanted one of at most 31"},
    {"\"rows\":0,\"route\":\"mma\"", "", "values: 0 of them, wanted 1 to 16"},
    {"\"rows\":0",
     "\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0,\"k\":0,\"l\":0,\"m\":0,"
     "\"n\":0,\"o\":0,\"p\":0",
     "values: 17 of them, wanted 1 to 16"},
    {"\"values\":{", "\"others\":{", "values: missing, wanted an object"},
    {"\"scope\":\"plan\"", "\"scope\":\"planet\"", "scope: 'planet', wanted context, projection or plan"},
    {"\"hidden\":1", "\"hidden\":0", "bucket.hidden: 0, wanted a whole number from 1 to 1073741824"},
    {"\"hidden\":1", "\"hidden\":2147483648", "bucket.hidden: 2147483648, wanted a whole number from 1 to 1073741824"},
    {"\"hidden\":1", "\"hiddem\":1", "bucket.hiddem: no size that this version knows"},
    {"\"bucket\":{\"tokens\":1,\"hidden\":1}", "\"bucket\":[]", "bucket: a list, wanted an object"},
    {"\"units\":132", "\"units\":-1", "device.units: -1, wanted a whole number from 0 to 2147483647"},
    {"\"units\":132", "\"units\":2147483648", "device.units: 2147483648, wanted a whole number"},
    {"\"memory_gib\":80", "\"memory_gib\":9223372036854775807",
     "device.memory_gib: 9223372036854775807, wanted a whole number from 0"},
    {"\"fedcba9876543210\"", "\"FEDCBA9876543210\"",
     "device.kernels: 'FEDCBA9876543210', wanted 16 hexadecimal digits, in small"},
    {"\"fedcba9876543210\"", "\"fedcba987654321\"", "device.kernels: 'fedcba987654321', wanted 16 hexadecimal digits"},
    {"\"fedcba9876543210\"", "\"-edcba9876543210\"",
     "device.kernels: '-edcba9876543210', wanted 16 hexadecimal digits"},
    {"\"device\":{", "\"gadget\":{", "device: missing, wanted an object"},
    {"\"stage\":\"norm\"", "\"stage\":\"a stage of too long a name\"",
     "stage: 'a stage of too long a name', wanted a text of at most 15 plain characters"},
    {"\"library\":\"0.1.0\"", "\"library\":7", "library: 7, wanted a text of at most 23 plain characters"},
    {"\"time_ns\":1000", "\"time_ns\":-5", "time_ns: -5, wanted a whole number from 0 to "},
    {"\"default_ns\":2000", "\"default_ns\":\"2000\"", "default_ns: '2000', wanted a whole number"},
    {"\"date\":\"2026-01-31\"", "\"date\":\"the thirty-first of January 2026\"",
     "date: 'the thirty-first of January 2026', wanted a text of at most 23"},
};

static void test_bad_entries_do_not_harm_others(void **state)
{
    const char *path = tuning_path("tuning.json");
    const ckv_tuning_entry good = tuning_entry(1), other = tuning_entry(0);
    char *first = tuning_entry_text(&other), *second = tuning_entry_text(&good);
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *changed = tuning_replace(first, bad[i].from, bad[i].to), *text;
        const char *both[2] = {changed, second};
        tuning_list list;
        size_t size;
        text = tuning_document(both, 2, &size);
        tuning_put(path, text, size);
        for (int again = 0; again < 2; again++) { /* and after the file was saved into */
            tuning_read(path, &list);
            assert_int_equal(list.report.skipped, 1);
            assert_int_equal(list.count, 1 + again);
            assert_true(tuning_has(&list, &good));
            assert_int_equal(list.report.trouble, 1);
            if (strncmp(list.report.reason, "entry 1: ", 9) != 0 ||
                strncmp(list.report.reason + 9, bad[i].reason, strlen(bad[i].reason)) != 0)
                fail_msg("%s: %s", bad[i].to, list.report.reason);
            save(path, 5);
        }
        free(changed);
        free(text);
    }
    free(first);
    free(second);
}

/* The sum is that of docs/tuning.md; an entry of which one letter was changed is never used
 * again, not even after something else was saved. */
static void test_changed_entries_stay_foreign(void **state)
{
    const char *path = tuning_path("tuning.json");
    const ckv_tuning_entry good = tuning_entry(1), other = tuning_entry(0);
    char *first = tuning_entry_text(&other), *second = tuning_entry_text(&good), *text, *changed;
    const char *both[2] = {first, second};
    tuning_list list;
    size_t size;
    (void)state;
    text = tuning_document(both, 2, &size);
    tuning_read_text(text, size, &list);
    assert_int_equal(list.count, 2);
    changed = tuning_replace(text, "sm_00", "sm_90");
    tuning_put(path, changed, size);
    for (int again = 0; again < 2; again++) {
        tuning_read(path, &list);
        assert_int_equal(list.count, 1 + again);
        assert_int_equal(list.report.skipped, 1);
        assert_true(strstr(list.report.reason, "entry 1: sum: ") != NULL);
        save(path, 5);
    }
    free(first);
    free(second);
    free(text);
    free(changed);
}

/* What later versions may add stays, and is covered by the sum. */
static void test_unknown_fields_stay(void **state)
{
    const char *path = tuning_path("tuning.json");
    const ckv_tuning_entry known = tuning_entry(0);
    char *entry = tuning_entry_text(&known),
         *more = tuning_replace(entry, "\"time_ns\"", "\"joules\":[7,{}],\"time_ns\"");
    char *text, *whole, *after;
    tuning_list list;
    size_t size;
    (void)state;
    text = tuning_document((const char *const *)&more, 1, &size);
    whole = tuning_replace(text, "\"entries\"", "\"by\":{\"name\":\"x\"},\"entries\"");
    tuning_put(path, whole, strlen(whole));
    save(path, 3);
    tuning_read(path, &list);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.report.skipped, 0);
    assert_true(tuning_has(&list, &known));
    after = tuning_get(path, &size);
    assert_non_null(strstr(after, "\"joules\":[7,{}]"));
    assert_non_null(strstr(after, "\"by\":{\"name\":\"x\"}"));
    save(path, 0); /* the same key */
    free(after);
    after = tuning_get(path, &size);
    assert_null(strstr(after, "joules"));
    free(after);
    free(whole);
    free(text);
    free(more);
    free(entry);
}

/* ------------------------------------------------------------------ other files */

/* What is no JSON: the reason has the line, and what the reader of JSON found there. */
static void test_where_a_file_is_damaged(void **state)
{
    static const char head[] = "{\"format\":\"ckv-tuning\",\"version\":1,\"entries\":[\n";
    static const struct {
        const char *tail, *reason;
    } cases[] = {
        {"", "damaged at line 2: "},
        {"\n\n\"half", "damaged at line 4: "},
        {"{},\n{\"a\":1,\n\"a\":2}\n]}\n", "damaged at line 4: duplicate object key near '"},
        {"{},\n{\"a\":\001\177}\n]}\n", "damaged at line 3: "},
        {"\n[[[[[[[[[[\n\n", "damaged at line 3: more than 8 brackets inside each other"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200];
        tuning_list list;
        snprintf(text, sizeof text, "%s%s", head, cases[i].tail);
        tuning_read_text(text, strlen(text), &list);
        assert_int_equal(list.report.trouble, 1);
        if (strncmp(list.report.reason, cases[i].reason, strlen(cases[i].reason)) != 0 ||
            strlen(list.report.reason) < strlen("damaged at line 2: ") + 5)
            fail_msg("%s: %s", text, list.report.reason);
        for (const char *at = list.report.reason; *at != '\0'; at++)
            assert_true(*at >= ' ' && *at <= '~');
    }
}

/* Neither read nor written over. */
static void test_files_of_others(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"{\"format\":\"ckv-tuning\",\"version\":2,\"entries\":[]}", "another version: version: 2, wanted 1"},
        {"{\"format\":\"ckv-tuning\",\"version\":\"1\",\"entries\":[]}", "another version: version: '1', wanted 1"},
        {"{\"format\":\"ckv-tuning\",\"version\":1}", "without entries: entries: missing, wanted a list"},
        {"{\"format\":\"ckv-tuning\",\"version\":1,\"entries\":{}}",
         "without entries: entries: an object, wanted a list"},
        {"{\"format\":\"fftw\",\"version\":1,\"entries\":[]}",
         "not a tuning file: format: 'fftw', wanted 'ckv-tuning'"},
        {"{}", "not a tuning file: format: missing, wanted"},
        {"[]", "not a tuning file"},
        {"my diary\n", "not a tuning file: line 1: '[' or '{' expected near 'my'"},
        {"\177ELF\002\001", "not a tuning file"},
    };
    const char *path = tuning_path("tuning.json");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_tuning_entry e = tuning_entry(0);
        ckv_tuning_report report;
        tuning_list list;
        size_t size;
        char *after;
        tuning_put(path, cases[i].text, strlen(cases[i].text));
        tuning_read(path, &list);
        assert_int_equal(list.read, 0);
        assert_int_equal(list.report.trouble, 1);
        assert_non_null(strstr(list.report.reason, cases[i].reason));
        assert_int_equal(ckv_tuning_file_write(path, &e, 1, NULL, &report), 0);
        assert_non_null(strstr(report.reason, cases[i].reason));
        after = tuning_get(path, &size);
        assert_string_equal(after, cases[i].text);
        free(after);
    }
    tuning_put(path, "", 0); /* an empty file is nobody's */
    save(path, 0);
}

static void test_files_too_large(void **state)
{
    static const char head[] = "{\"format\":\"ckv-tuning\",\"version\":1,\"entries\":[";
    size_t size = CKV_TUNING_FILE_SIZE + 1;
    char *text = malloc(size);
    const char *path = tuning_path("tuning.json");
    tuning_list list;
    (void)state;
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, head, sizeof head - 1);
    memcpy(text + size - 2, "]}", 2);
    tuning_put(path, text, size);
    tuning_read(path, &list);
    assert_int_equal(list.read, 0);
    assert_non_null(strstr(list.report.reason, "larger than"));
    tuning_put(path, text, size - 1 - 2); /* as large as can be, and cut short */
    tuning_read(path, &list);
    assert_int_equal(list.count, 0);
    assert_int_equal(list.report.trouble, 1);
    for (size_t i = sizeof head - 1; i + 2 < size; i++) /* more values than there is room for */
        text[i] = i % 2 == 0 ? '0' : ',';
    tuning_read_text(text, size - 3, &list);
    assert_int_equal(list.count, 0);
    memset(text + sizeof head - 1, '[', size - sizeof head);
    tuning_read_text(text, size, &list);
    assert_int_equal(list.count, 0);
    assert_int_equal(list.report.trouble, 1);
    free(text);
}

static void test_the_oldest_go(void **state)
{
    const char *path = tuning_path("tuning.json");
    const int count = CKV_TUNING_ENTRIES_MAX + 40;
    ckv_tuning_entry *e = calloc((size_t)count, sizeof *e);
    ckv_tuning_report report;
    tuning_list list;
    (void)state;
    assert_non_null(e);
    for (int i = 0; i < count; i++)
        e[i] = tuning_entry(i);
    assert_true(ckv_tuning_file_write(path, e, count, NULL, &report));
    tuning_read(path, &list);
    assert_int_equal(list.report.skipped, 0);
    assert_true(list.count <= CKV_TUNING_ENTRIES_MAX && list.count > CKV_TUNING_ENTRIES_MAX / 2);
    assert_int_equal(list.entry[0].time_ns, e[count - list.count].time_ns);
    save(path, 0);
    tuning_read(path, &list);
    assert_int_equal(list.report.trouble, 0);
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_round_trip, teardown),
        cmocka_unit_test_teardown(test_key, teardown),
        cmocka_unit_test_teardown(test_truncated_at_every_byte, teardown),
        cmocka_unit_test_teardown(test_a_bit_flipped_in_every_byte, teardown),
        cmocka_unit_test_teardown(test_bad_entries_do_not_harm_others, teardown),
        cmocka_unit_test_teardown(test_changed_entries_stay_foreign, teardown),
        cmocka_unit_test_teardown(test_unknown_fields_stay, teardown),
        cmocka_unit_test_teardown(test_where_a_file_is_damaged, teardown),
        cmocka_unit_test_teardown(test_files_of_others, teardown),
        cmocka_unit_test_teardown(test_files_too_large, teardown),
        cmocka_unit_test_teardown(test_the_oldest_go, teardown),
    };
    return tuning_run(tests);
}
