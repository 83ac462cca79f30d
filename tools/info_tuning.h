/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `ckv info` that is about tuning. */
#ifndef CKV_TOOLS_INFO_TUNING_H
#define CKV_TOOLS_INFO_TUNING_H

#include <ckv/ckv.h>

#include <jansson.h>
#include <stdbool.h>

/* Every tunable of the context's backend, what it is for a layer of usual sizes, who said
 * so; and the tuning files.  False after one error line. */
bool info_print_tuning(const ckv_context *context);

/* The same; NULL after one error line. */
json_t *info_tuning_object(const ckv_context *context);

#endif
