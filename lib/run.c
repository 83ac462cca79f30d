/* SPDX-License-Identifier: Apache-2.0 */
/* Run calls: every argument is checked here, before anything is written; then the
 * plan's backend does the work. */
#include <stddef.h>
#include <string.h>

#include "backend.h"
#include "regions.h"
#include "sizes.h"
#include "status.h"

void ckv_run_init(ckv_run *run, void *workspace, size_t workspace_size)
{
    if (run == NULL)
        return;
    memset(run, 0, sizeof *run);
    run->struct_size = sizeof *run;
    run->workspace = workspace;
    run->workspace_size = workspace_size;
}

void ckv_selection_init(ckv_selection *selection, int32_t *positions, int64_t capacity, int32_t *offsets)
{
    if (selection == NULL)
        return;
    memset(selection, 0, sizeof *selection);
    selection->struct_size = sizeof *selection;
    selection->positions = positions;
    selection->capacity = capacity;
    selection->offsets = offsets;
}

/* A caller of the first version has no place for it. */
static void count_norms(ckv_run *run, int64_t exact)
{
    if (run->struct_size >= offsetof(ckv_run, exact_norms) + sizeof run->exact_norms)
        run->exact_norms = exact;
}

/* One call: what the run said, its workspace aligned for the backend, and the list of
 * its memory. */
typedef struct call {
    ckv_launch launch;
    void *workspace;
    ckv_regions regions;
} call;

/* How device memory is named can be checked only so far: the rest is the caller's word. */
static ckv_status check_memory(const ckv_plan *plan, const ckv_run *run)
{
    if (run->memory != CKV_MEMORY_HOST && run->memory != CKV_MEMORY_DEVICE)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "run: memory %d, wanted CKV_MEMORY_HOST or CKV_MEMORY_DEVICE",
                        (int)run->memory);
    if (run->memory == CKV_MEMORY_DEVICE && plan->backend->device == NULL)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT,
                        "run: memory CKV_MEMORY_DEVICE, wanted CKV_MEMORY_HOST, since backend '%s' has no other",
                        plan->backend->name);
    if (run->memory == CKV_MEMORY_HOST && run->buffer != NULL)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "run: buffer set, wanted NULL with CKV_MEMORY_HOST");
    if (((uintptr_t)run->device_flags & 3u) != 0u)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "run: device_flags %p, wanted an address aligned to 4",
                        run->device_flags);
    return CKV_OK;
}

static ckv_status open_run(const ckv_plan *plan, ckv_run *run, call *c)
{
    ckv_run known;
    size_t need, slack;
    ckv_status status;
    memset(c, 0, sizeof *c);
    ckv_run_init(&known, NULL, 0);
    status = ckv_struct_read(&known, sizeof known, offsetof(ckv_run, flags) + sizeof known.flags, run, "run");
    if (status != CKV_OK)
        return status;
    run->flags = 0;
    count_norms(run, 0);
    if (plan == NULL)
        return ckv_fail_null("plan");
    status = check_memory(plan, &known);
    if (status != CKV_OK)
        return status;
    c->launch.memory = known.memory;
    if (known.memory == CKV_MEMORY_HOST && plan->backend->device != NULL)
        return CKV_OK; /* the backend allocates its own */
    if (known.workspace == NULL && known.buffer == NULL)
        return ckv_fail_null("run: workspace");
    need = plan->workspace + CKV_WORKSPACE_ALIGNMENT - 1;
    if (known.workspace_size < need)
        return ckv_fail(CKV_ERROR_CAPACITY, "run: workspace_size %zu, wanted at least %zu", known.workspace_size, need);
    slack = (size_t)(-(uintptr_t)known.workspace & (CKV_WORKSPACE_ALIGNMENT - 1));
    c->workspace = (char *)known.workspace + slack;
    c->launch.workspace = c->workspace;
    c->launch.buffer = known.buffer;
    c->launch.stream = known.stream;
    c->launch.device_flags = known.device_flags;
    ckv_regions_add(&c->regions, "run: workspace", known.buffer, known.workspace, need, 1);
    if (known.device_flags != NULL)
        ckv_regions_add(&c->regions, "run: device_flags", known.buffer, known.device_flags, sizeof(uint32_t), 1);
    return CKV_OK;
}

/* A buffer stands for device memory. */
static ckv_status check_buffer(const char *name, const void *buffer, const call *c)
{
    if (buffer == NULL || c->launch.memory == CKV_MEMORY_DEVICE)
        return CKV_OK;
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: buffer set, wanted NULL with CKV_MEMORY_HOST", name);
}

/* A size that the plan was made without, 0, cannot serve a stage that uses it. */
static ckv_status needs(const char *stage, const char *name, int64_t value)
{
    if (value != 0)
        return CKV_OK;
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "plan: %s 0, wanted at least 1 for %s", name, stage);
}

