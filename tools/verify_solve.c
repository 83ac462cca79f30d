/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the stages of a problem, and takes what they wrote out of the memory they wrote it to. */
#include "verify_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One context's run of one problem. */
struct session {
    const struct verify_problem *p;
    enum verify_manner manner;
    ckv_plan *plan;
    ckv_projection *projection;
    ckv_plan_info info;
    struct verify_memory input[VERIFY_INPUTS], workspace;
    ckv_run run;
};

static unsigned char fill_of(enum verify_manner manner)
{
    return manner == VERIFY_PLAIN ? 0x5a : 0xa5;
}

/* ------------------------------------------------------------------ opening */

static bool place_input(struct session *s, enum verify_input input)
{
    static const struct verify_place plain = {ARRANGE_DENSE, 0};
    int64_t extent[3];

    verify_extents(s->p, input, extent);
    if (!verify_memory_place(&s->input[input], s->manner == VERIFY_PLAIN ? &plain : &s->p->place[input],
                             ckv_dtype_size(s->p->dtype[input]), extent, fill_of(s->manner)))
        return false;
    verify_memory_put(&s->input[input], s->p->cells[input]);
    verify_memory_remember(&s->input[input]);
    return true;
}

static ckv_tensor view_of(const struct session *s, enum verify_input input)
{
    return verify_memory_view(&s->input[input], s->p->dtype[input], input < VERIFY_WEIGHT ? 3 : 2);
}

/* CKV_OK, or what the library says; *memory becomes false when there is none. */
static ckv_status open_session(struct session *s, const ckv_context *context, unsigned stages, bool *memory)
{
    const struct verify_problem *p = s->p;
    const ckv_shape shape = verify_shape(p);
    ckv_status status = CKV_OK;

    /* Compact lays out its rows itself. */
    for (int i = 0; *memory && i < VERIFY_INPUTS; i++)
        if (verify_reads(p, stages & ~(1u << VERIFY_COMPACT), (enum verify_input)i) && p->cells[i] != NULL)
            *memory = place_input(s, (enum verify_input)i);
    if (!*memory)
        return CKV_OK;
    if (s->input[VERIFY_WEIGHT].memory != NULL) {
        ckv_tensor weight = view_of(s, VERIFY_WEIGHT);

        status = ckv_projection_create(context, &weight, shape.query_heads, shape.value_dim, &s->projection);
    }
    if (status == CKV_OK)
        status = ckv_plan_create(context, &shape, &p->policy, &s->plan);
    s->info.struct_size = sizeof s->info;
    if (status == CKV_OK)
        status = ckv_plan_query(s->plan, &s->info);
    if (status == CKV_OK) {
        *memory =
            verify_memory_new(&s->workspace, s->info.workspace, s->manner == VERIFY_PLAIN ? 0 : 4, fill_of(s->manner));
        ckv_run_init(&s->run, s->workspace.data, s->info.workspace);
    }
    return status;
}

static void close_session(struct session *s)
{
    ckv_plan_destroy(s->plan);
    ckv_projection_destroy(s->projection);
    for (int i = 0; i < VERIFY_INPUTS; i++)
        verify_memory_free(&s->input[i]);
    verify_memory_free(&s->workspace);
}

/* ------------------------------------------------------------------ results */

static bool add_block(struct verify_result *result, int at, const char *name, size_t unit, const int64_t extent[3])
{
    struct verify_block *block = &result->block[at];

    block->name = name;
    block->unit = unit;
    memcpy(block->extent, extent, sizeof block->extent);
    block->cells = malloc((size_t)(extent[0] * extent[1] * extent[2]) * unit + 1);
    return block->cells != NULL;
}

static void fail(struct verify_result *result, ckv_status status)
{
    result->done = true;
    result->status = status;
    snprintf(result->detail, sizeof result->detail, "%s", ckv_error_detail());
}

