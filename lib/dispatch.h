/* SPDX-License-Identifier: Apache-2.0 */
/* A context's choice of backend and device. */
#ifndef CKV_LIB_DISPATCH_H
#define CKV_LIB_DISPATCH_H

#include "context.h"

/* Settles the context's backend and device, and opens it.  Loads a backend asked for by
 * name and no other, unless that fails and the message lists what there is. */
ckv_status ckv_dispatch(ckv_context *context, const ckv_context_options *options);

#endif
