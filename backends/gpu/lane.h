/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call on host memory works with beside device memory: a stream for kernels, one
 * for copies to the device, and host memory that those copies are made from.
 *
 * A copy runs beside kernels only where both vendors promise it: on another stream, from
 * page-locked memory.  From pageable memory a driver copies through page-locked buffers of
 * its own while the caller waits.  Locking the caller's pages in place would cost a system
 * call over every page of K and V, as long as a copy takes, for memory that is read once,
 * and fails where the engine has locked them itself.  So the bytes go through two chunks
 * here: threads fill one while the device fetches the other, rows that lie apart are
 * gathered on the way, and kernels run meanwhile.
 *
 * Making page-locked memory takes milliseconds and stops the device: a context keeps its
 * lanes from call to call, as many as calls ran at once.
 */
#ifndef CKV_BACKENDS_GPU_LANE_H
#define CKV_BACKENDS_GPU_LANE_H

#include "driver.h"
#include "lib/tensor.h"

struct ckv_gpu;

#define CKV_GPU_CHUNKS 2
#ifndef CKV_GPU_CHUNK
#define CKV_GPU_CHUNK ((size_t)4 << 20) /* long enough for a bus's full speed; a multiple of any element */
#endif

typedef struct ckv_gpu_lane {
    struct ckv_gpu_lane *next;
    ckv_gpu_stream kernels, copies;
    ckv_gpu_event arrived;                 /* recorded on `copies` */
    ckv_gpu_event fetched[CKV_GPU_CHUNKS]; /* the chunk may be written again */
    int busy[CKV_GPU_CHUNKS];              /* 1: once that is recorded */
    void *chunk[CKV_GPU_CHUNKS];
    int turn;      /* the chunk to fill next */
    size_t landed; /* bytes of chunk 0 that results were promised */
} ckv_gpu_lane;

typedef struct ckv_gpu_lanes ckv_gpu_lanes; /* of a context */

/* NULL: no memory. */
ckv_gpu_lanes *ckv_gpu_open_lanes(void);
/* `entered`: the device is current; if not, what it holds is beyond reach. */
void ckv_gpu_close_lanes(const struct ckv_gpu *gpu, int entered);

/* A lane that nobody else has; CKV_GPU_OK or the driver's number. */
int ckv_gpu_take_lane(const struct ckv_gpu *gpu, ckv_gpu_lane **lane);
/* `good`: nothing failed; the lane is kept for the next call. */
void ckv_gpu_return_lane(const struct ckv_gpu *gpu, ckv_gpu_lane *lane, int good);

/* A view's elements, dense, to the device, in the order of the shape; or `bytes` from
 * `from` where `view` is NULL.  The caller's memory is read before the call returns. */
int ckv_gpu_send(const struct ckv_gpu *gpu, const ckv_context *context, ckv_gpu_lane *lane, ckv_gpu_memory to,
                 const ckv_tensor *view, const void *from, size_t bytes);
/* Kernels launched from now on see what was sent. */
int ckv_gpu_arrive(const struct ckv_gpu *gpu, ckv_gpu_lane *lane);
/* Host memory that a result may be copied to on `kernels`, once all was sent and has
 * arrived; NULL where it is too much.  Lives until the lane is returned. */
void *ckv_gpu_land(ckv_gpu_lane *lane, size_t bytes);

#endif
