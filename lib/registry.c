/* SPDX-License-Identifier: Apache-2.0 */
/* The list of backends, best first. */
#include "registry.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "names.h"

/* Builds of the portable parts alone, such as those of some tests, have no GPU backend. */
#ifdef CKV_WITHOUT_GPU
#define CUDA NULL
#define HIP NULL
#define OPENCL NULL
#define WITHOUT "left out of this build"
#else
/* What configure made modules of (--enable-modules). */
#ifdef CKV_MODULE_CUDA
#define CUDA NULL
#else
#define CUDA &ckv_backend_cuda
#endif
#ifdef CKV_MODULE_HIP
#define HIP NULL
#else
#define HIP &ckv_backend_hip
#endif
#ifdef CKV_MODULE_OPENCL
#define OPENCL NULL
#else
#define OPENCL &ckv_backend_opencl
#endif
#define WITHOUT "a module of its own"
#endif

typedef struct known {
    const char *name;
    const ckv_backend *backend; /* NULL: not built in */
} known;

/* Modules of other names come between these. */
static const known before[] = {{"cuda", CUDA}, {"hip", HIP}, {"opencl", OPENCL}};
static const known after[] = {{"cpu", &ckv_backend_cpu}, {"ref", &ckv_backend_ref}};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* What came of loading a module. */
typedef struct outcome {
    const ckv_backend *backend; /* NULL with the reason */
    const ckv_backend *refused; /* whose refusal that is */
    char reason[400];
} outcome;

struct ckv_registry_entry {
    ckv_registry_entry *next;
    const char *name;
    const ckv_backend *built_in;
    const ckv_module_file *file; /* of a module */
    _Atomic(outcome *) loaded;   /* of a module that was asked for */
    const ckv_backend *refused;  /* that is built in, and whose refusal is the reason */
    char reason[500];            /* why neither is of use, "" */
};

struct ckv_registry {
    ckv_context memory; /* its allocator alone */
    ckv_registry_entry *first, **end;
    ckv_module_file *files;
    char folders[400];
};

static ckv_registry_entry *add(ckv_registry *registry, const char *name)
{
    ckv_registry_entry *entry = ckv_context_allocate(&registry->memory, sizeof *entry, "context");
    if (entry == NULL)
        return NULL;
    entry->name = name;
    atomic_init(&entry->loaded, NULL);
    *registry->end = entry;
    registry->end = &entry->next;
    return entry;
}

static ckv_module_file *file_of(ckv_registry *registry, const char *name)
{
    for (ckv_module_file *file = registry->files; file != NULL; file = file->next)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

/* The reference is what is left where all else is switched off. */
static int switched_off(const char *name)
{
    return strcmp(name, "ref") != 0 && ckv_names_hold(getenv("CKV_DISABLE"), name);
}

/* Whether what the environment asks of it cannot be had. */
static int refuses(const ckv_backend *backend, char *reason, size_t size)
{
    if (backend != NULL && backend->refusal != NULL)
        backend->refusal(reason, size);
    return reason[0] != '\0';
}

static int add_known(ckv_registry *registry, const known *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ckv_registry_entry *entry = add(registry, list[i].name);
        ckv_module_file *file = list[i].backend == NULL ? file_of(registry, list[i].name) : NULL;
        if (entry == NULL)
            return 0;
        entry->built_in = list[i].backend;
        entry->file = file;
        if (file != NULL)
            file->taken = 1;
        if (switched_off(entry->name))
            snprintf(entry->reason, sizeof entry->reason, "switched off by CKV_DISABLE");
        else if (entry->built_in == NULL && file == NULL)
            snprintf(entry->reason, sizeof entry->reason, WITHOUT ": no ckv-%s.so in %s", entry->name,
                     registry->folders[0] == '\0' ? "any folder" : registry->folders);
        else if (refuses(entry->built_in, entry->reason, sizeof entry->reason))
            entry->refused = entry->built_in;
    }
    return 1;
}

static int is_built_in(const char *name)
{
    for (size_t i = 0; i < COUNT(before); i++)
        if (before[i].backend != NULL && strcmp(before[i].name, name) == 0)
            return 1;
    for (size_t i = 0; i < COUNT(after); i++)
        if (strcmp(after[i].name, name) == 0)
            return 1;
    return 0;
}

