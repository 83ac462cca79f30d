/* SPDX-License-Identifier: Apache-2.0 */
/* What may be tuned of the GPU backends, and what is taken untuned. */
#include "tunables.h"

#define WAVE 8            /* heads of a group whose unpooled attention is held at once: 32 bytes a (KV head, key) */
#define CHUNK_LEAST 128   /* keys of a work-group of the row statistics */
#define CHUNK_MOST 4096   /* more saves nothing */
#define OVERSUBSCRIBED 16 /* work-groups a compute unit that the row statistics aim at */

static const int32_t score_keys[] = {64, 128, 256};
static const int32_t attend_keys[] = {64, 128};
static const int32_t chunks[] = {64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192};
static const int32_t waves[] = {1, 2, 4, 8};
static const int32_t routes[] = {CKV_GPU_BY_INT, CKV_GPU_BY_DOT4, CKV_GPU_BY_MATRIX};
static const char *const route_names[] = {"int", "dot4", "matrix"};
static const int32_t int_rows[] = {8, 16, 32};
static const int32_t tiles[] = {1, 2};
static const int32_t bound_rows[] = {4, 8, 16};

#define COUNT(list) ((int32_t)(sizeof(list) / sizeof(list)[0]))
#define NUMBERS(list) list, NULL, COUNT(list)

const ckv_tunable ckv_gpu_tunables[CKV_GPU_TUNABLES] = {
    [CKV_GPU_SCORE_KEYS] = {"score", "score_keys", "keys of a tile of the row statistics", CKV_TUNE_PLAN,
                            NUMBERS(score_keys)},
    [CKV_GPU_ATTEND_KEYS] = {"score", "attend_keys", "keys of a work-group of the means", CKV_TUNE_PLAN,
                             NUMBERS(attend_keys)},
    [CKV_GPU_SCORE_CHUNK] = {"score", "score_chunk", "keys of a work-group of the row statistics, a tile at least",
                             CKV_TUNE_PLAN, NUMBERS(chunks)},
    [CKV_GPU_SCORE_WAVE] = {"score", "score_wave", "query heads of a group whose means are held at once", CKV_TUNE_PLAN,
                            NUMBERS(waves)},
    [CKV_GPU_NORM_ROUTE] = {"norm", "norm_route", "products of the norm: of integers, of four bytes, of matrices",
                            CKV_TUNE_PROJECTION, routes, route_names, COUNT(routes)},
    [CKV_GPU_INT_ROWS] = {"norm", "norm_int_rows", "rows of V of a work-group, by products of integers", CKV_TUNE_PLAN,
                          NUMBERS(int_rows)},
    [CKV_GPU_NORM_TILES] = {"norm", "norm_tiles", "tiles of 16 rows of V of a wave, by products of matrices",
                            CKV_TUNE_PLAN, NUMBERS(tiles)},
    [CKV_GPU_BOUND_ROWS] = {"evict", "bound_rows", "rows of V of a work-group of the norms' bounds", CKV_TUNE_PLAN,
                            NUMBERS(bound_rows)},
};

/* The first kernel of each family that comes in variants, and the tunable that chooses. */
static const struct {
    int first;
    int32_t index;
} families[] = {{CKV_GPU_ckv_row_max_64, CKV_GPU_SCORE_KEYS},
                {CKV_GPU_ckv_row_sum_64, CKV_GPU_SCORE_KEYS},
                {CKV_GPU_ckv_attend_64, CKV_GPU_ATTEND_KEYS},
                {CKV_GPU_ckv_norm_int_8, CKV_GPU_INT_ROWS},
                {CKV_GPU_ckv_bound_4, CKV_GPU_BOUND_ROWS}};

int ckv_gpu_variant(int first, int32_t index, int32_t value)
{
    const ckv_tunable *tunable = &ckv_gpu_tunables[index];
    int32_t i = 0;
    while (i < tunable->count - 1 && tunable->values[i] != value)
        i++;
    return first + (int)i;
}

int ckv_gpu_kernel_fits(const ckv_gpu_device_info *info, int kernel)
{
    const ckv_gpu_kernel_info *k = &ckv_gpu_kernel_list[kernel];
    return (info->max_group <= 0 || k->group <= (uint32_t)info->max_group) &&
           (info->local_bytes <= 0 || (int64_t)k->local <= info->local_bytes);
}

