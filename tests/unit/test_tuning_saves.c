/* SPDX-License-Identifier: Apache-2.0 */
/* Saving into tuning files where it cannot be done, where others hold the lock, where there
 * are no locks, and from many processes at once. */
#define _DEFAULT_SOURCE
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tuning.h"

#define PROCESSES 8
#define SAVES 25

static int teardown(void **state)
{
    (void)state;
    tuning_remove();
    return 0;
}

static int save(const char *path, int n, int64_t time_ns, const ckv_tuning_locking *locking, ckv_tuning_report *report)
{
    ckv_tuning_entry e = tuning_entry(n);
    e.time_ns = time_ns;
    return ckv_tuning_file_write(path, &e, 1, locking, report);
}

static void assert_refused(const char *path, const char *reason)
{
    ckv_tuning_report report;
    tuning_list list;
    const int files = tuning_count_files(tuning_folder());
    for (int checked = 0; checked < 2; checked++) {
        assert_int_equal(checked ? ckv_tuning_file_check(path, &report) : save(path, 0, 1, NULL, &report), 0);
        assert_int_equal(report.trouble, 1);
        if (strstr(report.reason, reason) == NULL)
            fail_msg("%s: %s", path, report.reason);
    }
    assert_int_equal(tuning_count_files(tuning_folder()), files); /* no lock, no draft */
    tuning_read(path, &list);                                     /* returns */
    assert_int_equal(list.count, 0);
}

/* 1: there is no such file. */
static int is_gone(const char *path)
{
    struct stat status;
    return lstat(path, &status) != 0 && errno == ENOENT;
}

static void test_places_that_are_none(void **state)
{
    char path[400];
    (void)state;
    snprintf(path, sizeof path, "%s", tuning_path("folder"));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(path, "not a file");
    snprintf(path, sizeof path, "%s", tuning_path("pipe")); /* neither waits */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(path, "not a file");
    tuning_put(tuning_path("file"), "x", 1);
    snprintf(path, sizeof path, "%s", tuning_path("file/below/tuning.json"));
    assert_refused(path, "Not a directory");
    assert_refused("/proc/self/tuning.json", "");
    assert_refused("/dev/full", "not a file");
    assert_refused(tuning_folder(), "not a file");
    snprintf(path, sizeof path, "%s.lock", tuning_folder());
    assert_true(is_gone(path));
    snprintf(path, sizeof path, "%s", tuning_path("new/folder/"));
    assert_refused(path, "Is a directory");
    tuning_put(tuning_path("other.json"), "{\"format\":\"other\"}", 18);
    snprintf(path, sizeof path, "%s", tuning_path("other.json"));
    save(path, 0, 1, NULL, &(ckv_tuning_report){0});
    assert_true(is_gone(tuning_path("other.json.lock")));
    assert_refused("", "");
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_refused(longest, "too long");
}

static void test_folder_that_cannot_be_written(void **state)
{
    char path[400], folder[400];
    (void)state;
    snprintf(folder, sizeof folder, "%s", tuning_path("closed"));
    snprintf(path, sizeof path, "%s", tuning_path("closed/tuning.json"));
    assert_int_equal(mkdir(folder, 0555), 0);
    assert_int_equal(chmod(tuning_folder(), 0755), 0);
    if (geteuid() == 0 && seteuid(65534) != 0) /* root writes everywhere */
        skip_because("root's rights cannot be laid down");
    assert_refused(path, "Permission denied");
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    chmod(folder, 0755);
}

/* A link to a file stays one. */
static void test_links(void **state)
{
    char link[400], path[400];
    ckv_tuning_report report;
    struct stat status;
    tuning_list list;
    (void)state;
    snprintf(path, sizeof path, "%s", tuning_path("real.json"));
    snprintf(link, sizeof link, "%s", tuning_path("link.json"));
    assert_true(save(path, 0, 1, NULL, &report));
    chmod(path, 0640);
    assert_int_equal(symlink(path, link), 0);
    assert_true(save(link, 1, 1, NULL, &report));
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    tuning_read(path, &list);
    assert_int_equal(list.count, 2);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640); /* and so do its rights */
}

