/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: blocks of the host's between red zones, full of noise when new.  The
 * address that a caller sees has a bit set that no address of a program has.  Blocks of a
 * gigabyte and more take no memory where nothing is written: zeros, without noise.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control.h"
#include "noise.h"
#include "runtime.h"

#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define MEMORY_VALGRIND 1
#endif
#endif

#define RED ((size_t)1024)
#define ALIGNMENT ((size_t)256)
#define RED_BYTE 0xc3
#define TAG ((uintptr_t)1 << 55)

typedef struct block {
    struct block *next;
    const sim_device *device;
    unsigned char *raw, *data;
    size_t size;
} block;

static block *blocks, *locked; /* locked: the host's */
static uint64_t live_bytes[SIM_PLATFORMS][8];

static void *tagged(const void *host)
{
    return (void *)((uintptr_t)host | TAG);
}

static unsigned char *untagged(const void *memory)
{
    return (unsigned char *)((uintptr_t)memory & ~TAG);
}

static int is_tagged(const void *memory)
{
    return ((uintptr_t)memory & TAG) != 0;
}

static void access_red_zones(const block *b, int open)
{
#ifdef MEMORY_VALGRIND
    const size_t end = RED - (size_t)(b->data - b->raw - (ptrdiff_t)RED) + ALIGNMENT;
    if (open) {
        (void)VALGRIND_MAKE_MEM_DEFINED(b->raw, b->data - b->raw);
        (void)VALGRIND_MAKE_MEM_DEFINED(b->data + b->size, end);
    } else {
        (void)VALGRIND_MAKE_MEM_NOACCESS(b->raw, b->data - b->raw);
        (void)VALGRIND_MAKE_MEM_NOACCESS(b->data + b->size, end);
    }
#else
    (void)b;
    (void)open;
#endif
}

#define SPARSE ((size_t)1 << 30)

static unsigned char *new_raw(size_t bytes, size_t whole)
{
    void *raw = bytes >= SPARSE
                    ? mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                    : malloc(whole);
    return raw == MAP_FAILED ? NULL : raw;
}

static void free_raw(unsigned char *raw, size_t bytes)
{
    if (bytes >= SPARSE)
        munmap(raw, bytes + 2 * RED + ALIGNMENT);
    else
        free(raw);
}

int sim_allocate(const sim_device *device, size_t bytes, void **memory)
{
    uint64_t *live = &live_bytes[device->platform][device->index];
    *memory = NULL;
    if (bytes == 0)
        return SIM_INVALID_VALUE;
    if (bytes > sim_device_bytes() || *live + bytes > sim_device_bytes())
        return SIM_OUT_OF_MEMORY;
    block *b = calloc(1, sizeof *b);
    unsigned char *raw = new_raw(bytes, bytes + 2 * RED + ALIGNMENT);
    if (b == NULL || raw == NULL) {
        free(b);
        if (raw != NULL)
            free_raw(raw, bytes);
        return SIM_OUT_OF_MEMORY;
    }
    b->raw = raw;
    b->data = raw + RED + (size_t)(-(uintptr_t)(raw + RED) % ALIGNMENT);
    memset(raw, RED_BYTE, (size_t)(b->data - raw));
    memset(b->data + bytes, RED_BYTE, (size_t)(raw + 2 * RED + ALIGNMENT - b->data));
    b->size = bytes;
    b->device = device;
    b->next = blocks;
    blocks = b;
    *live += bytes;
    if (bytes < SPARSE)
        ckv_sim_forget(b->data, bytes, sim_random());
    access_red_zones(b, 0);
    *memory = tagged(b->data);
    return SIM_OK;
}

static void check_block(const block *b)
{
    access_red_zones(b, 1);
    const unsigned char *end = b->raw + b->size + 2 * RED + ALIGNMENT;
    for (const unsigned char *p = b->raw; p < end; p = p + 1 == b->data ? b->data + b->size : p + 1)
        if (*p != RED_BYTE) {
            sim_complain("a block of %llu bytes was written at byte %lld", (unsigned long long)b->size,
                         (long long)(p - b->data));
            break;
        }
    access_red_zones(b, 0);
}