/* A view that passed its rule joins the call's memory. */
static ckv_status read_tensor(const ckv_tensor *given, const ckv_tensor_rule *rule, ckv_tensor *view, call *c)
{
    ckv_status status = ckv_tensor_read(view, given, rule);
    if (status == CKV_OK)
        status = check_buffer(rule->name, view->buffer, c);
    if (status == CKV_OK)
        ckv_regions_add_tensor(&c->regions, rule->name, view, rule->is_output);
    return status;
}

static ckv_status read_query(const ckv_plan *plan, const ckv_tensor *given, ckv_tensor *view, call *c)
{
    ckv_tensor_rule rule = {"query", 3, {plan->query_heads, plan->queries, plan->head_dim}, -1, CKV_DTYPES_FLOAT, 0};
    ckv_status status = needs("scoring", "query_heads", plan->query_heads);
    if (status == CKV_OK)
        status = needs("scoring", "queries", plan->queries);
    if (status == CKV_OK)
        status = needs("scoring", "head_dim", plan->head_dim);
    if (status == CKV_OK)
        status = needs("scoring", "window", plan->window);
    return status == CKV_OK ? read_tensor(given, &rule, view, c) : status;
}

static ckv_status read_key(const ckv_plan *plan, const ckv_tensor *given, ckv_tensor *view, call *c)
{
    ckv_tensor_rule rule = {"key", 3, {plan->kv_heads, plan->tokens, plan->head_dim}, -1, CKV_DTYPES_FLOAT, 0};
    return read_tensor(given, &rule, view, c);
}

static ckv_status read_value(const ckv_plan *plan, const ckv_tensor *given, ckv_tensor *view, call *c)
{
    ckv_tensor_rule rule = {"value", 3, {plan->kv_heads, plan->tokens, plan->value_dim}, -1, CKV_DTYPES_FLOAT, 0};
    ckv_status status = needs("the norm", "query_heads", plan->query_heads);
    if (status == CKV_OK)
        status = needs("the norm", "value_dim", plan->value_dim);
    if (status == CKV_OK)
        status = needs("the norm", "hidden", plan->hidden);
    return status == CKV_OK ? read_tensor(given, &rule, view, c) : status;
}

static ckv_status check_projection(const ckv_plan *plan, const ckv_projection *projection)
{
    if (projection == NULL)
        return ckv_fail_null("projection");
    if (projection->context != plan->context) /* its layout is that context's backend's */
        return ckv_fail(CKV_ERROR_MISMATCH, "projection: made from another context than the plan");
    if (projection->query_heads != plan->query_heads || projection->value_dim != plan->value_dim ||
        projection->hidden != plan->hidden)
        return ckv_fail(CKV_ERROR_MISMATCH,
                        "projection: query_heads %d, value_dim %d, hidden %d, wanted %d, %d, %d as in the plan",
                        (int)projection->query_heads, (int)projection->value_dim, (int)projection->hidden,
                        (int)plan->query_heads, (int)plan->value_dim, (int)plan->hidden);
    return CKV_OK;
}

/* attention or norm [Hkv, n] F32, as an input or an output */
static ckv_status read_scores(const ckv_plan *plan, const char *name, const ckv_tensor *given, int is_output,
                              ckv_tensor *view, call *c)
{
    ckv_tensor_rule rule = {name, 2, {plan->kv_heads, plan->tokens}, -1, CKV_DTYPES_F32, is_output};
    return read_tensor(given, &rule, view, c);
}

/* As an output of select and evict, as an input of compact. */
static ckv_status read_selection(const ckv_plan *plan, const ckv_selection *given, int is_output, ckv_kept *kept,
                                 call *c)
{
    ckv_selection known;
    int64_t need = plan->budget * plan->kv_heads;
    ckv_status status;
    ckv_selection_init(&known, NULL, 0, NULL);
    status = ckv_struct_read(&known, sizeof known, offsetof(ckv_selection, stages) + sizeof known.stages, given,
                             "selection");
    if (status != CKV_OK)
        return status;
    status = check_buffer("selection", known.buffer, c);
    if (status != CKV_OK)
        return status;
    if (known.offsets == NULL && known.buffer == NULL)
        return ckv_fail_null("selection: offsets");
    if (known.positions == NULL && known.buffer == NULL && need > 0)
        return ckv_fail_null("selection: positions");
    if (known.capacity < need)
        return ckv_fail(CKV_ERROR_CAPACITY, "selection: capacity %lld, wanted at least %lld", (long long)known.capacity,
                        (long long)need);
    *kept = (ckv_kept){known.positions, known.offsets, known.stages, known.buffer};
    ckv_regions_add(&c->regions, "selection: positions", known.buffer, known.positions, (size_t)need * sizeof(int32_t),
                    is_output);
    ckv_regions_add(&c->regions, "selection: offsets", known.buffer, known.offsets,
                    ((size_t)plan->kv_heads + 1) * sizeof(int32_t), is_output);
    if (is_output && known.stages != NULL)
        ckv_regions_add(&c->regions, "selection: stages", known.buffer, known.stages, (size_t)need, 1);
    return CKV_OK;
}

