/* SPDX-License-Identifier: Apache-2.0 */
/* Moving kept rows together, byte for byte (spec 7). */
#include <string.h>

#include "ref.h"

/* Also in place: rows ascend and go to no higher row, so none is overwritten before
 * it is moved, and a row that stays is copied onto itself. */
void ckv_ref_compact(const ckv_plan *plan, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to)
{
    size_t size = ckv_dtype_size(from->dtype);
    for (int64_t g = 0; g < plan->kv_heads; g++)
        for (int64_t i = 0; i < plan->budget; i++) {
            int64_t row = kept->positions[kept->offsets[g] + i];
            for (int64_t c = 0; c < from->shape[2]; c++)
                memmove(ckv_at(to, g, i, c), ckv_at(from, g, row, c), size);
        }
}
