/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU backend: the specification's integers and float chains over threads and
 * vector units.  The stages (score.c, norm.c, select.c, compact.c) and what puts them
 * together (evict.c) are written once; what an instruction set does better stands in its
 * kernels_*.c behind one table.
 */
#ifndef CKV_BACKENDS_CPU_H
#define CKV_BACKENDS_CPU_H

#include "kernels.h"
#include "lib/backend.h"
#include "threads.h"

/* The instruction set that the plan's context chose. */
static inline const ckv_cpu_kernels *ckv_cpu_kernels_of(const ckv_plan *plan)
{
    return plan->context->backend_state;
}

/* Bytes shared by all workers, bytes of each worker's own scratch, and work items, above
 * which there are never more workers. */
typedef struct ckv_cpu_sizes {
    size_t shared, worker, items;
} ckv_cpu_sizes;

int ckv_cpu_score_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes);
int ckv_cpu_norm_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes);
int ckv_cpu_select_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes);

uint32_t ckv_cpu_score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                       const ckv_tensor *attention, void *workspace);
uint32_t ckv_cpu_norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                      const ckv_tensor *norm, void *workspace);
uint32_t ckv_cpu_select(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept,
                        void *workspace);
void ckv_cpu_compact(const ckv_plan *plan, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to);

/* A group's query heads in parts, for rows of V whose norm is made part by part. */
#define CKV_CPU_PARTS_MAX 4

static inline int64_t ckv_cpu_part_start(const ckv_plan *plan, int32_t parts, int32_t part)
{
    return part * plan->group / parts;
}

/* Rows of V that are to have one part more. */
typedef struct ckv_cpu_lists {
    int32_t parts;
    const int32_t *rows;   /* [Hkv][n] of a head, those of part 0 first, then those of part 1, ... */
    const int64_t *starts; /* [Hkv][parts + 1] and there they start */
    float *sums;           /* [Hkv][n] of the norms of the parts that a row has */
} ckv_cpu_lists;

/* The norms of the rows whose last part is listed, and the sums of the others; the rest stays as it is. */
void ckv_cpu_norm_of(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                     const ckv_tensor *norm, const ckv_cpu_lists *lists, void *workspace);

/* Selects for the KV heads whose `idle` is 0; the others' kept set stays as it is. */
void ckv_cpu_select_some(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm,
                         const ckv_kept *kept, const uint8_t *idle, void *workspace);

/* The projection in panels (spec 5.1 fixes its numbers; the layout is free). */
size_t ckv_cpu_panels_size(const ckv_context *context, const ckv_projection *projection);
void ckv_cpu_panels_make(const ckv_context *context, const ckv_projection *projection, void *memory);

#endif
