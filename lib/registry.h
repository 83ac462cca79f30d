/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of backends as a context has it: those built in, the modules that were there
 * when it was made, and those that are neither.  A backend is loaded when it is first
 * asked for, and no other with it.
 */
#ifndef CKV_LIB_REGISTRY_H
#define CKV_LIB_REGISTRY_H

#include "backend.h"

typedef struct ckv_registry ckv_registry;
typedef struct ckv_registry_entry ckv_registry_entry;

/* In memory of the context, whose allocator it keeps. */
ckv_status ckv_registry_create(const ckv_context *context, ckv_registry **registry);
void ckv_registry_destroy(ckv_registry *registry);

/* Best first; "auto" goes by their devices' ranks first, then by this order.  NULL ends it. */
ckv_registry_entry *ckv_registry_first(ckv_registry *registry);
ckv_registry_entry *ckv_registry_next(const ckv_registry_entry *entry);

const char *ckv_registry_name(const ckv_registry_entry *entry);

/* The backend, loaded if need be, or NULL with why it cannot be used at all; that text
 * lives as long as the registry.  From any thread. */
const ckv_backend *ckv_registry_backend(ckv_registry *registry, ckv_registry_entry *entry, const char **reason);

/* The backend where its own refusal (backend.h) is that reason, else NULL. */
const ckv_backend *ckv_registry_refused(ckv_registry *registry, ckv_registry_entry *entry);

#endif
