/* SPDX-License-Identifier: Apache-2.0 */
/* The table of backends and their devices, and a context's choice of one. */
#ifndef CKV_LIB_DEVICES_H
#define CKV_LIB_DEVICES_H

#include "context.h"

/* Rows of the table.  Asks every backend, and so loads every driver there is. */
int32_t ckv_devices_count(void);

/* Row `index` of the table, as it is to a context: what this one failed to open is not
 * available.  NULL: to any. */
void ckv_devices_describe(const ckv_context *context, int32_t index, ckv_device_info *info);

/* Settles the context's backend and device, and opens it.  Loads the driver of a backend
 * asked for by name and no other. */
ckv_status ckv_devices_choose(ckv_context *context, const ckv_context_options *options);

#endif
