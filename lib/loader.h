/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: files ckv-NAME.so in some folders, found by their names and opened one by one. */
#ifndef CKV_LIB_LOADER_H
#define CKV_LIB_LOADER_H

#include "module.h"

#define CKV_MODULE_NAME_MAX 32 /* with its NUL */

typedef struct ckv_module_file {
    struct ckv_module_file *next;
    char name[CKV_MODULE_NAME_MAX];
    int taken;   /* for the registry's use */
    char path[]; /* as it is opened */
} ckv_module_file;

/* The files in the folders of CKV_MODULE_PATH and then in the library's own, in the folders'
 * order and by name within each; nothing is opened.  In memory of the context.
 * `folders`, of `size` bytes, gets the folders, for messages. */
ckv_status ckv_loader_find(const ckv_context *context, ckv_module_file **files, char *folders, size_t size);
void ckv_loader_forget(const ckv_context *context, ckv_module_file *files);

/* Opens it, for good: its backend, or NULL with the reason, which names the file.  May be
 * called any number of times and from any thread. */
const ckv_backend *ckv_loader_open(const ckv_module_file *file, char *reason, size_t size);

#endif
