/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: the folders, the files in them, and one opened and checked. */
#define _GNU_SOURCE /* dladdr */
#include "loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "status.h"
#include "version.h"

#define PREFIX "ckv-"
#define SUFFIX ".so"
#define OWN_FOLDER "ckv"
#define FOLDER_MAX 4096 /* longer ones are passed over */

/* ------------------------------------------------------------------ files */

/* NAME of "ckv-NAME.so": small letters, digits and '_'.  0 for any other file. */
static int name_of(const char *file, char name[CKV_MODULE_NAME_MAX])
{
    const size_t length = strlen(file), around = sizeof PREFIX - 1 + sizeof SUFFIX - 1;
    size_t inner;
    if (length <= around || strncmp(file, PREFIX, sizeof PREFIX - 1) != 0 ||
        strcmp(file + length - (sizeof SUFFIX - 1), SUFFIX) != 0)
        return 0;
    inner = length - around;
    if (inner >= CKV_MODULE_NAME_MAX)
        return 0;
    memcpy(name, file + sizeof PREFIX - 1, inner);
    name[inner] = '\0';
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == inner;
}

static ckv_status add_file(const ckv_context *context, ckv_module_file **folder_start, const char *folder,
                           const char *file)
{
    char name[CKV_MODULE_NAME_MAX];
    ckv_module_file *found, **at = folder_start;
    size_t size;
    if (!name_of(file, name))
        return CKV_OK;
    size = strlen(folder) + 1 + strlen(file) + 1;
    found = ckv_context_allocate(context, sizeof *found + size, "context");
    if (found == NULL)
        return CKV_ERROR_NO_MEMORY;
    memcpy(found->name, name, sizeof name);
    snprintf(found->path, size, "%s/%s", folder, file);
    while (*at != NULL && strcmp((*at)->name, name) < 0)
        at = &(*at)->next;
    found->next = *at;
    *at = found;
    return CKV_OK;
}

/* A folder that cannot be read has no modules. */
static ckv_status add_folder(const ckv_context *context, ckv_module_file **files, const char *folder)
{
    DIR *listing = opendir(folder);
    const struct dirent *item;
    ckv_status status = CKV_OK;
    while (*files != NULL)
        files = &(*files)->next;
    while (listing != NULL && status == CKV_OK && (item = readdir(listing)) != NULL)
        status = add_file(context, files, folder, item->d_name);
    if (listing != NULL)
        closedir(listing);
    return status;
}

/* ------------------------------------------------------------------ folders */

/* OWN_FOLDER beside the file that this code was loaded from, wherever that is now.  0 in a
 * program that has the library inside, whose folder is no place for modules. */
static int own_folder(char *folder, size_t size)
{
#ifdef PIC
    Dl_info here;
    char *file, *slash;
    int length = 0;
    if (dladdr(&ckv_core_functions, &here) == 0 || here.dli_fname == NULL)
        return 0;
    file = realpath(here.dli_fname, NULL);
    slash = file == NULL ? NULL : strrchr(file, '/');
    if (slash != NULL)
        length = snprintf(folder, size, "%.*s/" OWN_FOLDER, (int)(slash - file), file);
    free(file);
    return length > 0 && (size_t)length < size;
#else
    (void)folder;
    (void)size;
    return 0;
#endif
}

/* Of a program that runs with another user's rights the environment is not to be trusted. */
static const char *path_variable(void)
{
    return getuid() == geteuid() && getgid() == getegid() ? getenv("CKV_MODULE_PATH") : NULL;
}

static void note_folder(char *folders, size_t size, const char *folder)
{
    size_t used = strlen(folders);
    snprintf(folders + used, size - used, "%s%s", used == 0 ? "" : ":", folder);
}

ckv_status ckv_loader_find(const ckv_context *context, ckv_module_file **files, char *folders, size_t size)
{
    const char *path = path_variable();
    char folder[FOLDER_MAX];
    ckv_status status = CKV_OK;
    *files = NULL;
    folders[0] = '\0';
    while (path != NULL && *path != '\0' && status == CKV_OK) {
        const size_t length = strcspn(path, ":");
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, path, length);
            folder[length] = '\0';
            note_folder(folders, size, folder);
            status = add_folder(context, files, folder);
        }
        path += length + (path[length] == ':');
    }
    if (status == CKV_OK && own_folder(folder, sizeof folder)) {
        note_folder(folders, size, folder);
        status = add_folder(context, files, folder);
    }
    if (status != CKV_OK) {
        ckv_loader_forget(context, *files);
        *files = NULL;
    }
    return status;
}

void ckv_loader_forget(const ckv_context *context, ckv_module_file *files)
{
    while (files != NULL) {
        ckv_module_file *next = files->next;
        ckv_context_release(context, files);
        files = next;
    }
}

/* ------------------------------------------------------------------ one module */

#define NEEDS(table, member)                                                                                           \
    if ((table)->member == NULL)                                                                                       \
    return #member

static const char *lacks_of_tunable(const ckv_tunable *t)
{
    NEEDS(t, stage);
    NEEDS(t, name);
    NEEDS(t, meaning);
    NEEDS(t, values);
    if (t->count < 1)
        return "values";
    for (int32_t i = 0; t->labels != NULL && i < t->count; i++)
        if (t->labels[i] == NULL)
            return "labels";
    return NULL;
}

