/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: an image is a fatbin, cubin, code object or PTX made when the library was
 * built, taken as the kernels with their default defines, or what the pretended
 * compilers of rtc.c make, which names an architecture and its defines.
 *
 * The kernels come from the shared object CKV_SIM_KERNELS, by default one of the two beside
 * this library, for larger and for smaller matrix instructions; for other defines $CC makes
 * another from the same source.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "kernels.h"
#include "rtc.h"
#include "runtime.h"

#define VARIANTS 16

typedef struct variant {
    char defines[1024];
    int small;
    const ckv_sim_kernels_table *table;
} variant;

typedef struct sim_module {
    const sim_device *device;
    const ckv_sim_kernels_table *table;
    struct function *functions;
} sim_module;

typedef struct function {
    struct function *next;
    const sim_module *module;
    int number;
} function;

struct sim_kernel_call {
    const ckv_sim_kernels_table *table;
    int number;
    uint32_t groups[3];
    void *buffers[SIM_BUFFERS];
    char parameters[]; /* table->parameter_bytes */
};

static variant variants[VARIANTS];
static int variant_count;

/* ---------------------------------------------------------------- kernels */

static const ckv_sim_kernels_table *open_object(const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const ckv_sim_kernels_table *(*get)(void) = NULL;
    if (object != NULL)
        *(void **)&get = dlsym(object, "ckv_sim_kernels");
    if (get == NULL)
        sim_complain("no kernels in %s: %s", path, dlerror());
    return get != NULL ? get() : NULL;
}

/* Chips without mma.m16n8k32, or without the MFMA of 32 values of k. */
static int is_small(const sim_device *device)
{
    return strcmp(device->arch, "sm_75") == 0 || strncmp(device->arch, "gfx908", 6) == 0 ||
           strncmp(device->arch, "gfx90a", 6) == 0;
}

static const ckv_sim_kernels_table *standard_kernels(int small)
{
    const char *path = getenv("CKV_SIM_KERNELS");
    Dl_info info;
    char beside[4096];
    if (path != NULL)
        return open_object(path);
    if (dladdr((const void *)&variants, &info) == 0)
        return NULL;
    const char *slash = strrchr(info.dli_fname, '/');
    const int folder = slash != NULL ? (int)(slash - info.dli_fname) + 1 : 0;
    snprintf(beside, sizeof beside, "%.*slibckv_sim_kernels%s.so", folder, info.dli_fname, small ? "_small" : "");
    return open_object(beside);
}

static const ckv_sim_kernels_table *compile(const char *defines, int small)
{
    const char *compiler = getenv("CC"), *source = getenv("top_srcdir");
    char path[] = "/tmp/ckv_sim_XXXXXX.so", command[8192];
    const ckv_sim_kernels_table *table = NULL;
    const int made = mkstemps(path, 3);
    if (source == NULL)
        source = SIM_SOURCE;
    if (made < 0)
        return NULL;
    close(made);
    snprintf(command, sizeof command,
             "%s -std=gnu11 -O2 -w -ffp-contract=off -fvisibility=hidden -shared -fPIC -I'%s' %s %s -o %s"
             " '%s'/tests/sim/kernels.c '%s'/tests/sim/executor.c '%s'/tests/sim/fiber.c '%s'/tests/sim/matrix.c"
             " '%s'/tests/sim/noise.c -lm -lpthread",
             compiler != NULL ? compiler : "cc", source, defines, small ? "-DSIM_SMALL_MATRICES" : "", path, source,
             source, source, source, source);
    if (system(command) == 0)
        table = open_object(path);
    else
        sim_complain("cannot build the kernels with %s", defines);
    unlink(path);
    return table;
}

static const ckv_sim_kernels_table *kernels_for(const char *defines, int small)
{
    for (int i = 0; i < variant_count; i++)
        if (variants[i].small == small && strcmp(variants[i].defines, defines) == 0)
            return variants[i].table;
    variant *v = &variants[variant_count];
    if (variant_count == VARIANTS || strlen(defines) >= sizeof v->defines)
        return NULL;
    v->table = defines[0] == '\0' ? standard_kernels(small) : compile(defines, small);
    if (v->table == NULL)
        return NULL;
    v->small = small;
    memcpy(v->defines, defines, strlen(defines) + 1);
    variant_count++;
    return v->table;
}

int64_t ckv_sim_issued(const char *name)
{
    int64_t calls = 0;
    for (int i = 0; i < variant_count; i++)
        calls += variants[i].table->issued(name);
    return calls;
}

/* ---------------------------------------------------------------- images */

static int made_ahead(const unsigned char *image)
{
    static const struct {
        const char *bytes;
        size_t size;
    } starts[] = {
        {"\x50\xed\x55\xba", 4}, /* a fatbin */
        {"\177ELF", 4},
        {"__CLANG_OFFLOAD_BUNDLE__", 24},
        {"//", 2}, /* PTX */
    };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (memcmp(image, starts[i].bytes, starts[i].size) == 0)
            return 1;
    return 0;
}

