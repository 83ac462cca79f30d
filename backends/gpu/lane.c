/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and chunks of calls on host memory; see lane.h. */
#define _POSIX_C_SOURCE 200809L
#include "lane.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/threads.h"
#include "gpu.h"

#define PIECE ((size_t)256 << 10) /* of a chunk, that one thread copies */

struct ckv_gpu_lanes {
    pthread_mutex_t lock;
    ckv_gpu_lane *idle;
};

static void destroy(const ckv_gpu *gpu, ckv_gpu_lane *lane)
{
    const ckv_gpu_driver *driver = gpu->driver;
    driver->release_stream(gpu->device, lane->kernels);
    driver->release_stream(gpu->device, lane->copies);
    driver->release_event(gpu->device, lane->arrived);
    for (int i = 0; i < CKV_GPU_CHUNKS; i++) {
        driver->release_event(gpu->device, lane->fetched[i]);
        driver->release_host(gpu->device, lane->chunk[i]);
    }
    free(lane);
}

static int fill_lane(const ckv_gpu *gpu, ckv_gpu_lane *lane)
{
    const ckv_gpu_driver *driver = gpu->driver;
    int code = driver->create_stream(gpu->device, &lane->kernels);
    if (code == CKV_GPU_OK)
        code = driver->create_stream(gpu->device, &lane->copies);
    if (code == CKV_GPU_OK)
        code = driver->create_event(gpu->device, &lane->arrived);
    for (int i = 0; i < CKV_GPU_CHUNKS && code == CKV_GPU_OK; i++) {
        code = driver->create_event(gpu->device, &lane->fetched[i]);
        if (code == CKV_GPU_OK)
            code = driver->allocate_host(gpu->device, CKV_GPU_CHUNK, &lane->chunk[i]);
    }
    return code;
}

ckv_gpu_lanes *ckv_gpu_open_lanes(void)
{
    ckv_gpu_lanes *lanes = calloc(1, sizeof *lanes);
    if (lanes != NULL)
        pthread_mutex_init(&lanes->lock, NULL);
    return lanes;
}

void ckv_gpu_close_lanes(const ckv_gpu *gpu, int entered)
{
    while (gpu->lanes->idle != NULL) {
        ckv_gpu_lane *lane = gpu->lanes->idle;
        gpu->lanes->idle = lane->next;
        if (entered)
            destroy(gpu, lane);
        else
            free(lane);
    }
    pthread_mutex_destroy(&gpu->lanes->lock);
    free(gpu->lanes);
}

int ckv_gpu_take_lane(const ckv_gpu *gpu, ckv_gpu_lane **out)
{
    ckv_gpu_lane *lane;
    int code = CKV_GPU_OK;
    pthread_mutex_lock(&gpu->lanes->lock);
    lane = gpu->lanes->idle;
    if (lane != NULL)
        gpu->lanes->idle = lane->next;
    pthread_mutex_unlock(&gpu->lanes->lock);
    if (lane == NULL) {
        lane = calloc(1, sizeof *lane);
        code = lane == NULL ? CKV_GPU_FAILED : fill_lane(gpu, lane);
        if (code != CKV_GPU_OK && lane != NULL) {
            destroy(gpu, lane);
            lane = NULL;
        }
    }
    *out = lane;
    return code;
}

void ckv_gpu_return_lane(const ckv_gpu *gpu, ckv_gpu_lane *lane, int good)
{
    if (!good) {
        destroy(gpu, lane);
        return;
    }
    lane->landed = 0;
    pthread_mutex_lock(&gpu->lanes->lock);
    lane->next = gpu->lanes->idle;
    gpu->lanes->idle = lane;
    pthread_mutex_unlock(&gpu->lanes->lock);
}

/* ------------------------------------------------------------------ to the device */

/* A part of what is sent: `bytes` from byte `first` of the dense order. */
typedef struct part {
    const ckv_tensor *view; /* NULL: contiguous, from `data` */
    const char *data;
    char *to;
    size_t first, bytes;
} part;

/* Bytes [first, first + bytes) of a view's dense order; both are multiples of an element
 * where a row's elements lie apart. */
static void gather(const ckv_tensor *view, char *to, size_t first, size_t bytes)
{
    const size_t size = ckv_dtype_size(view->dtype);
    const int64_t width = view->rank == 3 ? view->shape[2] : 1;
    const size_t row = size * (size_t)width;
    const int together = width <= 1 || view->stride[2] == (int64_t)size;
    while (bytes > 0) {
        const int64_t number = (int64_t)(first / row), h = number / view->shape[1], i = number - h * view->shape[1];
        const size_t inside = first % row;
        size_t some = together ? row - inside : size;
        if (some > bytes)
            some = bytes;
        if (together)
            memcpy(to, (const char *)ckv_at(view, h, i, 0) + inside, some);
        else
            memcpy(to, ckv_at(view, h, i, (int64_t)(inside / size)), some);
        to += some;
        first += some;
        bytes -= some;
    }
}

static void copy_piece(const void *argument, int64_t item, int32_t worker)
{
    const part *p = argument;
    const size_t begin = (size_t)item * PIECE, bytes = p->bytes - begin < PIECE ? p->bytes - begin : PIECE;
    (void)worker;
    if (p->view == NULL)
        memcpy(p->to + begin, p->data + p->first + begin, bytes);
    else
        gather(p->view, p->to + begin, p->first + begin, bytes);
}

int ckv_gpu_send(const ckv_gpu *gpu, const ckv_context *context, ckv_gpu_lane *lane, ckv_gpu_memory to,
                 const ckv_tensor *view, const void *from, size_t bytes)
{
    const ckv_gpu_driver *driver = gpu->driver;
    for (size_t first = 0; first < bytes; first += CKV_GPU_CHUNK) {
        const int turn = lane->turn;
        const part p = {view, from, lane->chunk[turn], first,
                        bytes - first < CKV_GPU_CHUNK ? bytes - first : CKV_GPU_CHUNK};
        int code = lane->busy[turn] ? driver->wait_event(gpu->device, lane->fetched[turn]) : CKV_GPU_OK;
        if (code != CKV_GPU_OK)
            return code;
        if (p.bytes > PIECE)
            ckv_cpu_for_each(context, (int64_t)((p.bytes + PIECE - 1) / PIECE), copy_piece, &p);
        else
            copy_piece(&p, 0, 0);
        code = driver->upload(gpu->device, lane->copies, (ckv_gpu_memory){to.base, to.offset + (int64_t)first}, p.to,
                              p.bytes);
        if (code == CKV_GPU_OK)
            code = driver->record(gpu->device, lane->copies, lane->fetched[turn]);
        if (code != CKV_GPU_OK)
            return code;
        lane->busy[turn] = 1;
        lane->turn = (turn + 1) % CKV_GPU_CHUNKS;
    }
    return CKV_GPU_OK;
}

int ckv_gpu_arrive(const ckv_gpu *gpu, ckv_gpu_lane *lane)
{
    int code = gpu->driver->record(gpu->device, lane->copies, lane->arrived);
    return code != CKV_GPU_OK ? code : gpu->driver->follow(gpu->device, lane->kernels, lane->arrived);
}

void *ckv_gpu_land(ckv_gpu_lane *lane, size_t bytes)
{
    const size_t padded = (bytes + 63) / 64 * 64;
    char *memory = lane->chunk[0];
    if (bytes > CKV_GPU_CHUNK - lane->landed || padded > CKV_GPU_CHUNK - lane->landed)
        return NULL;
    memory += lane->landed;
    lane->landed += padded;
    return memory;
}