static void keep_trivially(const ckv_plan *plan, const ckv_kept *kept)
{
    kept->offsets[0] = 0;
    for (int64_t h = 0; h < plan->kv_heads; h++) {
        int64_t start = h * plan->budget;
        for (int64_t i = 0; i < plan->budget; i++) {
            kept->positions[start + i] = (int32_t)i;
            if (kept->stages != NULL)
                kept->stages[start + i] = CKV_KEPT_ALL;
        }
        kept->offsets[h + 1] = (int32_t)(start + plan->budget);
    }
}

/* Ends a call of a device backend; `flags` are the projection's. */
static ckv_status close_run(ckv_status status, const call *c, uint32_t flags, ckv_run *run)
{
    if (status != CKV_OK || c->launch.memory != CKV_MEMORY_HOST)
        return status;
    count_norms(run, c->launch.exact_norms);
    run->flags = c->launch.flags | flags;
    return status;
}

ckv_status ckv_score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *attention,
                     ckv_run *run)
{
    ckv_tensor q, k, a;
    call c;
    ckv_status status = open_run(plan, run, &c);
    if (status == CKV_OK)
        status = read_query(plan, query, &q, &c);
    if (status == CKV_OK)
        status = read_key(plan, key, &k, &c);
    if (status == CKV_OK)
        status = read_scores(plan, "attention", attention, 1, &a, &c);
    if (status == CKV_OK)
        status = ckv_regions_check(&c.regions);
    if (status != CKV_OK)
        return status;
    if (plan->backend->device != NULL)
        return close_run(plan->backend->device->score(plan, &q, &k, &a, &c.launch), &c, 0, run);
    run->flags = plan->backend->score(plan, &q, &k, &a, c.workspace);
    return CKV_OK;
}

ckv_status ckv_norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                    const ckv_tensor *norm, ckv_run *run)
{
    ckv_tensor v, out;
    call c;
    ckv_status status = open_run(plan, run, &c);
    if (status == CKV_OK)
        status = read_value(plan, value, &v, &c);
    if (status == CKV_OK)
        status = check_projection(plan, projection);
    if (status == CKV_OK)
        status = read_scores(plan, "norm", norm, 1, &out, &c);
    if (status == CKV_OK)
        status = ckv_regions_check(&c.regions);
    if (status != CKV_OK)
        return status;
    if (plan->backend->device != NULL)
        return close_run(plan->backend->device->norm(plan, &v, projection, &out, &c.launch), &c, projection->flags,
                         run);
    run->flags = plan->backend->norm(plan, &v, projection, &out, c.workspace) | projection->flags;
    count_norms(run, plan->kv_heads * plan->tokens);
    return CKV_OK;
}

ckv_status ckv_select(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm,
                      const ckv_selection *selection, ckv_run *run)
{
    ckv_tensor a, v;
    ckv_kept kept;
    call c;
    ckv_status status = open_run(plan, run, &c);
    if (status == CKV_OK)
        status = read_scores(plan, "attention", attention, 0, &a, &c);
    if (status == CKV_OK)
        status = read_scores(plan, "norm", norm, 0, &v, &c);
    if (status == CKV_OK)
        status = read_selection(plan, selection, 1, &kept, &c);
    if (status == CKV_OK)
        status = ckv_regions_check(&c.regions);
    if (status != CKV_OK)
        return status;
    if (ckv_plan_is_trivial(plan) && c.launch.memory == CKV_MEMORY_HOST)
        keep_trivially(plan, &kept);
    else if (plan->backend->device != NULL)
        return close_run(plan->backend->device->select(plan, &a, &v, &kept, &c.launch), &c, 0, run);
    else
        run->flags = plan->backend->select(plan, &a, &v, &kept, c.workspace);
    return CKV_OK;
}

/* What ckv_compact takes must be what this plan's select writes. */
static ckv_status check_kept(const ckv_plan *plan, const ckv_kept *kept)
{
    for (int64_t h = 0; h <= plan->kv_heads; h++)
        if (kept->offsets[h] != h * plan->budget)
            return ckv_fail(CKV_ERROR_MISMATCH, "selection: offsets[%lld] is %d, wanted %lld", (long long)h,
                            (int)kept->offsets[h], (long long)(h * plan->budget));
    for (int64_t h = 0; h < plan->kv_heads && plan->budget > 0; h++) {
        const int32_t *row = kept->positions + h * plan->budget;
        for (int64_t i = 0; i < plan->budget; i++)
            if (row[i] < (i == 0 ? 0 : row[i - 1] + 1) || row[i] >= plan->tokens)
                return ckv_fail(CKV_ERROR_MISMATCH,
                                "selection: positions[%lld] is %d, wanted ascending rows below %lld",
                                (long long)(h * plan->budget + i), (int)row[i], (long long)plan->tokens);
    }
    return CKV_OK;
}