/* The first of what the core takes to be there and the table lacks, or NULL. */
static const char *lacks(const ckv_backend *b)
{
    NEEDS(b, device_count);
    NEEDS(b, device_name);
    NEEDS(b, context_device_name);
    NEEDS(b, device_reason);
    NEEDS(b, device_rank);
    NEEDS(b, workspace_size);
    if (b->tunable_count < 0 || b->tunable_count > CKV_TUNABLES_MAX)
        return "tunable_count in its range";
    if (b->tunable_count > 0) {
        NEEDS(b, tunables);
        NEEDS(b, tunable_model);
    }
    for (int32_t i = 0; i < b->tunable_count; i++) {
        const char *missing = lacks_of_tunable(&b->tunables[i]);
        if (missing != NULL)
            return missing;
    }
    if (b->device != NULL) {
        NEEDS(b->device, score);
        NEEDS(b->device, norm);
        NEEDS(b->device, select);
        NEEDS(b->device, compact);
        NEEDS(b->device, evict);
        NEEDS(b->device, open_projection);
        NEEDS(b->device, close_projection);
        NEEDS(b->device, measure);
        return NULL;
    }
    if (b->projection_pack != NULL)
        NEEDS(b, projection_size);
    if (b->projection_size != NULL)
        NEEDS(b, projection_pack);
    NEEDS(b, score);
    NEEDS(b, norm);
    NEEDS(b, select);
    NEEDS(b, compact);
    NEEDS(b, evict);
    return NULL;
}
#undef NEEDS

/* What does not fit before any of its functions runs: 1, or 0 with the reason. */
static int fits(const ckv_module *module, const char *name, char *why, size_t size)
{
    static const ckv_module_sizes sizes = CKV_MODULE_SIZES;
    if (module == NULL)
        snprintf(why, size, "no " CKV_MODULE_SYMBOL ": not a module of libckv");
    else if (module->abi != CKV_MODULE_ABI)
        snprintf(why, size, "module ABI %u (libckv %.40s), wanted %u (libckv %s)", (unsigned)module->abi,
                 module->version == NULL ? "?" : module->version, (unsigned)CKV_MODULE_ABI, CKV_VERSION_TEXT);
    else if (memcmp(&module->sizes, &sizes, sizeof sizes) != 0)
        snprintf(why, size, "built with other structs (libckv %.40s), wanted those of libckv %s",
                 module->version == NULL ? "?" : module->version, CKV_VERSION_TEXT);
    else if (module->name == NULL || strcmp(module->name, name) != 0)
        snprintf(why, size, "holds backend '%.40s', wanted '%s' as the file is named",
                 module->name == NULL ? "" : module->name, name);
    else if (module->start == NULL)
        snprintf(why, size, "no function to start it");
    else
        return 1;
    return 0;
}

static const ckv_backend *start(const ckv_module *module, char *why, size_t size)
{
    const ckv_backend *backend = module->start(&ckv_core_functions, why, size);
    const char *missing;
    if (backend == NULL) {
        if (why[0] == '\0')
            snprintf(why, size, "did not start");
        return NULL;
    }
    missing = backend->name == NULL || strcmp(backend->name, module->name) != 0 ? "name" : lacks(backend);
    if (missing == NULL)
        return backend;
    snprintf(why, size, "its table lacks %s", missing);
    return NULL;
}

/* The loader's message mostly begins with the path. */
static void say(char *reason, size_t size, const char *path, const char *why)
{
    const size_t length = strlen(path), most = size / 2;
    if (strncmp(why, path, length) == 0)
        why += length + strspn(why + length, ": ");
    if (length <= most)
        snprintf(reason, size, "%s: %s", path, why);
    else
        snprintf(reason, size, "...%s: %s", path + length - most, why);
}

/* 0 with the reason for what would stop dlopen for ever (a pipe) or end the process in it: a
 * file whose end is missing, which it maps all the same.  What it tells by itself is left to it. */
static int is_whole(const char *path, char *why, size_t size)
{
    struct stat status;
    ElfW(Ehdr) head;
    int whole = 1, file;
    if (stat(path, &status) != 0)
        return 1;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        snprintf(why, size, "a pipe, socket or device, wanted a file");
        return 0;
    }
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 1;
    if (pread(file, &head, sizeof head, 0) == (ssize_t)sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
        head.e_phentsize == sizeof(ElfW(Phdr)))
        for (int i = 0; whole && i < head.e_phnum; i++) {
            ElfW(Phdr) part;
            const off_t at = (off_t)(head.e_phoff + (size_t)i * sizeof part);
            whole = pread(file, &part, sizeof part, at) == (ssize_t)sizeof part &&
                    part.p_filesz <= (uint64_t)status.st_size &&
                    part.p_offset <= (uint64_t)status.st_size - part.p_filesz;
        }
    close(file);
    if (!whole)
        snprintf(why, size, "the end of the file is missing");
    return whole;
}

const ckv_backend *ckv_loader_open(const ckv_module_file *file, char *reason, size_t size)
{
    const ckv_backend *backend;
    const ckv_module *module;
    char why[300] = "";
    void *handle;
    if (!is_whole(file->path, why, sizeof why)) {
        say(reason, size, file->path, why);
        return NULL;
    }
    handle = dlopen(file->path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *text = dlerror();
        say(reason, size, file->path, text == NULL ? "cannot be loaded" : text);
        return NULL;
    }
    module = dlsym(handle, CKV_MODULE_SYMBOL);
    if (!fits(module, file->name, why, sizeof why)) {
        dlclose(handle);
        say(reason, size, file->path, why);
        return NULL;
    }
    /* Never closed from here on: others may use it, and so may what it started. */
    backend = start(module, why, sizeof why);
    if (backend == NULL)
        say(reason, size, file->path, why);
    return backend;
}
