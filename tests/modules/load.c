/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load LIBRARY [BACKEND] [again]: a program that is not linked with the library but opens
 * it as an extension of some other program does, RTLD_LOCAL.  Prints the table of devices
 * and what an eviction keeps; with `again`, unloads the library and does it once more.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ckv/ckv.h>

#define CALLS(CALL)                                                                                                    \
    CALL(ckv_compact)                                                                                                  \
    CALL(ckv_context_create)                                                                                           \
    CALL(ckv_context_destroy)                                                                                          \
    CALL(ckv_context_options_init)                                                                                     \
    CALL(ckv_device_count)                                                                                             \
    CALL(ckv_device_query)                                                                                             \
    CALL(ckv_error_detail)                                                                                             \
    CALL(ckv_evict)                                                                                                    \
    CALL(ckv_plan_create)                                                                                              \
    CALL(ckv_plan_destroy)                                                                                             \
    CALL(ckv_plan_query)                                                                                               \
    CALL(ckv_policy_init)                                                                                              \
    CALL(ckv_projection_create)                                                                                        \
    CALL(ckv_projection_destroy)                                                                                       \
    CALL(ckv_run_init)                                                                                                 \
    CALL(ckv_selection_init)                                                                                           \
    CALL(ckv_shape_init)                                                                                               \
    CALL(ckv_tensor_init_2d)                                                                                           \
    CALL(ckv_tensor_init_3d)

static struct {
#define CALL(name) __typeof__(&name) name;
    CALLS(CALL)
#undef CALL
} lib;

static void find(void *handle, const char *name, void *place)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL) {
        printf("no %s\n", name);
        exit(2);
    }
    memcpy(place, &symbol, sizeof symbol);
}

static void *open_library(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        printf("%s\n", dlerror());
        exit(2);
    }
#define CALL(name) find(handle, #name, &lib.name);
    CALLS(CALL)
#undef CALL
    return handle;
}

static int failed(void)
{
    printf("error: %s\n", lib.ckv_error_detail());
    return 1;
}

static void print_rows(const ckv_context *context)
{
    for (int32_t i = 0; i < lib.ckv_device_count(context); i++) {
        ckv_device_info info = {.struct_size = sizeof info};
        if (lib.ckv_device_query(context, i, &info) == CKV_OK)
            printf("%s%s:%d %s%s%s\n", info.selected ? "* " : "  ", info.backend, (int)info.device,
                   info.available ? info.name : "not: ", info.available ? " " : "",
                   info.available ? info.variant : info.reason);
    }
}

enum { HEADS = 2, GROUP = 2, TOKENS = 90, QUERIES = 8, WIDTH = 24, HIDDEN = 40 };

static void fill(float *data, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(int)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static int evict(const ckv_context *context)
{
    static float query[HEADS * GROUP * QUERIES * WIDTH], key[HEADS * TOKENS * WIDTH], value[HEADS * TOKENS * WIDTH],
        weight[HIDDEN * HEADS * GROUP * WIDTH];
    int32_t positions[HEADS * TOKENS], offsets[HEADS + 1];
    ckv_tensor q, k, v, w;
    ckv_shape shape;
    ckv_policy policy;
    ckv_projection *projection;
    ckv_plan *plan;
    ckv_plan_info info = {.struct_size = sizeof info};
    ckv_selection selection;
    ckv_run run;
    void *workspace;
    ckv_status status;
    fill(query, sizeof query / sizeof *query, 1);
    fill(key, sizeof key / sizeof *key, 2);
    fill(value, sizeof value / sizeof *value, 3);
    fill(weight, sizeof weight / sizeof *weight, 4);
    lib.ckv_tensor_init_3d(&q, CKV_F32, query, HEADS * GROUP, QUERIES, WIDTH);
    lib.ckv_tensor_init_3d(&k, CKV_F32, key, HEADS, TOKENS, WIDTH);
    lib.ckv_tensor_init_3d(&v, CKV_F32, value, HEADS, TOKENS, WIDTH);
    lib.ckv_tensor_init_2d(&w, CKV_F32, weight, HIDDEN, HEADS * GROUP * WIDTH);
    lib.ckv_shape_init(&shape);
    shape.query_heads = HEADS * GROUP;
    shape.kv_heads = HEADS;
    shape.tokens = TOKENS;
    shape.queries = QUERIES;
    shape.head_dim = shape.value_dim = WIDTH;
    shape.hidden = HIDDEN;
    lib.ckv_policy_init(&policy);
    if (lib.ckv_projection_create(context, &w, HEADS * GROUP, WIDTH, &projection) != CKV_OK ||
        lib.ckv_plan_create(context, &shape, &policy, &plan) != CKV_OK || lib.ckv_plan_query(plan, &info) != CKV_OK)
        return failed();
    printf("runs on %s, %s, %s\n", info.backend, info.device, info.variant);
    workspace = malloc(info.workspace);
    lib.ckv_run_init(&run, workspace, info.workspace);
    lib.ckv_selection_init(&selection, positions, HEADS * TOKENS, offsets);
    status = lib.ckv_evict(plan, &q, &k, &v, projection, &selection, &run);
    printf("kept");
    for (int32_t i = 0; status == CKV_OK && i < offsets[HEADS]; i++)
        printf(" %d", (int)positions[i]);
    printf("\n");
    /* What goes wrong in the backend is told by the library. */
    q.shape[2]++;
    if (status == CKV_OK && lib.ckv_evict(plan, &q, &k, &v, projection, &selection, &run) == CKV_ERROR_SHAPE)
        printf("detail: %s\n", lib.ckv_error_detail());
    free(workspace);
    lib.ckv_plan_destroy(plan);
    lib.ckv_projection_destroy(projection);
    return status == CKV_OK ? 0 : failed();
}

static int work(const char *path, const char *backend, int unload)
{
    void *handle = open_library(path);
    ckv_context_options options;
    ckv_context *context;
    int result;
    lib.ckv_context_options_init(&options);
    options.backend = backend;
    if (lib.ckv_context_create(&options, &context) != CKV_OK)
        return failed();
    print_rows(context);
    result = evict(context);
    lib.ckv_context_destroy(context);
    if (unload && dlclose(handle) != 0)
        return 2;
    return result;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 2 ? argv[2] : NULL;
    const int again = argc > 3 && strcmp(argv[3], "again") == 0;
    int result;
    if (argc < 2)
        return 2;
    result = work(argv[1], backend, again);
    return result == 0 && again ? work(argv[1], backend, 1) : result;
}
