/* SPDX-License-Identifier: Apache-2.0 */
/* Forced entries, stage 1, stage 2 (spec 6). */
#include "lib/numeric.h"
#include "lib/sizes.h"
#include "ref.h"

#define NOT_KEPT 255

#define ATTENTION_MAX 0x1p20f
#define NORM_MAX 0x1p106f
#define NORM_MIN 0x1p-100f

/* One head's ranks, and why each position is kept. */
size_t ckv_ref_select_workspace(const ckv_plan *plan)
{
    size_t total = 0;
    return ckv_add_block(&total, sizeof(uint32_t) + 1, (size_t)plan->tokens) ? total : 0;
}

/* Spec 6.2: the last `recent`, latest first, then the sinks, until the budget is full. */
static void keep_forced(const ckv_plan *plan, uint8_t *stage)
{
    int64_t left = plan->budget;
    for (int64_t i = plan->tokens - 1; i >= plan->tokens - plan->recent && left > 0; i--, left--)
        stage[i] = CKV_KEPT_FORCED;
    for (int64_t i = 0; i < plan->sinks && left > 0; i++, left--)
        stage[i] = CKV_KEPT_FORCED;
}

static int64_t count_from(const ckv_plan *plan, const uint32_t *rank, const uint8_t *stage, uint32_t least)
{
    int64_t count = 0;
    for (int64_t i = 0; i < plan->tokens; i++)
        if (stage[i] == NOT_KEPT && rank[i] >= least)
            count++;
    return count;
}

/* Spec 6.1: keeps the `count` greatest ranks among those not kept yet, equal ranks
 * by position.  The cut is the greatest rank that at least `count` reach, found bit
 * by bit. */
static void keep_greatest(const ckv_plan *plan, const uint32_t *rank, int64_t count, uint8_t reason, uint8_t *stage)
{
    uint32_t cut = 0;
    if (count <= 0)
        return;
    for (int bit = 31; bit >= 0; bit--)
        if (count_from(plan, rank, stage, cut | (1u << bit)) >= count)
            cut |= 1u << bit;
    for (int64_t i = 0; i < plan->tokens; i++)
        if (stage[i] == NOT_KEPT && rank[i] > cut) {
            stage[i] = reason;
            count--;
        }
    for (int64_t i = 0; i < plan->tokens && count > 0; i++)
        if (stage[i] == NOT_KEPT && rank[i] == cut) {
            stage[i] = reason;
            count--;
        }
}

/* Spec 6.4: the rank by which stage 2 orders, from attention and norm of any origin. */
static uint32_t stage2_rank(const ckv_plan *plan, float attention, float norm)
{
    if (ckv_is_nan_bits(ckv_bits(attention)) || ckv_is_nan_bits(ckv_bits(norm)))
        return 0;
    if (attention < 0x1p-126f)
        attention = 0.0f;
    if (attention > ATTENTION_MAX)
        attention = ATTENTION_MAX;
    if (norm < NORM_MIN)
        norm = 0.0f;
    if (norm > NORM_MAX)
        norm = NORM_MAX;
    float sum = attention + plan->epsilon;
    return ckv_rank_bits(ckv_bits(sum * norm));
}

static int64_t write_kept(const ckv_plan *plan, const uint8_t *stage, const ckv_kept *kept, int64_t at)
{
    for (int64_t i = 0; i < plan->tokens; i++)
        if (stage[i] != NOT_KEPT) {
            kept->positions[at] = (int32_t)i;
            if (kept->stages != NULL)
                kept->stages[at] = stage[i];
            at++;
        }
    return at;
}

uint32_t ckv_ref_select(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept,
                        void *workspace)
{
    uint32_t *rank = workspace, flags = 0;
    uint8_t *stage = (uint8_t *)(rank + plan->tokens);
    int64_t at = 0;
    kept->offsets[0] = 0;
    for (int64_t g = 0; g < plan->kv_heads; g++) {
        for (int64_t i = 0; i < plan->tokens; i++) {
            uint32_t a = ckv_bits(ckv_ref_get(attention, g, i));
            stage[i] = NOT_KEPT;
            rank[i] = ckv_rank_bits(a);
            if (ckv_is_nonfinite_bits(a))
                flags |= CKV_NONFINITE_ATTENTION;
            if (ckv_is_nonfinite_bits(ckv_bits(ckv_ref_get(norm, g, i))))
                flags |= CKV_NONFINITE_NORM;
        }
        keep_forced(plan, stage);
        keep_greatest(plan, rank, plan->stage1 - plan->forced, CKV_KEPT_STAGE1, stage);
        for (int64_t i = 0; i < plan->tokens; i++)
            rank[i] = stage2_rank(plan, ckv_ref_get(attention, g, i), ckv_ref_get(norm, g, i));
        keep_greatest(plan, rank, ckv_plan_stage2_slots(plan), CKV_KEPT_STAGE2, stage);
        at = write_kept(plan, stage, kept, at);
        kept->offsets[g + 1] = (int32_t)at;
    }
    return flags;
}