/* What every stage leaves behind; a stray write is named by whose memory it was. */
static void finish(struct session *s, struct verify_result *result, ckv_status status)
{
    const unsigned char *work = s->workspace.memory;
    const size_t red = VERIFY_RED, end = s->workspace.whole - red;

    fail(result, status);
    if (status == CKV_OK)
        result->detail[0] = '\0';
    result->flags = s->run.flags;
    for (size_t i = 0; i < red; i++)
        if (work[i] != fill_of(s->manner) || work[end + i] != fill_of(s->manner))
            result->stray = "the workspace's surroundings";
    for (int i = 0; i < VERIFY_INPUTS; i++)
        if (s->input[i].memory != NULL && !verify_memory_unchanged(&s->input[i])) {
            result->stray = verify_input_names[i];
            verify_memory_restore(&s->input[i], s->input[i].extent[1]);
        }
    memset(s->workspace.data, fill_of(s->manner), s->info.workspace);
}

static const struct verify_place *place_of(const struct session *s, enum verify_output to)
{
    static const struct verify_place plain = {ARRANGE_DENSE, 0};

    return s->manner == VERIFY_PLAIN ? &plain : &s->p->to[to];
}

/* Takes the first rows out of an output, and looks whether anything else changed. */
static bool collect(struct verify_memory *m, int64_t rows, struct verify_result *result, const char *name)
{
    const int64_t extent[3] = {m->extent[0], rows, m->extent[2]};

    if (!add_block(result, 0, name, m->unit, extent))
        return false;
    verify_memory_get(m, rows, result->block[0].cells);
    verify_memory_restore(m, rows);
    if (!verify_memory_unchanged(m))
        result->stray = "what lies around the output's elements";
    return true;
}

/* ------------------------------------------------------------------ stages */

/* Attention or norm: one number for each position. */
static bool solve_numbers(struct session *s, enum verify_stage stage, struct verify_result *result)
{
    const bool score = stage == VERIFY_SCORE;
    const int64_t extent[3] = {1, s->p->axis[VERIFY_KV_HEADS], s->p->axis[VERIFY_TOKENS]};
    struct verify_memory m = {0};
    ckv_tensor one = view_of(s, score ? VERIFY_QUERY : VERIFY_VALUE), two, to;
    ckv_status status;
    bool good = verify_memory_place(&m, place_of(s, score ? VERIFY_TO_ATTENTION : VERIFY_TO_NORM), sizeof(float),
                                    extent, fill_of(s->manner));

    if (good) {
        verify_memory_remember(&m);
        to = verify_memory_view(&m, CKV_F32, 2);
        if (score) {
            two = view_of(s, VERIFY_KEY);
            status = ckv_score(s->plan, &one, &two, &to, &s->run);
        } else {
            status = ckv_norm(s->plan, &one, s->projection, &to, &s->run);
            result->computed = s->run.exact_norms;
        }
        finish(s, result, status);
        if (!score)
            result->flags |= ckv_projection_flags(s->projection);
        good = status != CKV_OK || collect(&m, extent[1], result, score ? "attention" : "norm");
    }
    verify_memory_free(&m);
    return good;
}

/* Memory of a selection: as much as is needed, and more than that. */
struct kept {
    struct verify_memory positions, offsets, stages;
    ckv_selection selection;
};

static bool new_kept(const struct session *s, const ckv_plan_info *info, struct kept *kept)
{
    const size_t count = (size_t)info->positions, heads = (size_t)s->p->axis[VERIFY_KV_HEADS] + 1;
    const unsigned char fill = fill_of(s->manner);

    memset(kept, 0, sizeof *kept);
    if (!verify_memory_new(&kept->positions, (count + 5) * sizeof(int32_t), 0, fill) ||
        !verify_memory_new(&kept->offsets, heads * sizeof(int32_t), 0, fill) ||
        !verify_memory_new(&kept->stages, count + 5, 0, fill))
        return false;
    ckv_selection_init(&kept->selection, (int32_t *)(void *)kept->positions.data, info->positions + 5,
                       (int32_t *)(void *)kept->offsets.data);
    kept->selection.stages = kept->stages.data;
    verify_memory_remember(&kept->positions);
    verify_memory_remember(&kept->offsets);
    verify_memory_remember(&kept->stages);
    return true;
}