int sim_load_module(const sim_device *device, const void *image, void **module)
{
    const char *text = image, *defines = "";
    *module = NULL;
    if (image == NULL)
        return SIM_INVALID_VALUE;
    if (sim_capturing())
        return SIM_NOT_IN_CAPTURE;
    if (strncmp(text, SIM_IMAGE, strlen(SIM_IMAGE)) == 0) {
        const char *arch = text + strlen(SIM_IMAGE);
        const size_t length = strcspn(arch, "\n");
        if (strlen(device->arch) != length || strncmp(arch, device->arch, length) != 0)
            return SIM_NO_BINARY;
        defines = arch + length + 1;
    } else if (!made_ahead(image))
        return SIM_INVALID_IMAGE;
    const ckv_sim_kernels_table *table = kernels_for(defines, is_small(device));
    if (table == NULL)
        return SIM_INVALID_IMAGE;
    sim_module *m = sim_new(SIM_MODULE, sizeof *m);
    m->device = device;
    m->table = table;
    *module = m;
    return SIM_OK;
}

int sim_unload_module(void *module)
{
    sim_module *m = module;
    if (!sim_is(SIM_MODULE, module))
        return SIM_INVALID_HANDLE;
    sim_wait_all();
    while (m->functions != NULL) {
        function *f = m->functions;
        m->functions = f->next;
        free(f);
    }
    sim_delete(SIM_MODULE, module);
    return SIM_OK;
}

int sim_find_function(void *module, const char *name, void **out)
{
    sim_module *m = module;
    *out = NULL;
    if (!sim_is(SIM_MODULE, module))
        return SIM_INVALID_HANDLE;
    for (int i = 0; m->table->list[i].name != NULL; i++)
        if (strcmp(m->table->list[i].name, name) == 0) {
            function *f = calloc(1, sizeof *f);
            if (f == NULL)
                return SIM_OUT_OF_MEMORY;
            f->module = m;
            f->number = i;
            f->next = m->functions;
            m->functions = f;
            *out = f;
            return SIM_OK;
        }
    return SIM_NOT_FOUND;
}

/* ---------------------------------------------------------------- calls */

int sim_prepare_call(const sim_device *device, void *handle, const uint32_t groups[3], const uint32_t size[3],
                     void *const *arguments, sim_kernel_call **out)
{
    const function *f = handle;
    *out = NULL;
    if (f == NULL || !sim_is(SIM_MODULE, f->module) || f->module->device != device) {
        sim_complain("a kernel is launched that is not of this device");
        return SIM_INVALID_HANDLE;
    }
    const ckv_sim_kernels_table *table = f->module->table;
    const ckv_sim_kernel *kernel = &table->list[f->number];
    if (size[0] != kernel->group || size[1] != 1 || size[2] != 1 || groups[0] == 0 || groups[1] == 0 ||
        groups[2] == 0 || groups[1] > 65535 || groups[2] > 65535) {
        sim_complain("%s is launched with %u,%u,%u groups of %u,%u,%u", kernel->name, (unsigned)groups[0],
                     (unsigned)groups[1], (unsigned)groups[2], (unsigned)size[0], (unsigned)size[1], (unsigned)size[2]);
        return SIM_INVALID_VALUE;
    }
    sim_kernel_call *call = calloc(1, sizeof *call + table->parameter_bytes);
    if (call == NULL)
        return SIM_OUT_OF_MEMORY;
    call->table = table;
    call->number = f->number;
    memcpy(call->groups, groups, sizeof call->groups);
    for (int i = 0; i < kernel->buffers; i++)
        memcpy(&call->buffers[i], arguments[i], sizeof call->buffers[i]);
    memcpy(call->parameters, arguments[kernel->buffers], table->parameter_bytes);
    *out = call;
    return SIM_OK;
}

int sim_run_call(const sim_device *device, const sim_kernel_call *call)
{
    const ckv_sim_kernel *kernel = &call->table->list[call->number];
    const ckv_sim_grid grid = {
        {call->groups[0], call->groups[1], call->groups[2]}, kernel->group, device->lanes, sim_random()};
    void *reached[SIM_BUFFERS] = {NULL};
    char message[256];
    for (int i = 0; i < kernel->buffers; i++)
        if (call->buffers[i] != NULL && (reached[i] = sim_reach(device, call->buffers[i], 1)) == NULL) {
            sim_complain("%s: argument %d, %p, is not of a live block of this device", kernel->name, i,
                         call->buffers[i]);
            return SIM_ILLEGAL_ADDRESS;
        }
    if (sim_kernel_fails())
        return SIM_LAUNCH_FAILED;
    if (call->table->run(call->number, reached, call->parameters, &grid, message, sizeof message) == 0)
        return SIM_OK;
    sim_complain("%s: %s", kernel->name, message);
    return SIM_LAUNCH_FAILED;
}

const char *sim_name_call(const sim_kernel_call *call)
{
    return call->table->list[call->number].name;
}

sim_kernel_call *sim_copy_call(const sim_kernel_call *call)
{
    const size_t size = sizeof *call + call->table->parameter_bytes;
    sim_kernel_call *copy = malloc(size);
    if (copy == NULL)
        abort();
    memcpy(copy, call, size);
    return copy;
}

void sim_delete_call(sim_kernel_call *call)
{
    free(call);
}
