/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbol of a module, for a source file of two lines. */
#ifndef CKV_BACKENDS_MODULE_ENTRY_H
#define CKV_BACKENDS_MODULE_ENTRY_H

#include <stdio.h>

#include "lib/module.h"
#include "lib/version.h"

/* Takes the core's table; 0 where the module already serves another copy of the library,
 * whose error messages it would mix up with this one's. */
int ckv_forward_to(const ckv_core *core);

#define CKV_MODULE(text, table)                                                                                        \
    static const ckv_backend *start_module(const ckv_core *core, char *reason, size_t size)                            \
    {                                                                                                                  \
        if (ckv_forward_to(core))                                                                                      \
            return &(table);                                                                                           \
        snprintf(reason, size, "in use by another copy of libckv in this process");                                    \
        return NULL;                                                                                                   \
    }                                                                                                                  \
    CKV_API extern const ckv_module ckv_module_entry;                                                                  \
    const ckv_module ckv_module_entry = {.abi = CKV_MODULE_ABI,                                                        \
                                         .version = CKV_VERSION_TEXT,                                                  \
                                         .sizes = CKV_MODULE_SIZES,                                                    \
                                         .name = text,                                                                 \
                                         .start = start_module}

#endif