static void free_kept(struct kept *kept)
{
    verify_memory_free(&kept->positions);
    verify_memory_free(&kept->offsets);
    verify_memory_free(&kept->stages);
}

/* Moves a list out of its memory. */
static bool take_list(struct verify_memory *m, struct verify_result *result, int at, const char *name, size_t unit,
                      int64_t count)
{
    const size_t bytes = (size_t)count * unit;
    const int64_t extent[3] = {1, 1, count};

    if (!add_block(result, at, name, unit, extent))
        return false;
    memcpy(result->block[at].cells, m->data, bytes);
    memcpy(m->data, m->before + (m->data - m->memory), bytes);
    if (!verify_memory_unchanged(m))
        result->stray = "what lies around the selection";
    return true;
}

/* Select from scores that are given, or the whole pipeline. */
static bool solve_kept(struct session *s, enum verify_stage stage, struct verify_result *result)
{
    const int64_t count = s->info.positions, heads = s->p->axis[VERIFY_KV_HEADS] + 1;
    struct kept kept;
    ckv_tensor in[3];
    ckv_status status;
    bool good = new_kept(s, &s->info, &kept);

    if (good && stage == VERIFY_SELECT) {
        in[0] = view_of(s, VERIFY_ATTENTION);
        in[1] = view_of(s, VERIFY_NORMS);
        status = ckv_select(s->plan, &in[0], &in[1], &kept.selection, &s->run);
        finish(s, result, status);
    } else if (good) {
        for (int i = 0; i < 3; i++)
            in[i] = view_of(s, (enum verify_input)(VERIFY_QUERY + i));
        status = ckv_evict(s->plan, &in[0], &in[1], &in[2], s->projection, &kept.selection, &s->run);
        finish(s, result, status);
        result->flags |= ckv_projection_flags(s->projection);
    }
    if (good && result->status == CKV_OK)
        good = take_list(&kept.positions, result, 0, "kept", sizeof(int32_t), count) &&
               take_list(&kept.offsets, result, 1, "offset", sizeof(int32_t), heads) &&
               take_list(&kept.stages, result, 2, "stage", 1, count);
    free_kept(&kept);
    return good;
}

/* What the reference keeps, by the scores as they lie densely. */
static bool select_rows(const ckv_context *reference, const struct session *s, struct kept *kept)
{
    struct session plain = {.p = s->p, .manner = VERIFY_PLAIN};
    ckv_status status;
    bool good = true;

    memset(kept, 0, sizeof *kept);
    status = open_session(&plain, reference, 1u << VERIFY_SELECT, &good);
    if (good && status == CKV_OK)
        good = new_kept(s, &plain.info, kept);
    if (good && status == CKV_OK) {
        ckv_tensor attention = view_of(&plain, VERIFY_ATTENTION), norm = view_of(&plain, VERIFY_NORMS);

        status = ckv_select(plain.plan, &attention, &norm, &kept->selection, &plain.run);
    }
    close_session(&plain);
    return good;
}