void sim_check_memory(void)
{
    for (const block *b = blocks; b != NULL; b = b->next)
        check_block(b);
}

int sim_free(void *memory)
{
    if (memory == NULL)
        return SIM_OK;
    sim_wait_all(); /* as both vendors' free do */
    for (block **at = &blocks; *at != NULL; at = &(*at)->next) {
        block *b = *at;
        if (is_tagged(memory) && b->data == untagged(memory)) {
            check_block(b);
            live_bytes[b->device->platform][b->device->index] -= b->size;
            *at = b->next;
            access_red_zones(b, 1);
            free_raw(b->raw, b->size);
            free(b);
            return SIM_OK;
        }
    }
    sim_complain("%p is freed, which is no live block", memory);
    return SIM_INVALID_VALUE;
}

int sim_lock_host(const sim_device *device, size_t bytes, void **memory)
{
    block *b = calloc(1, sizeof *b);
    *memory = NULL;
    if (bytes == 0 || b == NULL || (b->raw = malloc(bytes)) == NULL) {
        free(b);
        return bytes == 0 ? SIM_INVALID_VALUE : SIM_OUT_OF_MEMORY;
    }
    b->device = device;
    b->data = b->raw;
    b->size = bytes;
    b->next = locked;
    locked = b;
    *memory = b->data;
    return SIM_OK;
}

int sim_unlock_host(void *memory)
{
    sim_wait_all();
    for (block **at = &locked; *at != NULL; at = &(*at)->next) {
        block *b = *at;
        if (b->data == memory) {
            *at = b->next;
            ckv_sim_forget(b->data, b->size, sim_random());
            free(b->raw);
            free(b);
            return SIM_OK;
        }
    }
    sim_complain("%p is freed, which is no page-locked memory", memory);
    return SIM_INVALID_VALUE;
}

int sim_is_locked(const void *memory, size_t bytes)
{
    const unsigned char *p = memory;
    for (const block *b = locked; b != NULL; b = b->next)
        if (p >= b->data && p < b->data + b->size)
            return bytes <= (size_t)(b->data + b->size - p);
    return 0;
}

static const block *find(const void *memory)
{
    const unsigned char *p = untagged(memory);
    for (const block *b = blocks; is_tagged(memory) && b != NULL; b = b->next)
        if (p >= b->data && p < b->data + b->size)
            return b;
    return NULL;
}

void *sim_reach(const sim_device *device, const void *memory, size_t bytes)
{
    const block *b = find(memory);
    unsigned char *p = untagged(memory);
    return b != NULL && (device == NULL || device == b->device) && bytes <= (size_t)(b->data + b->size - p) ? p : NULL;
}

const sim_device *sim_owner(const void *memory)
{
    const block *b = find(memory);
    return b != NULL ? b->device : NULL;
}

void sim_check_leaks(const sim_device *device)
{
    for (const block *b = blocks; b != NULL; b = b->next)
        if (b->device == device)
            sim_complain("a context ends with %llu bytes not freed", (unsigned long long)b->size);
    for (const block *b = locked; b != NULL; b = b->next)
        if (b->device == device)
            sim_complain("a context ends with %llu locked bytes not freed", (unsigned long long)b->size);
}

ckv_sim_live ckv_sim_counts(void)
{
    ckv_sim_live live = {0,
                         0,
                         sim_live_objects(SIM_STREAM),
                         sim_live_objects(SIM_EVENT),
                         sim_live_objects(SIM_MODULE),
                         sim_contexts(),
                         sim_live_objects(SIM_PROGRAM)};
    for (const block *b = blocks; b != NULL; b = b->next) {
        live.memory++;
        live.bytes += (int64_t)b->size;
    }
    for (const block *b = locked; b != NULL; b = b->next) {
        live.memory++;
        live.bytes += (int64_t)b->size;
    }
    return live;
}
