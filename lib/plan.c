/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: what depends on shape and policy together is checked and worked out here, once. */
#include "plan.h"

#include <math.h>
#include <stddef.h>

#include "backend.h"
#include "policy.h"
#include "sizes.h"
#include "status.h"

void ckv_shape_init(ckv_shape *shape)
{
    if (shape != NULL)
        *shape = (ckv_shape){.struct_size = sizeof *shape};
}

static ckv_status in_range(const char *name, int64_t value, int64_t least, int64_t most)
{
    if (value < least)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "shape: %s %lld, wanted at least %lld", name, (long long)value,
                        (long long)least);
    if (value > most)
        return ckv_fail(CKV_ERROR_LIMIT, "shape: %s %lld, wanted at most %lld", name, (long long)value,
                        (long long)most);
    return CKV_OK;
}

static ckv_status check_shape(const ckv_shape *shape)
{
    const struct {
        const char *name;
        int64_t value, least, most;
    } fields[] = {
        {"kv_heads", shape->kv_heads, 1, INT32_MAX},          {"tokens", shape->tokens, 1, CKV_LIMIT_TOKENS},
        {"query_heads", shape->query_heads, 0, INT32_MAX},    {"queries", shape->queries, 0, INT64_MAX},
        {"head_dim", shape->head_dim, 0, CKV_LIMIT_HEAD_DIM}, {"value_dim", shape->value_dim, 0, CKV_LIMIT_VALUE_DIM},
        {"hidden", shape->hidden, 0, CKV_LIMIT_HIDDEN},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ckv_status status = in_range(fields[i].name, fields[i].value, fields[i].least, fields[i].most);
        if (status != CKV_OK)
            return status;
    }
    if (shape->query_heads % shape->kv_heads != 0)
        return ckv_fail(CKV_ERROR_SHAPE, "shape: query_heads %d, wanted a multiple of kv_heads %d",
                        (int)shape->query_heads, (int)shape->kv_heads);
    return CKV_OK;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void fill_shape(ckv_plan *plan, const ckv_shape *shape)
{
    plan->tokens = shape->tokens;
    plan->queries = shape->queries;
    plan->query_heads = shape->query_heads;
    plan->kv_heads = shape->kv_heads;
    plan->group = shape->query_heads == 0 ? 1 : shape->query_heads / shape->kv_heads;
    plan->head_dim = shape->head_dim;
    plan->value_dim = shape->value_dim;
    plan->hidden = shape->hidden;
}

/* RN(1/n).  Volatile, so that a compiler does not divide several at once in a vector
 * with lanes to spare, whose 0/0 would trap where an engine traps such. */
static float reciprocal(int64_t n)
{
    volatile float divisor = (float)n;
    return 1.0f / divisor;
}

static void fill_policy(ckv_plan *plan, const ckv_policy *policy)
{
    int64_t n = plan->tokens;
    plan->window = least_of(policy->window, n);
    if (plan->queries != 0)
        plan->window = least_of(plan->window, plan->queries);
    plan->budget = policy->budget >= 0 ? policy->budget : ckv_ratio_share(n, &policy->keep);
    plan->budget = least_of(plan->budget, n);
    plan->stage1 = ckv_ratio_share(plan->budget, &policy->alpha);
    plan->recent = least_of(policy->recent < 0 ? plan->window : policy->recent, n);
    plan->sinks = least_of(policy->sinks, n - plan->recent);
    plan->forced = least_of(plan->recent + plan->sinks, plan->budget);
    plan->pool = policy->pool_width == 1 ? CKV_POOL_NONE : policy->pool;
    plan->pool_width = plan->pool == CKV_POOL_NONE ? 1 : policy->pool_width;
    plan->skip = policy->skip;
    plan->epsilon = policy->epsilon;
    plan->scale = policy->scale;
    /* Division and sqrt are correctly rounded in every IEEE mode of a host; spec 4.1, 4.4, 4.5. */
    if (plan->scale == 0.0f && plan->head_dim > 0)
        plan->scale = (float)(1.0 / sqrt((double)plan->head_dim));
    plan->window_inverse = plan->window == 0 ? 0.0f : reciprocal(plan->window);
    plan->group_inverse = reciprocal(plan->group);
    plan->pool_inverse = reciprocal(plan->pool_width);
}

static void settle_parameters(ckv_plan *plan)
{
    const ckv_problem problem = {plan->tokens,   plan->window,   plan->budget,    plan->query_heads,
                                 plan->kv_heads, plan->head_dim, plan->value_dim, plan->hidden};
    plan->parameters = plan->context->parameters;
    ckv_tuning_settle(plan->context, CKV_TUNE_PROJECTION, &problem, &plan->parameters);
    ckv_tuning_settle(plan->context, CKV_TUNE_PLAN, &problem, &plan->parameters);
}

/* Limits that involve both (spec 2.3), and sizes that must fit their types. */
static ckv_status check_together(const ckv_plan *plan)
{
    int64_t terms = plan->window == 0 ? 1 : plan->window; /* at most 2^22, and the group below 2^31 */
    terms = terms * plan->group > CKV_LIMIT_MEAN ? CKV_LIMIT_MEAN + 1 : terms * plan->group * plan->pool_width;
    if (terms > CKV_LIMIT_MEAN)
        return ckv_fail(CKV_ERROR_LIMIT, "window %lld * group %d * pool_width %d: wanted at most %lld",
                        (long long)plan->window, (int)plan->group, (int)plan->pool_width, (long long)CKV_LIMIT_MEAN);
    if (plan->budget * plan->kv_heads > INT32_MAX)
        return ckv_fail(CKV_ERROR_OVERFLOW, "kv_heads %d * budget %lld: wanted at most 2^31 - 1 kept entries",
                        (int)plan->kv_heads, (long long)plan->budget);
    return CKV_OK;
}

static ckv_status size_workspace(ckv_plan *plan)
{
    plan->workspace = plan->backend->workspace_size(plan);
    if (plan->workspace == 0 || plan->workspace > SIZE_MAX - CKV_WORKSPACE_ALIGNMENT)
        return ckv_fail(CKV_ERROR_OVERFLOW,
                        "shape: kv_heads %d * tokens %lld needs a larger workspace than can be addressed",
                        (int)plan->kv_heads, (long long)plan->tokens);
    return CKV_OK;
}

ckv_status ckv_plan_create(const ckv_context *context, const ckv_shape *given_shape, const ckv_policy *given_policy,
                           ckv_plan **out)
{
    ckv_shape shape;
    ckv_policy policy;
    ckv_plan draft = {0};
    ckv_status status;
    if (out == NULL)
        return ckv_fail_null("plan");
    *out = NULL;
    if (context == NULL)
        return ckv_fail_null("context");
    ckv_shape_init(&shape);
    status =
        ckv_struct_read(&shape, sizeof shape, offsetof(ckv_shape, hidden) + sizeof shape.hidden, given_shape, "shape");
    if (status == CKV_OK)
        status = check_shape(&shape);
    if (status == CKV_OK)
        status = ckv_policy_read(&policy, given_policy);
    if (status != CKV_OK)
        return status;
    draft.context = context;
    draft.backend = context->backend;
    draft.device = context->device;
    fill_shape(&draft, &shape);
    fill_policy(&draft, &policy);
    status = check_together(&draft);
    if (status == CKV_OK) {
        settle_parameters(&draft);
        status = size_workspace(&draft);
    }
    if (status != CKV_OK)
        return status;
    *out = ckv_context_allocate(context, sizeof draft, "plan");
    if (*out == NULL)
        return CKV_ERROR_NO_MEMORY;
    **out = draft;
    return CKV_OK;
}

void ckv_plan_destroy(ckv_plan *plan)
{
    if (plan != NULL)
        ckv_context_release(plan->context, plan);
}

ckv_status ckv_plan_query(const ckv_plan *plan, ckv_plan_info *info)
{
    ckv_plan_info known = {.struct_size = sizeof known};
    if (plan == NULL)
        return ckv_fail_null("plan");
    known.tokens = plan->tokens;
    known.window = plan->window;
    known.budget = plan->budget;
    known.stage1 = plan->stage1;
    known.positions = plan->budget * plan->kv_heads;
    known.next_position = plan->tokens;
    known.workspace = plan->workspace + CKV_WORKSPACE_ALIGNMENT - 1;
    known.backend = plan->backend->name;
    known.device = plan->backend->context_device_name(plan->context);
    if (known.device == NULL)
        known.device = "";
    known.device_memory = plan->backend->device != NULL;
    known.variant = ckv_backend_variant(plan->context);
    return ckv_struct_write(info, &known, sizeof known, offsetof(ckv_plan_info, device) + sizeof known.device, "info");
}
