/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer of a tuning file at a time.  Who holds the lock may remove its file: a lock
 * counts only while the name still leads to the file that was locked, and whoever waited
 * for one that is gone begins anew.
 */
#define _DEFAULT_SOURCE /* flock */
#include "tuning_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#define TIMEOUT_MS 5000
#define PAUSE_NS 2000000

/* Opens the file, or makes it.  0 where neither can be done. */
static int open_file(ckv_tuning_lock *lock)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
    do {
        lock->file = open(lock->name, flags | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
        lock->made = lock->file >= 0;
        if (lock->file >= 0 || errno != EEXIST)
            break;
        lock->file = open(lock->name, flags);
    } while (lock->file < 0 && errno == ENOENT); /* removed between the two */
    return lock->file >= 0;
}

static int is_there(const ckv_tuning_lock *lock)
{
    struct stat open, named;
    return fstat(lock->file, &open) == 0 && lstat(lock->name, &named) == 0 && open.st_dev == named.st_dev &&
           open.st_ino == named.st_ino;
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void close_file(ckv_tuning_lock *lock)
{
    close(lock->file);
    lock->file = -1;
}

int ckv_tuning_lock_take(ckv_tuning_lock *lock, const char *path, const ckv_tuning_locking *locking)
{
    static const ckv_tuning_locking usual = {flock, TIMEOUT_MS};
    const struct timespec pause = {0, PAUSE_NS};
    const ckv_tuning_locking *l = locking == NULL ? &usual : locking;
    const int64_t start = nanoseconds();
    snprintf(lock->name, sizeof lock->name, "%s.lock", path);
    lock->file = -1;
    for (;;) {
        if (lock->file < 0 && !open_file(lock))
            return 1;
        const int taken = l->lock(lock->file, LOCK_EX | LOCK_NB) == 0;
        if (!taken && errno == EINTR)
            continue;
        /* No locks here: the file is replaced as a whole all the same. */
        if (!taken && errno != EWOULDBLOCK && errno != EAGAIN)
            return 1;
        if (!is_there(lock))
            close_file(lock);
        else if (taken)
            return 1;
        if (nanoseconds() - start >= (int64_t)l->timeout_ms * 1000000)
            break;
        if (!taken)
            nanosleep(&pause, NULL);
    }
    if (lock->file >= 0)
        close_file(lock);
    return 0;
}

void ckv_tuning_lock_release(ckv_tuning_lock *lock, int written)
{
    if (lock->file < 0)
        return;
    /* Under the lock, so that nobody has it by that name; but where there are no locks nobody waits for one. */
    if (lock->made && !written && is_there(lock))
        unlink(lock->name);
    close_file(lock);
}
