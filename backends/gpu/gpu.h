/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU backend: one host program over any driver.  A run call becomes a fixed list
 * of launches on one stream; what a kernel needs to know stands in ckv_params.
 *
 *   backend.c   opening and closing a device
 *   identity.c  what device it is, for tuning files
 *   table.h     a backend's table; backend_cuda.c, backend_hip.c, backend_opencl.c have one each
 *   module.c    one of them as a module
 *   tunables.c  what may be tuned, and what is taken untuned
 *   probe.c     the kernel that a device must pass before it is used
 *   route.c     which kernels the norm takes
 *   pack.c      the projection in device memory; pack_*.c for a route
 *   layout.c    the workspace, and the params of a plan
 *   call.c      a call: views, launches, the first failure
 *   staging.c   calls on host memory: copies in, the call, copies out
 *   lane.c      the streams and page-locked memory that those borrow
 *   measure.c   a stage timed in device memory
 *   score.c norm.c select.c compact.c evict.c   launches of each stage
 */
#ifndef CKV_BACKENDS_GPU_H
#define CKV_BACKENDS_GPU_H

#include "code.h"
#include "driver.h"
#include "lib/backend.h"
#include "route.h"

typedef int64_t i64;
typedef int32_t i32;
typedef uint32_t u32;
typedef float f32;
#include "kernels/params.h"
#include "kernels/tiles.h"

/* Every kernel's number. */
enum {
#define CKV_KERNEL(name, buffers, group, route, local) CKV_GPU_##name,
#include "kernels.def"
#undef CKV_KERNEL
    CKV_GPU_KERNELS
};

/* What kernels.def says of each (call.c). */
typedef struct ckv_gpu_kernel_info {
    const char *name;
    int buffers;
    uint32_t group, local;
    ckv_gpu_route route;
} ckv_gpu_kernel_info;

extern const ckv_gpu_kernel_info ckv_gpu_kernel_list[CKV_GPU_KERNELS];

/* What a context holds of its device. */
typedef struct ckv_gpu {
    const ckv_gpu_driver *driver;
    ckv_gpu_device *device;
    ckv_gpu_device_info info;
    ckv_gpu_module *module;
    ckv_gpu_kernel kernels[CKV_GPU_KERNELS]; /* NULL: of a route that the device has not */
    ckv_gpu_route route;                     /* of the norm, where a projection allows it */
    ckv_gpu_origin origin;
    char variant[48]; /* the two in words */
    struct ckv_gpu_lanes *lanes;
} ckv_gpu;

static inline const ckv_gpu *ckv_gpu_of(const ckv_context *context)
{
    return context->backend_state;
}

/* The projection in device memory; pack.h has the layouts. */
typedef struct ckv_gpu_projection {
    ckv_gpu_memory memory;
    ckv_gpu_route route;
    int64_t exponents, bases, panels, shifts, weights, squares, sizes, size; /* offsets */
    int32_t columns;                                                         /* outputs, padded */
    int32_t steps; /* of 32 channels, in panels; limbs of a weight, in words */
} ckv_gpu_projection;

ckv_status ckv_gpu_open_projection(ckv_projection *projection);
void ckv_gpu_close_projection(ckv_projection *projection);

/* One call on device memory.  The first failure sticks: nothing is launched after it. */
typedef struct ckv_gpu_call {
    const ckv_gpu *gpu;
    const ckv_plan *plan;
    ckv_gpu_stream stream;
    void *workspace; /* base that the params' at_* are offsets from */
    ckv_params params;
    int entered; /* 1: the device's context is current */
    void *saved; /* what was before */
    int code;
    const char *doing;   /* when it failed */
    const char *foreign; /* an argument whose memory is not the device's, or NULL */
    int foreign_stream;  /* 1: so is the stream */
} ckv_gpu_call;

/* Bytes of a plan's workspace, 0 on overflow; fills the params' at_* and tile numbers. */
size_t ckv_gpu_lay_out(const ckv_plan *plan, ckv_params *params);

/* Starts a call: the device is current until ckv_gpu_end, which gives the status. */
void ckv_gpu_begin(ckv_gpu_call *call, const ckv_plan *plan, const ckv_launch *launch);
ckv_status ckv_gpu_end(ckv_gpu_call *call);
/* Of an argument in device memory; NULL is no memory.  Nothing is launched where one is foreign. */
void ckv_gpu_check_memory(ckv_gpu_call *call, const char *name, const void *base);
/* Where the params' at_* and flags are, in `buffer` or at an address. */
void ckv_gpu_set_workspace(ckv_gpu_call *call, void *buffer, void *workspace, void *device_flags);

/* A view for the params; its base is view->buffer or, where that is NULL, view->data. */
ckv_view ckv_gpu_view(const ckv_tensor *view);
void *ckv_gpu_base(const ckv_tensor *view);
/* Base and offset of one of a struct's pointers. */
void *ckv_gpu_pointer(void *buffer, void *pointer, int64_t *offset);

/* groups_y is split where a device's grids are narrower: kernels add params.first_group. */
void ckv_gpu_run(ckv_gpu_call *call, int kernel, int64_t groups_x, int64_t groups_y, void *const *buffers);

/* The stages on device memory. */
void ckv_gpu_score(ckv_gpu_call *call, const ckv_tensor *query, const ckv_tensor *key, const ckv_tensor *attention);
/* `listed`: the rows of at_list alone. */
void ckv_gpu_norm(ckv_gpu_call *call, const ckv_tensor *value, const ckv_projection *projection, const ckv_tensor *norm,
                  int listed);
void ckv_gpu_select(ckv_gpu_call *call, const ckv_tensor *attention, const ckv_tensor *norm, const ckv_kept *kept);
void ckv_gpu_keep_all(ckv_gpu_call *call, const ckv_kept *kept);
void ckv_gpu_compact(ckv_gpu_call *call, const ckv_tensor *from, const ckv_kept *kept, const ckv_tensor *to);
/* An eviction in two parts: what needs Q and K, then what needs V too. */
void ckv_gpu_evict_score(ckv_gpu_call *call, const ckv_tensor *query, const ckv_tensor *key);
void ckv_gpu_evict_rest(ckv_gpu_call *call, const ckv_tensor *value, const ckv_projection *projection,
                        const ckv_kept *kept);
/* 1: ckv_gpu_evict_rest leaves norms out; at_count then has those of the last list, after
 * plan's stage-2 slots a head. */
int ckv_gpu_skips(const ckv_plan *plan);

ckv_status ckv_gpu_measure(const ckv_plan *plan, ckv_stage stage, const ckv_inputs *inputs, int32_t repeats,
                           double *seconds);

/* Runs the probe kernel; 0 with `reason` filled unless its words are the host's. */
int ckv_gpu_probe(const ckv_gpu *gpu, char *reason, size_t size);

/* The backend's `identify`. */
void ckv_gpu_identify(const ckv_context *context, ckv_device_identity *identity);

extern const ckv_device_stages ckv_gpu_stages;

#endif
