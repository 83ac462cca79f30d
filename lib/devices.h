/* SPDX-License-Identifier: Apache-2.0 */
/* The table of backends and their devices. */
#ifndef CKV_LIB_DEVICES_H
#define CKV_LIB_DEVICES_H

#include "context.h"
#include "registry.h"

/* Rows of a backend's own: one that cannot be used has one, as has one without devices. */
int32_t ckv_devices_rows(const ckv_backend *backend);

/* Row `device` of a backend's own, as it is to a context: what this one failed to open is
 * not available.  Loads the backend. */
void ckv_devices_row(const ckv_context *context, ckv_registry_entry *entry, int32_t device, ckv_device_info *info);

/* Goes over all rows; loads every backend and with it every driver there is.  `visit`
 * returns 0 to end it. */
void ckv_devices_each(const ckv_context *context, int (*visit)(void *argument, const ckv_device_info *info),
                      void *argument);

#endif