/* Every other file has a row as well: the first of a name is the backend. */
static int add_modules(ckv_registry *registry)
{
    for (ckv_module_file *file = registry->files; file != NULL; file = file->next) {
        const ckv_module_file *first = file_of(registry, file->name);
        ckv_registry_entry *entry;
        if (file->taken)
            continue;
        entry = add(registry, file->name);
        if (entry == NULL)
            return 0;
        if (is_built_in(file->name))
            snprintf(entry->reason, sizeof entry->reason, "%s: name clash: '%s' is built into the library", file->path,
                     file->name);
        else if (strcmp(file->name, "auto") == 0)
            snprintf(entry->reason, sizeof entry->reason, "%s: name clash: 'auto' is no backend's name", file->path);
        else if (first != file)
            snprintf(entry->reason, sizeof entry->reason, "%s: name clash: '%s' is %s", file->path, file->name,
                     first->path);
        else if (switched_off(file->name))
            snprintf(entry->reason, sizeof entry->reason, "switched off by CKV_DISABLE");
        else
            entry->file = file;
    }
    return 1;
}

ckv_status ckv_registry_create(const ckv_context *context, ckv_registry **out)
{
    ckv_registry *registry = ckv_context_allocate(context, sizeof *registry, "context");
    ckv_status status;
    *out = NULL;
    if (registry == NULL)
        return CKV_ERROR_NO_MEMORY;
    registry->memory.allocate = context->allocate;
    registry->memory.release = context->release;
    registry->memory.user = context->user;
    registry->end = &registry->first;
    status = ckv_loader_find(context, &registry->files, registry->folders, sizeof registry->folders);
    if (status == CKV_OK && !(add_known(registry, before, COUNT(before)) && add_modules(registry) &&
                              add_known(registry, after, COUNT(after))))
        status = CKV_ERROR_NO_MEMORY;
    if (status == CKV_OK)
        *out = registry;
    else
        ckv_registry_destroy(registry);
    return status;
}

void ckv_registry_destroy(ckv_registry *registry)
{
    ckv_context memory;
    if (registry == NULL)
        return;
    memory = registry->memory;
    while (registry->first != NULL) {
        ckv_registry_entry *entry = registry->first;
        outcome *loaded = atomic_load(&entry->loaded);
        registry->first = entry->next;
        if (loaded != NULL)
            ckv_context_release(&memory, loaded);
        ckv_context_release(&memory, entry);
    }
    ckv_loader_forget(&memory, registry->files);
    ckv_context_release(&memory, registry);
}

ckv_registry_entry *ckv_registry_first(ckv_registry *registry)
{
    return registry->first;
}

ckv_registry_entry *ckv_registry_next(const ckv_registry_entry *entry)
{
    return entry->next;
}

const char *ckv_registry_name(const ckv_registry_entry *entry)
{
    return entry->name;
}

/* Threads that come at the same time each load it, which gives the same; the first one's
 * outcome stays.  No lock, so that a child forked meanwhile does not wait for one. */
static const outcome *load(ckv_registry *registry, ckv_registry_entry *entry)
{
    outcome *known_outcome = atomic_load(&entry->loaded), *mine;
    if (known_outcome != NULL)
        return known_outcome;
    mine = ckv_context_allocate(&registry->memory, sizeof *mine, "context");
    if (mine == NULL)
        return NULL;
    mine->backend = ckv_loader_open(entry->file, mine->reason, sizeof mine->reason);
    if (mine->backend != NULL && refuses(mine->backend, mine->reason, sizeof mine->reason)) {
        mine->refused = mine->backend;
        mine->backend = NULL;
    }
    if (atomic_compare_exchange_strong(&entry->loaded, &known_outcome, mine))
        return mine;
    ckv_context_release(&registry->memory, mine);
    return known_outcome;
}

const ckv_backend *ckv_registry_backend(ckv_registry *registry, ckv_registry_entry *entry, const char **reason)
{
    const outcome *loaded;
    *reason = entry->reason;
    if (entry->reason[0] != '\0')
        return NULL;
    if (entry->built_in != NULL)
        return entry->built_in;
    loaded = load(registry, entry);
    *reason = loaded == NULL ? "out of memory" : loaded->reason;
    return loaded == NULL ? NULL : loaded->backend;
}

const ckv_backend *ckv_registry_refused(ckv_registry *registry, ckv_registry_entry *entry)
{
    const char *reason;
    const outcome *loaded;
    if (ckv_registry_backend(registry, entry, &reason) != NULL)
        return NULL;
    loaded = atomic_load(&entry->loaded);
    return loaded == NULL ? entry->refused : loaded->refused;
}