/* To a file, then to no file: what it leads to is made, and it stays. */
static void assert_followed(const char *link, const char *text, const char *path)
{
    ckv_tuning_report report;
    struct stat status;
    tuning_list list;
    char at[400];
    snprintf(at, sizeof at, "%s", tuning_path(link));
    assert_int_equal(symlink(text, at), 0);
    assert_true(ckv_tuning_file_check(at, &report));
    assert_true(is_gone(tuning_path(path)));
    assert_true(save(at, 0, 1, NULL, &report));
    assert_int_equal(lstat(at, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    tuning_read(tuning_path(path), &list);
    assert_int_equal(list.count, 1);
    assert_false(is_gone(tuning_path(path)));
}

static void test_links_to_nothing(void **state)
{
    char path[400];
    (void)state;
    snprintf(path, sizeof path, "%s", tuning_path("a.json"));
    assert_followed("to-a", path, "a.json");
    assert_followed("to-b", "b.json", "b.json");
    assert_followed("to-c", "new/folder/c.json", "new/folder/c.json");
    assert_int_equal(symlink("d.json", tuning_path("to-d")), 0);
    assert_followed("new/to-d", "../to-d", "d.json"); /* through two, in folders of their own */
    assert_int_equal(symlink("round", tuning_path("round")), 0);
    snprintf(path, sizeof path, "%s", tuning_path("round"));
    assert_refused(path, "symbolic links");
    assert_int_equal(symlink("file/below.json", tuning_path("wrong")), 0);
    tuning_put(tuning_path("file"), "x", 1);
    snprintf(path, sizeof path, "%s", tuning_path("wrong"));
    assert_refused(path, "Not a directory");
}

/* A check makes nothing and changes nothing; what can be written passes it. */
static void test_check(void **state)
{
    ckv_tuning_report report;
    char path[400], deep[400], *before, *after;
    size_t size, size_after;
    (void)state;
    snprintf(path, sizeof path, "%s", tuning_path("tuning.json"));
    assert_true(ckv_tuning_file_check(path, &report));
    snprintf(deep, sizeof deep, "%s", tuning_path("some/folders/tuning.json"));
    assert_true(ckv_tuning_file_check(deep, &report));
    assert_string_equal(report.reason, "");
    assert_int_equal(tuning_count_files(tuning_folder()), 0);
    assert_true(save(path, 0, 1, NULL, &report));
    before = tuning_get(path, &size);
    assert_true(ckv_tuning_file_check(path, &report));
    after = tuning_get(path, &size_after);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    assert_int_equal(tuning_count_files(tuning_folder()), 2);
    free(before);
    free(after);
}

/* ------------------------------------------------------------------ a full disk */

/* In a child whose files may not grow beyond `most` bytes. */
static int save_within(const char *path, rlim_t most)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {most, most};
        ckv_tuning_report report;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(save(path, 5, 1, NULL, &report) ? 0 : strstr(report.reason, "large") != NULL ? 1 : 2);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_full_disk(void **state)
{
    const char *path = tuning_path("tuning.json");
    ckv_tuning_report report;
    char *before, *after;
    size_t size, size_after;
    (void)state;
    for (int n = 0; n < 3; n++)
        assert_true(save(path, n, 1, NULL, &report));
    before = tuning_get(path, &size);
    for (rlim_t most = 0; most < size + 200; most += 97) {
        assert_int_equal(save_within(path, most), 1);
        after = tuning_get(path, &size_after);
        assert_int_equal(size_after, size);
        assert_memory_equal(after, before, size);
        assert_int_equal(tuning_count_files(tuning_folder()), 2); /* no draft is left */
        free(after);
    }
    assert_int_equal(save_within(path, 1 << 20), 0);
    free(before);
}

/* ------------------------------------------------------------------ locks */

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void test_lock_of_another_process(void **state)
{
    const char *path = tuning_path("tuning.json");
    static const ckv_tuning_locking patient = {flock, 10000}, hasty = {flock, 60};
    ckv_tuning_report report;
    tuning_list list;
    int ready[2], go[2], status;
    char byte;
    double start;
    pid_t child;
    (void)state;
    assert_true(save(path, 0, 1, NULL, &report));
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    child = fork();
    if (child == 0) {
        int file = open(tuning_path("tuning.json.lock"), O_RDWR);
        alarm(60); /* should the test fail, nobody writes to it */
        int locked = flock(file, LOCK_EX) == 0;
        _exit(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1 && locked && usleep(100000) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    start = now();
    assert_int_equal(save(path, 1, 1, &hasty, &report), 0);
    assert_true(now() - start >= 0.06 && now() - start < 5);
    assert_non_null(strstr(report.reason, "locked by another process"));
    tuning_read(path, &list); /* readers need no lock */
    assert_int_equal(list.count, 1);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_true(save(path, 1, 1, &patient, &report)); /* waits until it is free */
    tuning_read(path, &list);
    assert_int_equal(list.count, 2);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    close(go[1]);
}

/* Who waited for a lock whose file is gone by then has none, and makes it anew. */
static void test_lock_that_is_removed(void **state)
{
    static const ckv_tuning_locking patient = {flock, 20000};
    char path[400], name[408];
    ckv_tuning_lock first, second;
    int ready[2], status;
    char byte;
    pid_t child;
    (void)state;
    snprintf(path, sizeof path, "%s", tuning_path("tuning.json"));
    snprintf(name, sizeof name, "%s.lock", path);
    assert_int_equal(pipe(ready), 0);
    assert_true(ckv_tuning_lock_take(&first, path, NULL));
    assert_true(first.made);
    child = fork();
    if (child == 0) {
        const ckv_tuning_locking hasty = {flock, 50};
        int held = ckv_tuning_lock_take(&second, path, &hasty);
        if (write(ready[1], "x", 1) != 1 || held)
            _exit(1);
        held = ckv_tuning_lock_take(&second, path, &patient);
        _exit(held && second.made && second.file >= 0 && !is_gone(name) ? 0 : 2);
    }
    assert_true(child > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    usleep(50000);
    ckv_tuning_lock_release(&first, 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* One that was there before stays, and so does one under which something was written. */
    assert_false(is_gone(name)); /* the child ended with it */
    assert_true(ckv_tuning_lock_take(&first, path, NULL));
    assert_false(first.made);
    ckv_tuning_lock_release(&first, 0);
    assert_false(is_gone(name));
    assert_int_equal(remove(name), 0);
    assert_true(ckv_tuning_lock_take(&first, path, NULL));
    ckv_tuning_lock_release(&first, 1);
    assert_false(is_gone(name));
    close(ready[0]);
    close(ready[1]);
}

/* Never two at once, though each removes the file that it made. */
static void test_lock_is_one_process_at_a_time(void **state)
{
    static const ckv_tuning_locking patient = {flock, 120000};
    char path[400], inside[400];
    pid_t children[PROCESSES];
    (void)state;
    snprintf(path, sizeof path, "%s", tuning_path("tuning.json"));
    snprintf(inside, sizeof inside, "%s", tuning_path("inside"));
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (int k = 0; k < 40 * SAVES; k++) {
                ckv_tuning_lock lock;
                if (!ckv_tuning_lock_take(&lock, path, &patient))
                    _exit(1);
                int file = open(inside, O_RDWR | O_CREAT | O_EXCL, 0600);
                if (file < 0 || close(file) != 0 || unlink(inside) != 0)
                    _exit(2);
                ckv_tuning_lock_release(&lock, 0);
            }
            _exit(0);
        }
        assert_true(children[i] > 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(tuning_count_files(tuning_folder()), 0);
}

static int no_locks(int file, int operation)
{
    (void)file;
    (void)operation;
    errno = ENOLCK;
    return -1;
}

static int interrupted_twice(int file, int operation)
{
    static int calls;
    errno = EINTR;
    return ++calls <= 2 ? -1 : flock(file, operation);
}

static void test_no_locks(void **state)
{
    static const ckv_tuning_locking none = {no_locks, 1000}, shaken = {interrupted_twice, 1000};
    const char *path = tuning_path("tuning.json");
    ckv_tuning_report report;
    tuning_list list;
    (void)state;
    assert_true(save(path, 0, 1, &none, &report));
    assert_true(save(path, 1, 1, &shaken, &report));
    assert_int_equal(mkdir(tuning_path("other.json.lock"), 0700), 0); /* nothing to lock */
    assert_true(save(tuning_path("other.json"), 0, 1, NULL, &report));
    tuning_read(tuning_path("tuning.json"), &list);
    assert_int_equal(list.count, 2);
}

/* ------------------------------------------------------------------ many at once */

static void save_many(const char *path, int process, const ckv_tuning_locking *locking)
{
    for (int i = 1; i <= SAVES; i++) {
        ckv_tuning_report report;
        if (!save(path, process, i, locking, &report)) {
            fprintf(stderr, "process %d save %d: %s\n", process, i, report.reason);
            _exit(1);
        }
    }
    _exit(0);
}

/* While it goes on, whoever reads has a whole file. */
static void run_many(const char *path, const ckv_tuning_locking *locking, tuning_list *last)
{
    pid_t children[PROCESSES];
    int left = PROCESSES, reads = 0;
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            save_many(path, i, locking);
        assert_true(children[i] > 0);
    }
    while (left > 0) {
        int status;
        tuning_read(path, last);
        assert_int_equal(last->report.trouble, 0);
        assert_int_equal(last->report.skipped, 0);
        reads++;
        if (waitpid(-1, &status, WNOHANG) > 0) {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            left--;
        }
    }
    assert_true(reads > PROCESSES);
    tuning_read(path, last);
    assert_int_equal(last->report.trouble, 0);
    assert_int_equal(tuning_count_files(tuning_folder()), 2);
}

static void test_many_processes(void **state)
{
    static const ckv_tuning_locking patient = {flock, 120000};
    tuning_list list;
    (void)state;
    run_many(tuning_path("tuning.json"), &patient, &list);
    assert_int_equal(list.count, PROCESSES);
    for (int i = 0; i < PROCESSES; i++) { /* the last of each is there */
        ckv_tuning_entry e = tuning_entry(i);
        e.time_ns = SAVES;
        assert_true(tuning_has(&list, &e));
    }
}

/* An entry may be lost, the file may not. */
static void test_many_processes_without_locks(void **state)
{
    static const ckv_tuning_locking none = {no_locks, 0};
    tuning_list list;
    (void)state;
    run_many(tuning_path("tuning.json"), &none, &list);
    assert_true(list.count >= 1 && list.count <= PROCESSES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_places_that_are_none, teardown),
        cmocka_unit_test_teardown(test_folder_that_cannot_be_written, teardown),
        cmocka_unit_test_teardown(test_links, teardown),
        cmocka_unit_test_teardown(test_links_to_nothing, teardown),
        cmocka_unit_test_teardown(test_check, teardown),
        cmocka_unit_test_teardown(test_full_disk, teardown),
        cmocka_unit_test_teardown(test_lock_of_another_process, teardown),
        cmocka_unit_test_teardown(test_lock_that_is_removed, teardown),
        cmocka_unit_test_teardown(test_lock_is_one_process_at_a_time, teardown),
        cmocka_unit_test_teardown(test_no_locks, teardown),
        cmocka_unit_test_teardown(test_many_processes, teardown),
        cmocka_unit_test_teardown(test_many_processes_without_locks, teardown),
    };
    return tuning_run(tests);
}