static bool solve_compact(struct session *s, const ckv_context *reference, struct verify_result *result)
{
    const struct verify_problem *p = s->p;
    const enum verify_input moved = p->moves_keys != 0 ? VERIFY_KEY : VERIFY_VALUE;
    const bool in_place = s->manner == VERIFY_PLACED && p->in_place != 0;
    const ckv_dtype dtype = p->as_bytes != 0 ? CKV_BYTES : p->dtype[moved];
    const size_t unit = ckv_dtype_size(dtype), size = ckv_dtype_size(p->dtype[moved]);
    const struct verify_place *from_place = s->manner == VERIFY_PLAIN ? place_of(s, VERIFY_TO_ROWS) : &p->place[moved];
    const int64_t budget = s->info.budget;
    struct verify_memory from = {0}, to = {0};
    struct kept kept;
    int64_t extent[3];
    bool good = select_rows(reference, s, &kept);

    verify_extents(p, moved, extent);
    extent[2] *= (int64_t)(size / unit);
    good = good && verify_memory_place(&from, from_place, unit, extent, fill_of(s->manner));
    if (good) {
        verify_memory_put(&from, p->cells[moved]);
        verify_memory_remember(&from);
    }
    if (good && !in_place) {
        extent[1] = budget + p->spare > 0 ? budget + p->spare : 1;
        good = verify_memory_place(&to, place_of(s, VERIFY_TO_ROWS), unit, extent, fill_of(s->manner));
        if (good)
            verify_memory_remember(&to);
    }
    if (good) {
        ckv_tensor source = verify_memory_view(&from, dtype, 3);
        ckv_tensor target = in_place ? source : verify_memory_view(&to, dtype, 3);

        finish(s, result, ckv_compact(s->plan, &source, &kept.selection, &target, &s->run));
        if (!in_place && !verify_memory_unchanged(&from))
            result->stray = "the rows that were moved from";
        good = result->status != CKV_OK || collect(in_place ? &from : &to, budget, result, "row");
    }
    verify_memory_free(&from);
    verify_memory_free(&to);
    free_kept(&kept);
    return good;
}

/* ------------------------------------------------------------------ all of it */

bool verify_solve(const ckv_context *context, const ckv_context *reference, const struct verify_problem *p,
                  unsigned stages, enum verify_manner manner, struct verify_result results[VERIFY_STAGES])
{
    struct session s = {.p = p, .manner = manner};
    bool good = true;
    ckv_status status = open_session(&s, context, stages, &good);

    for (int i = 0; good && i < VERIFY_STAGES; i++) {
        const enum verify_stage stage = (enum verify_stage)i;

        if ((stages & 1u << i) == 0)
            continue;
        memset(&results[i], 0, sizeof results[i]);
        if (status != CKV_OK)
            fail(&results[i], status);
        else if (stage == VERIFY_SCORE || stage == VERIFY_NORM)
            good = solve_numbers(&s, stage, &results[i]);
        else if (stage == VERIFY_COMPACT)
            good = solve_compact(&s, reference == NULL ? context : reference, &results[i]);
        else
            good = solve_kept(&s, stage, &results[i]);
    }
    close_session(&s);
    return good;
}

void verify_results_free(struct verify_result results[VERIFY_STAGES])
{
    for (int i = 0; i < VERIFY_STAGES; i++) {
        for (int b = 0; b < VERIFY_BLOCKS; b++)
            free(results[i].block[b].cells);
        memset(&results[i], 0, sizeof results[i]);
    }
}

bool verify_complete(const ckv_context *reference, struct verify_problem *p)
{
    static const enum verify_input missing[] = {VERIFY_ATTENTION, VERIFY_NORMS};
    struct verify_result results[VERIFY_STAGES];
    bool good = true;

    memset(results, 0, sizeof results);
    if (p->cells[VERIFY_ATTENTION] != NULL)
        return true;
    good = verify_solve(reference, NULL, p, 1u << VERIFY_SCORE | 1u << VERIFY_NORM, VERIFY_PLAIN, results);
    for (int i = 0; good && i < 2; i++) {
        good = verify_allocate(p, missing[i]);
        if (good && results[i].block[0].cells != NULL)
            memcpy(p->cells[missing[i]], results[i].block[0].cells,
                   (size_t)verify_count(p, missing[i]) * sizeof(float));
        good = good && verify_settle(p, missing[i]);
    }
    verify_results_free(results);
    return good;
}
