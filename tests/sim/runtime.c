/* SPDX-License-Identifier: Apache-2.0 */
/* Calls counted and made to fail, devices, live objects; see runtime.h and control.h. */
#define _GNU_SOURCE
#include "runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "noise.h"

#define MAX_DEVICES 8

/* Tells a thread that has it already: a call that a signal broke off, and whose handler
 * jumped out of it, must not end in a test that waits for ever. */
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static struct runtime {
    int64_t calls, left; /* calls until the failure, 0: none is wanted */
    char fail[64];
    int code, lost, capturing, order;
    uint64_t random;
    char complaint[512];
    const char *called[64]; /* distinct, since they were asked for */
    int called_count;
    sim_device devices[SIM_PLATFORMS][MAX_DEVICES];
    int count[SIM_PLATFORMS];
    uint64_t memory;
} r;

/* ---------------------------------------------------------------- start and end */

static void list_devices(int platform, const char *variable, const char *standard)
{
    const char *list = getenv(variable);
    char text[512];
    snprintf(text, sizeof text, "%s", list != NULL ? list : standard);
    char *rest = text;
    for (char *arch = strsep(&rest, ","); arch != NULL; arch = strsep(&rest, ","))
        if (arch[0] != '\0' && r.count[platform] < MAX_DEVICES) {
            sim_device *d = &r.devices[platform][r.count[platform]];
            d->platform = platform;
            d->index = r.count[platform]++;
            snprintf(d->arch, sizeof d->arch, "%s", arch);
            d->lanes = strncmp(arch, "gfx9", 4) == 0 ? 64 : 32;
        }
}

__attribute__((constructor)) static void begin(void)
{
    const char *seed = getenv("CKV_SIM_SEED"), *fail = getenv("CKV_SIM_FAIL"), *memory = getenv("CKV_SIM_MEMORY");
    list_devices(SIM_CUDA, "CKV_SIM_CUDA", "sm_90");
    list_devices(SIM_HIP, "CKV_SIM_HIP", "gfx942:sramecc+:xnack-");
    r.memory = memory != NULL ? strtoull(memory, NULL, 10) : (uint64_t)4 << 30;
    ckv_sim_seed(seed != NULL ? strtoull(seed, NULL, 10) : 1);
    if (fail != NULL) {
        char name[64];
        long long nth = 0;
        int code = 0;
        if (sscanf(fail, "%63[^:]:%lld:%d", name, &nth, &code) >= 2)
            ckv_sim_fail(name, nth, code);
    }
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("CKV_SIM_REPORT");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    const ckv_sim_live live = ckv_sim_counts();
    fprintf(file, "calls %lld memory %lld streams %lld events %lld modules %lld contexts %lld programs %lld %s\n",
            (long long)r.calls, (long long)live.memory, (long long)live.streams, (long long)live.events,
            (long long)live.modules, (long long)live.contexts, (long long)live.programs,
            r.complaint[0] != '\0' ? r.complaint : "no complaint");
    fclose(file);
}

int sim_order(void)
{
    return r.order;
}

uint64_t sim_random(void)
{
    return ckv_sim_next(&r.random) >> 16;
}

/* ---------------------------------------------------------------- calls */

static void note(const char *name)
{
    for (int i = 0; i < r.called_count; i++)
        if (strcmp(r.called[i], name) == 0)
            return;
    if (r.called_count < (int)(sizeof r.called / sizeof r.called[0]))
        r.called[r.called_count++] = name;
}

int sim_enter(const char *name)
{
    int code = 0;
    if (pthread_mutex_lock(&lock) != 0) {
        fprintf(stderr, "# pretended device: %s, but an earlier call never came back\n", name);
        abort();
    }
    r.calls++;
    note(name);
    sim_progress();
    if (r.left > 0 && (strcmp(r.fail, "any") == 0 || strcmp(r.fail, "lost") == 0 || strcmp(r.fail, name) == 0))
        if (--r.left == 0) {
            code = r.code != 0 ? r.code : strstr(name, "lloc") != NULL ? SIM_OUT_OF_MEMORY : SIM_UNKNOWN;
            if (strcmp(r.fail, "lost") == 0)
                r.lost = code;
        }
    /* What a lost device's library still does is to say which is current. */
    const int local =
        strstr(name, "Current") != NULL || strcmp(name, "hipSetDevice") == 0 || strcmp(name, "hipGetDevice") == 0;
    return code != 0 && (!local || strcmp(r.fail, "lost") != 0) ? code : local ? 0 : r.lost;
}

int sim_leave(int error)
{
    pthread_mutex_unlock(&lock);
    return error;
}

void sim_complain(const char *format, ...)
{
    va_list list;
    if (r.complaint[0] != '\0')
        return;
    va_start(list, format);
    vsnprintf(r.complaint, sizeof r.complaint, format, list);
    va_end(list);
    fprintf(stderr, "# pretended device: %s\n", r.complaint);
}

void sim_lose(int error)
{
    if (r.lost == 0)
        r.lost = error;
}

int sim_lost(void)
{
    return r.lost;
}

int sim_capturing(void)
{
    return r.capturing;
}

