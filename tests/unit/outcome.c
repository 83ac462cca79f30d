/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kept rows of V, moved to a tensor of their own. */
static ckv_status compact(test_problem *p, uint64_t *hash)
{
    test_tensor to;
    ckv_status status;
    int64_t rows = p->info.budget > 0 ? p->info.budget : 1, width = p->shape.value_dim;
    test_tensor_new(&to, p->dtype[TEST_VALUE], 3, p->shape.kv_heads, rows, width, TEST_DENSE);
    status = ckv_compact(p->plan, &p->tensor[TEST_VALUE].view, &p->selection, &to.view, &p->run);
    *hash = test_hash(test_hash_start, to.buffer.data, to.buffer.size);
    if (status == CKV_OK && !test_buffer_intact(&to.buffer))
        *hash = 0;
    test_tensor_free(&to);
    return status;
}

ckv_status test_solve(test_problem *p, test_outcome *o)
{
    ckv_status status;
    memset(o, 0, sizeof *o);
    memset(p->workspace.data, 0xa5, p->workspace.size);
    status = test_stages(p);
    if (status != CKV_OK)
        return status;
    o->stage_flags = p->run.flags;
    o->attention = test_hash_attention(p);
    o->norm = test_hash_norm(p);
    o->stages = test_hash_selection(p);
    status = compact(p, &o->compact);
    if (status != CKV_OK)
        return status;
    memset(p->workspace.data, 0x5a, p->workspace.size);
    status = test_evict(p);
    o->evict_flags = p->run.flags;
    o->evict = test_hash_selection(p);
    o->intact = test_all_intact(p);
    return status;
}

ckv_status test_solve_on(test_problem *p, const char *backend, const char *isa, int32_t threads, test_outcome *outcome)
{
    ckv_status status;
    p->options.backend = backend;
    p->options.threads = threads;
    if (isa != NULL)
        setenv("CKV_CPU_ISA", isa, 1);
    status = test_problem_open(p);
    if (isa != NULL)
        unsetenv("CKV_CPU_ISA");
    if (status == CKV_OK && isa != NULL && strcmp(p->info.device, isa) != 0)
        status = CKV_ERROR_UNAVAILABLE;
    if (status == CKV_OK)
        status = test_solve(p, outcome);
    test_problem_close(p);
    return status;
}

int test_same(const test_outcome *want, const test_outcome *got, char text[TEST_DIFFERENCE])
{
    snprintf(text, TEST_DIFFERENCE,
             "attention %d norm %d stages %d evict %d compact %d intact %d flags %x %x, wanted %x %x",
             want->attention == got->attention, want->norm == got->norm, want->stages == got->stages,
             want->evict == got->evict, want->compact == got->compact, got->intact, (unsigned)got->stage_flags,
             (unsigned)got->evict_flags, (unsigned)want->stage_flags, (unsigned)want->evict_flags);
    return want->attention == got->attention && want->norm == got->norm && want->stages == got->stages &&
           want->evict == got->evict && want->compact == got->compact && want->intact && got->intact &&
           want->stage_flags == got->stage_flags && want->evict_flags == got->evict_flags;
}
