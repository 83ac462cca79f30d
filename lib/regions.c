/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one call, as ranges of addresses. */
#include "regions.h"

#include "status.h"

static void add(ckv_regions *regions, const char *name, const void *buffer, uintptr_t first, uintptr_t last,
                int is_output)
{
    if (first < last && regions->count < CKV_REGIONS_MAX)
        regions->list[regions->count++] = (ckv_region){name, buffer, first, last, is_output};
}

void ckv_regions_add(ckv_regions *regions, const char *name, const void *buffer, const void *data, size_t size,
                     int is_output)
{
    uintptr_t first = (uintptr_t)data;
    if (data != NULL || buffer != NULL)
        add(regions, name, buffer, first, size > UINTPTR_MAX - first ? UINTPTR_MAX : first + size, is_output);
}

void ckv_regions_add_tensor(ckv_regions *regions, const char *name, const ckv_tensor *view, int is_output)
{
    uintptr_t first = 0, last = 0;
    if (ckv_tensor_range(view, &first, &last))
        add(regions, name, view->buffer, first, last, is_output);
}

ckv_status ckv_regions_check(const ckv_regions *regions)
{
    for (int i = 0; i < regions->count; i++)
        for (int j = 0; j < regions->count; j++) {
            const ckv_region *a = &regions->list[i], *b = &regions->list[j];
            if (i != j && a->is_output && a->buffer == b->buffer && a->first < b->last && b->first < a->last)
                return ckv_fail(CKV_ERROR_STRIDE, "%s: overlaps %s, wanted memory of its own", a->name, b->name);
        }
    return CKV_OK;
}