const char *sim_error_name(int error)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {SIM_INVALID_VALUE, "INVALID_VALUE"},
        {SIM_OUT_OF_MEMORY, "OUT_OF_MEMORY"},
        {SIM_NOT_INITIALIZED, "NOT_INITIALIZED"},
        {34, "STUB_LIBRARY"},
        {SIM_NO_DEVICE, "NO_DEVICE"},
        {SIM_INVALID_DEVICE, "INVALID_DEVICE"},
        {SIM_INVALID_IMAGE, "INVALID_IMAGE"},
        {SIM_INVALID_CONTEXT, "INVALID_CONTEXT"},
        {SIM_NO_BINARY, "NO_BINARY_FOR_GPU"},
        {SIM_INVALID_HANDLE, "INVALID_HANDLE"},
        {SIM_NOT_FOUND, "NOT_FOUND"},
        {SIM_NOT_READY, "NOT_READY"},
        {SIM_ILLEGAL_ADDRESS, "ILLEGAL_ADDRESS"},
        {SIM_LAUNCH_FAILED, "LAUNCH_FAILED"},
        {SIM_NOT_IN_CAPTURE, "STREAM_CAPTURE_UNSUPPORTED"},
        {SIM_UNKNOWN, "UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].error == error)
            return names[i].name;
    return NULL;
}

/* ---------------------------------------------------------------- devices */

int sim_device_count(int platform)
{
    return r.count[platform];
}

sim_device *sim_device_at(int platform, int index)
{
    return index >= 0 && index < r.count[platform] ? &r.devices[platform][index] : NULL;
}

void sim_use(const sim_device *device)
{
    if (device != NULL)
        r.devices[device->platform][device->index].used++;
}

uint64_t sim_device_bytes(void)
{
    return r.memory;
}

int64_t sim_contexts(void)
{
    int64_t count = 0;
    for (int i = 0; i < r.count[SIM_CUDA]; i++)
        count += r.devices[SIM_CUDA][i].retained;
    return count;
}

/* ---------------------------------------------------------------- live objects */

typedef struct object {
    struct object *next;
    _Alignas(16) char body[];
} object;

static object *objects[SIM_KINDS];

void *sim_new(enum sim_kind kind, size_t size)
{
    object *o = calloc(1, sizeof *o + size);
    if (o == NULL)
        abort();
    o->next = objects[kind];
    objects[kind] = o;
    return o->body;
}

int sim_is(enum sim_kind kind, const void *body)
{
    for (const object *o = objects[kind]; o != NULL; o = o->next)
        if (o->body == body)
            return 1;
    return 0;
}

void sim_delete(enum sim_kind kind, void *body)
{
    for (object **at = &objects[kind]; *at != NULL; at = &(*at)->next)
        if ((*at)->body == body) {
            object *o = *at;
            *at = o->next;
            free(o);
            return;
        }
}

int64_t sim_live_objects(enum sim_kind kind)
{
    int64_t count = 0;
    for (const object *o = objects[kind]; o != NULL; o = o->next)
        count++;
    return count;
}

/* ---------------------------------------------------------------- control */

void ckv_sim_fail(const char *name, int64_t nth, int code)
{
    pthread_mutex_lock(&lock);
    snprintf(r.fail, sizeof r.fail, "%s", name);
    r.left = nth;
    r.code = code;
    pthread_mutex_unlock(&lock);
}

int sim_kernel_fails(void)
{
    return r.left > 0 && strcmp(r.fail, "kernel") == 0 && --r.left == 0;
}

const char *ckv_sim_called(void)
{
    static char text[4096];
    size_t length = 0;
    pthread_mutex_lock(&lock);
    text[0] = '\0';
    for (int i = 0; i < r.called_count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s ", r.called[i]);
    r.called_count = 0;
    pthread_mutex_unlock(&lock);
    return text;
}

int64_t ckv_sim_used(const char *backend, int device)
{
    const sim_device *d = sim_device_at(strcmp(backend, "hip") == 0 ? SIM_HIP : SIM_CUDA, device);
    return d == NULL ? 0 : d->used;
}

int64_t ckv_sim_calls(void)
{
    return r.calls;
}

void ckv_sim_reset(void)
{
    pthread_mutex_lock(&lock);
    r.left = 0;
    r.lost = 0;
    r.capturing = 0;
    r.complaint[0] = '\0';
    pthread_mutex_unlock(&lock);
}

void ckv_sim_seed(uint64_t seed)
{
    pthread_mutex_lock(&lock);
    r.random = ckv_sim_spread(seed);
    r.order = (int)(sim_random() % 3);
    pthread_mutex_unlock(&lock);
}

const char *ckv_sim_complaint(void)
{
    pthread_mutex_lock(&lock);
    sim_check_memory();
    pthread_mutex_unlock(&lock);
    return r.complaint;
}

void ckv_sim_capture(int on)
{
    pthread_mutex_lock(&lock);
    if (on) {
        sim_wait_all();
        sim_forget_kept();
    }
    r.capturing = on;
    pthread_mutex_unlock(&lock);
}

int ckv_sim_replay(void)
{
    pthread_mutex_lock(&lock);
    const int commands = sim_replay();
    pthread_mutex_unlock(&lock);
    return commands;
}

void *ckv_sim_allocate(const char *backend, int device, int64_t bytes)
{
    void *memory = NULL;
    pthread_mutex_lock(&lock);
    const sim_device *d = sim_device_at(strcmp(backend, "hip") == 0 ? SIM_HIP : SIM_CUDA, device);
    if (d != NULL)
        sim_allocate(d, (size_t)bytes, &memory);
    pthread_mutex_unlock(&lock);
    return memory;
}

void ckv_sim_release(void *memory)
{
    pthread_mutex_lock(&lock);
    sim_free(memory);
    pthread_mutex_unlock(&lock);
}

void *ckv_sim_bytes(void *memory)
{
    pthread_mutex_lock(&lock);
    void *bytes = sim_reach(NULL, memory, 1);
    pthread_mutex_unlock(&lock);
    return bytes;
}
