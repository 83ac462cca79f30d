/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer's cache, evicted in place.
 *
 *   cc evict.c $(pkg-config --cflags --libs ckv) -o evict && ./evict
 */
#include <ckv/ckv.h>
#include <stdio.h>
#include <stdlib.h>

/* A model with 8 query heads, 2 KV heads and a window of 16 queries. */
enum { QUERY_HEADS = 8, KV_HEADS = 2, TOKENS = 200, WINDOW = 16, HEAD_DIM = 32, HIDDEN = 96 };

static float query[QUERY_HEADS][WINDOW][HEAD_DIM], weight[HIDDEN][QUERY_HEADS * HEAD_DIM];
static float key[KV_HEADS][TOKENS][HEAD_DIM], value[KV_HEADS][TOKENS][HEAD_DIM];

static void must(ckv_status status)
{
    if (status != CKV_OK) {
        fprintf(stderr, "%s: %s\n", ckv_status_string(status), ckv_error_detail());
        exit(1);
    }
}

static void fill(float *x, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

int main(void)
{
    ckv_context *context;
    ckv_projection *projection;
    ckv_plan *plan;
    ckv_tensor q, k, v, w;
    ckv_policy policy;
    ckv_plan_info info = {.struct_size = sizeof info};
    ckv_shape shape = {sizeof shape, QUERY_HEADS, KV_HEADS, TOKENS, WINDOW, HEAD_DIM, HEAD_DIM, HIDDEN};
    fill(&query[0][0][0], sizeof query / sizeof(float), 1);
    fill(&key[0][0][0], sizeof key / sizeof(float), 2);
    fill(&value[0][0][0], sizeof value / sizeof(float), 3);
    fill(&weight[0][0], sizeof weight / sizeof(float), 4);
    ckv_tensor_init_3d(&q, CKV_F32, query, QUERY_HEADS, WINDOW, HEAD_DIM);
    ckv_tensor_init_3d(&k, CKV_F32, key, KV_HEADS, TOKENS, HEAD_DIM);
    ckv_tensor_init_3d(&v, CKV_F32, value, KV_HEADS, TOKENS, HEAD_DIM);
    ckv_tensor_init_2d(&w, CKV_F32, weight, HIDDEN, QUERY_HEADS * HEAD_DIM);
    ckv_policy_init(&policy);
    policy.budget = 40;
    policy.window = WINDOW;

    must(ckv_context_create(NULL, &context));                                     /* once per process or device */
    must(ckv_projection_create(context, &w, QUERY_HEADS, HEAD_DIM, &projection)); /* once per layer */
    must(ckv_plan_create(context, &shape, &policy, &plan));                       /* once per shape */
    must(ckv_plan_query(plan, &info));

    int32_t *positions = malloc((size_t)info.positions * sizeof *positions), offsets[KV_HEADS + 1];
    void *workspace = malloc(info.workspace);
    ckv_selection kept;
    ckv_run run;
    if (positions == NULL || workspace == NULL)
        return 1;
    ckv_selection_init(&kept, positions, info.positions, offsets);
    ckv_run_init(&run, workspace, info.workspace);
    must(ckv_evict(plan, &q, &k, &v, projection, &kept, &run));
    must(ckv_compact(plan, &k, &kept, &k, &run));
    must(ckv_compact(plan, &v, &kept, &v, &run));

    printf("kept %lld of %lld rows per head; the next token has position %lld\n", (long long)info.budget,
           (long long)info.tokens, (long long)info.next_position);
    ckv_plan_destroy(plan);
    ckv_projection_destroy(projection);
    ckv_context_destroy(context);
    free(workspace);
    free(positions);
    return 0;
}
