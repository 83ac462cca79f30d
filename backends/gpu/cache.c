/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of kernels on disk. */
#define _POSIX_C_SOURCE 200809L
#include "cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/files.h"

#define MAGIC "ckv kernels 1\n\0\0"
#define LARGEST ((uint64_t)1 << 30)

/* The file: this, the key, the image; numbers as this machine writes them, since a
 * folder shared between machines of both kinds only misses. */
typedef struct header {
    char magic[16];
    uint64_t key_size, data_size;
    uint64_t key_sum[2], data_sum[2];
} header;

/* FNV-1a over 128 bits; the prime is 2^88 + 0x13b. */
static void hash(uint64_t sum[2], const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t low = UINT64_C(0x62b821756295c58d), high = UINT64_C(0x6c62272e07bb0142);
    for (size_t i = 0; i < size; i++) {
        uint64_t a, b, carry;
        low ^= bytes[i];
        a = (low & UINT32_MAX) * 0x13b;
        b = (low >> 32) * 0x13b;
        carry = (b + (a >> 32)) >> 32;
        high = high * 0x13b + carry + (low << 24);
        low *= 0x13b;
    }
    sum[0] = low;
    sum[1] = high;
}

int ckv_cache_folder(char *folder, size_t size)
{
    const char *own = getenv("CKV_KERNEL_CACHE");
    int length;
    if (own == NULL || own[0] == '\0')
        return ckv_cache_path(folder, size, "kernels");
    if (own[0] != '/') /* "off" too */
        return 0;
    length = snprintf(folder, size, "%s", own);
    return length > 0 && (size_t)length < size;
}

/* FOLDER/hash of the key; 1 when it fits. */
static int file_name(char *path, size_t size, const char *folder, const uint64_t sum[2])
{
    int length =
        snprintf(path, size, "%s/%016llx%016llx", folder, (unsigned long long)sum[1], (unsigned long long)sum[0]);
    return length > 0 && (size_t)length < size;
}

/* What runs on the device must not come from another user. */
static int is_ours(const struct stat *status)
{
    return S_ISREG(status->st_mode) && status->st_uid == geteuid() && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The image of an open file, NULL when anything is not as it was written. */
static void *read_image(int file, const header *wanted, const void *key, size_t *size)
{
    struct stat status;
    header found;
    uint64_t sum[2];
    char *memory;
    if (fstat(file, &status) != 0 || !is_ours(&status) || !ckv_read_all(file, &found, sizeof found) ||
        memcmp(found.magic, wanted->magic, sizeof found.magic) != 0 || found.key_size != wanted->key_size ||
        memcmp(found.key_sum, wanted->key_sum, sizeof found.key_sum) != 0 || found.data_size == 0 ||
        found.data_size > LARGEST || (uint64_t)status.st_size != sizeof found + found.key_size + found.data_size)
        return NULL;
    memory = malloc((size_t)(found.key_size > found.data_size ? found.key_size : found.data_size));
    if (memory != NULL && ckv_read_all(file, memory, (size_t)found.key_size) &&
        memcmp(memory, key, (size_t)found.key_size) == 0 && ckv_read_all(file, memory, (size_t)found.data_size)) {
        hash(sum, memory, (size_t)found.data_size);
        if (memcmp(sum, found.data_sum, sizeof sum) == 0) {
            *size = (size_t)found.data_size;
            return memory;
        }
    }
    free(memory);
    return NULL;
}

static void fill(header *head, const void *key, size_t key_size)
{
    memset(head, 0, sizeof *head);
    memcpy(head->magic, MAGIC, sizeof head->magic);
    head->key_size = key_size;
    hash(head->key_sum, key, key_size);
}

int ckv_cache_load(const char *folder, const void *key, size_t key_size, void **data, size_t *size)
{
    char path[CKV_PATH_SIZE];
    header wanted;
    int file;
    *data = NULL;
    *size = 0;
    fill(&wanted, key, key_size);
    if (!file_name(path, sizeof path, folder, wanted.key_sum))
        return 0;
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO in its place must not hold us */
    if (file < 0)
        return 0;
    *data = read_image(file, &wanted, key, size);
    close(file);
    return *data != NULL;
}

int ckv_cache_store(const char *folder, const void *key, size_t key_size, const void *data, size_t size)
{
    char path[CKV_PATH_SIZE], draft[CKV_PATH_SIZE];
    header head;
    int file, length, done;
    fill(&head, key, key_size);
    head.data_size = size;
    hash(head.data_sum, data, size);
    if (size == 0 || size > LARGEST || !file_name(path, sizeof path, folder, head.key_sum))
        return 0;
    length = snprintf(draft, sizeof draft, "%s/draft-XXXXXX", folder);
    if (length <= 0 || (size_t)length >= sizeof draft)
        return 0;
    ckv_make_folders(folder);
    file = mkstemp(draft);
    if (file < 0)
        return 0;
    done = ckv_write_all(file, &head, sizeof head) && ckv_write_all(file, key, key_size) &&
           ckv_write_all(file, data, size);
    done = close(file) == 0 && done;
    done = done && rename(draft, path) == 0;
    if (!done)
        unlink(draft);
    return done;
}