ckv_gpu_route ckv_gpu_route_for(const ckv_gpu *gpu, int32_t value)
{
    if (value == CKV_GPU_BY_INT)
        return CKV_GPU_INT;
    if (value == CKV_GPU_BY_MATRIX)
        for (int route = CKV_GPU_ROUTES - 1; route >= CKV_GPU_MMA; route--)
            if (ckv_gpu_has_route(gpu->driver, &gpu->info, (ckv_gpu_route)route))
                return (ckv_gpu_route)route;
    return CKV_GPU_DOT4;
}

int32_t ckv_gpu_value_for(ckv_gpu_route route)
{
    return route == CKV_GPU_INT ? CKV_GPU_BY_INT : route == CKV_GPU_DOT4 ? CKV_GPU_BY_DOT4 : CKV_GPU_BY_MATRIX;
}

int ckv_gpu_tunable_allowed(const ckv_context *context, int32_t index, int32_t value)
{
    const ckv_gpu *gpu = ckv_gpu_of(context);
    const ckv_gpu_route matrix = ckv_gpu_route_for(gpu, CKV_GPU_BY_MATRIX);
    for (int32_t i = 0; i < COUNT(families); i++)
        if (families[i].index == index && gpu->kernels[ckv_gpu_variant(families[i].first, index, value)] == NULL)
            return 0;
    if (index == CKV_GPU_NORM_ROUTE)
        return value == CKV_GPU_BY_MATRIX ? matrix >= CKV_GPU_MMA
               : value == CKV_GPU_BY_DOT4 ? gpu->kernels[CKV_GPU_ckv_norm_dot4] != NULL
                                          : ckv_gpu_tunable_model(context, NULL, CKV_GPU_INT_ROWS) != 0;
    if (index == CKV_GPU_NORM_TILES && value == 2) /* RDNA has the registers for one */
        return matrix == CKV_GPU_MMA || matrix == CKV_GPU_MFMA;
    return 1;
}

/* The greatest value of the list that is allowed and at most `wanted`, else the least that is
 * allowed; 0 where none is. */
static int32_t nearest(const ckv_context *context, int32_t index, int64_t wanted)
{
    const ckv_tunable *tunable = &ckv_gpu_tunables[index];
    int32_t found = 0;
    for (int32_t i = 0; i < tunable->count; i++)
        if (ckv_gpu_tunable_allowed(context, index, tunable->values[i]) && (found == 0 || tunable->values[i] <= wanted))
            found = tunable->values[i];
    return found;
}

/* Keys of one work-group: few enough that the device is busy, many enough that partial
 * results stay small. */
static int64_t chunk_for(const ckv_gpu *gpu, const ckv_problem *problem)
{
    const int64_t group = problem->kv_heads > 0 ? problem->query_heads / problem->kv_heads : 0;
    const int64_t rows = (group * problem->window + SCORE_ROWS - 1) / SCORE_ROWS * problem->kv_heads;
    const int64_t wanted = (int64_t)gpu->info.compute_units * OVERSUBSCRIBED;
    const int64_t pieces = rows == 0 || wanted <= 0 ? 1 : (wanted + rows - 1) / rows; /* units may be unknown: 0 */
    const int64_t chunk = (problem->tokens + pieces - 1) / pieces;
    return chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk > CHUNK_MOST ? CHUNK_MOST : chunk;
}

int32_t ckv_gpu_tunable_model(const ckv_context *context, const ckv_problem *problem, int32_t index)
{
    static const int32_t untuned[CKV_GPU_TUNABLES] = {
        [CKV_GPU_SCORE_KEYS] = 128, [CKV_GPU_ATTEND_KEYS] = 128, [CKV_GPU_SCORE_WAVE] = WAVE,
        [CKV_GPU_INT_ROWS] = 16,    [CKV_GPU_NORM_TILES] = 2,    [CKV_GPU_BOUND_ROWS] = 8};
    const ckv_gpu *gpu = ckv_gpu_of(context);
    if (index == CKV_GPU_NORM_ROUTE)
        return ckv_gpu_value_for(gpu->route);
    return nearest(context, index, index == CKV_GPU_SCORE_CHUNK ? chunk_for(gpu, problem) : untuned[index]);
}