/* In place: every row of `to` is the same memory as that row of `from`, and no other
 * row shares it. */
static int is_in_place(const ckv_tensor *from, const ckv_tensor *to)
{
    if (from->data != to->data || from->buffer != to->buffer || !ckv_tensor_elements_apart(from))
        return 0;
    for (int i = 0; i < 3; i++)
        if (to->shape[i] > 1 && to->stride[i] != from->stride[i])
            return 0;
    return 1;
}

static ckv_status read_rows(const ckv_plan *plan, const ckv_tensor *given_from, const ckv_tensor *given_to,
                            ckv_tensor *from, ckv_tensor *to, call *c)
{
    ckv_tensor_rule rule = {"from", 3, {plan->kv_heads, plan->tokens, 1}, 2, CKV_DTYPES_ANY, 0};
    ckv_status status = ckv_tensor_read(from, given_from, &rule);
    if (status != CKV_OK)
        return status;
    rule = (ckv_tensor_rule){"to", 3, {plan->kv_heads, plan->budget, from->shape[2]}, 1, 1 << from->dtype, 1};
    status = ckv_tensor_read(to, given_to, &rule);
    if (status != CKV_OK)
        return status;
    status = check_buffer("from", from->buffer, c);
    if (status == CKV_OK)
        status = check_buffer("to", to->buffer, c);
    if (status != CKV_OK)
        return status;
    if (ckv_tensors_overlap(from, to) && !is_in_place(from, to))
        return ckv_fail(CKV_ERROR_STRIDE,
                        "to: overlaps from, wanted the same data and strides (in place) or memory of its own");
    if (ckv_tensors_overlap(from, to)) {
        /* all of it, the rows that are left over too */
        ckv_regions_add_tensor(&c->regions, "to", to->shape[1] > from->shape[1] ? to : from, 1);
    } else {
        ckv_regions_add_tensor(&c->regions, "from", from, 0);
        ckv_regions_add_tensor(&c->regions, "to", to, 1);
    }
    return CKV_OK;
}

ckv_status ckv_compact(const ckv_plan *plan, const ckv_tensor *from, const ckv_selection *selection,
                       const ckv_tensor *to, ckv_run *run)
{
    ckv_tensor source, target;
    ckv_kept kept;
    call c;
    ckv_status status = open_run(plan, run, &c);
    if (status == CKV_OK)
        status = read_rows(plan, from, to, &source, &target, &c);
    if (status == CKV_OK)
        status = read_selection(plan, selection, 0, &kept, &c);
    if (status == CKV_OK)
        status = ckv_regions_check(&c.regions);
    if (status == CKV_OK && c.launch.memory == CKV_MEMORY_HOST)
        status = check_kept(plan, &kept);
    if (status != CKV_OK || plan->budget == 0)
        return status;
    if (plan->backend->device != NULL)
        return close_run(plan->backend->device->compact(plan, &source, &kept, &target, &c.launch), &c, 0, run);
    plan->backend->compact(plan, &source, &kept, &target);
    return CKV_OK;
}

ckv_status ckv_evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *value,
                     const ckv_projection *projection, const ckv_selection *selection, ckv_run *run)
{
    ckv_tensor q, k, v;
    ckv_kept kept;
    call c;
    int64_t exact_norms = 0;
    ckv_status status = open_run(plan, run, &c);
    if (status == CKV_OK)
        status = read_query(plan, query, &q, &c);
    if (status == CKV_OK)
        status = read_key(plan, key, &k, &c);
    if (status == CKV_OK)
        status = read_value(plan, value, &v, &c);
    if (status == CKV_OK)
        status = check_projection(plan, projection);
    if (status == CKV_OK)
        status = read_selection(plan, selection, 1, &kept, &c);
    if (status == CKV_OK)
        status = ckv_regions_check(&c.regions);
    if (status != CKV_OK)
        return status;
    if (ckv_plan_is_trivial(plan) && c.launch.memory == CKV_MEMORY_HOST)
        keep_trivially(plan, &kept);
    else if (plan->backend->device != NULL)
        return close_run(plan->backend->device->evict(plan, &q, &k, &v, projection, &kept, &c.launch), &c,
                         projection->flags, run);
    else
        run->flags =
            plan->backend->evict(plan, &q, &k, &v, projection, &kept, c.workspace, &exact_norms) | projection->flags;
    count_norms(run, exact_norms);
    return CKV_OK;
}
