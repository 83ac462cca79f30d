/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the GPU backend asks of CUDA, HIP or OpenCL: one table of operations a
 * driver, each a thin wrapper of the vendor's calls.  Nothing here knows of eviction.
 *
 * The vendor's library is reached by dlopen; a driver's state is made once a process
 * and never changes afterwards.  Operations return CKV_GPU_OK or the vendor's own
 * number, which `error` names.  All may be called from several threads at once.
 */
#ifndef CKV_BACKENDS_GPU_DRIVER_H
#define CKV_BACKENDS_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define CKV_GPU_OK 0
#define CKV_GPU_FAILED (-1000000) /* a failure that is not the vendor's: details in the log */
#define CKV_GPU_FORKED (-1000001) /* a device used in a child of the process that opened it */

/* What the kernels' text is compiled as. */
typedef enum ckv_gpu_target { CKV_GPU_CUDA, CKV_GPU_HIP, CKV_GPU_OPENCL } ckv_gpu_target;

typedef struct ckv_gpu_device_info {
    char name[128];     /* as the vendor spells it */
    char vendor[64];    /* "NVIDIA", "AMD", "Intel", "pocl" or the vendor's own text */
    char arch[64];      /* "sm_90", "gfx942:sramecc+", "" where the vendor has no such name */
    char driver[128];   /* version of driver or platform: part of the key of compiled kernels */
    int32_t integrated; /* 1: shares the host's memory */
    int32_t is_cpu;     /* 1: an OpenCL device that is a CPU */
    int32_t compute_units;
    int32_t lanes;     /* 32 or 64 work-items that run in step; 1 where unknown */
    int32_t max_group; /* work-items in a work-group */
    int64_t local_bytes;
    int64_t memory_bytes;
} ckv_gpu_device_info;

/* A place in device memory: an address (CUDA, HIP) or a cl_mem, and bytes from there. */
typedef struct ckv_gpu_memory {
    void *base;
    int64_t offset;
} ckv_gpu_memory;

typedef struct ckv_gpu_device ckv_gpu_device; /* an opened device: context, default stream */
typedef struct ckv_gpu_module ckv_gpu_module; /* loaded code */
typedef void *ckv_gpu_kernel;
typedef void *ckv_gpu_stream; /* CUstream, hipStream_t, cl_command_queue; NULL: the device's own */
typedef void *ckv_gpu_event;

typedef struct ckv_gpu_image {
    const void *data;
    size_t size;
    int is_source; /* text for NVRTC, hipRTC or clBuildProgram; else a fatbin, cubin, code object or PTX */
} ckv_gpu_image;

/* One argument of a kernel: a buffer, or bytes by value. */
typedef struct ckv_gpu_argument {
    const void *value; /* of a buffer: its base (an address or a cl_mem) itself, may be NULL */
    size_t size;       /* 0: a buffer */
} ckv_gpu_argument;

typedef struct ckv_gpu_launch {
    ckv_gpu_kernel kernel;
    uint32_t groups[3], group_size[3];
    const ckv_gpu_argument *arguments;
    int count;
} ckv_gpu_launch;

typedef struct ckv_gpu_driver {
    const char *name; /* of the backend: "cuda", "hip", "opencl" */
    ckv_gpu_target target;
    const struct ckv_gpu_embedded *embedded; /* the kernels for it (embedded.h) */

    /* Loads the library and initialises it, once a process.  NULL, or why there is none;
     * the text lives as long as the process.  Everything below only after NULL. */
    const char *(*load)(void);
    const char *(*error)(int code); /* a name, such as CUDA_ERROR_OUT_OF_MEMORY */

    int32_t (*device_count)(void);
    int (*describe)(int32_t index, ckv_gpu_device_info *info); /* initialises no device */

    /* `native`: NULL, or a cl_context with that device, which is used in place of one of
     * our own, so that an engine's queues and cl_mems can be given.  CUDA and HIP take the
     * device's primary context, which engines share, and want NULL. */
    int (*open)(int32_t index, void *native, ckv_gpu_device **device);
    void (*close)(ckv_gpu_device *device);
    /* Makes the device's context current on this thread, and puts back what was.  Every
     * operation below is called in between.  CKV_GPU_FORKED in a forked process, where
     * close and the release functions do nothing. */
    int (*enter)(ckv_gpu_device *device, void **saved);
    void (*leave)(ckv_gpu_device *device, void *saved);

    int (*allocate)(ckv_gpu_device *device, size_t bytes, ckv_gpu_memory *memory);
    void (*release)(ckv_gpu_device *device, ckv_gpu_memory memory);
    /* Ordered on the stream.  The host's memory must live until `wait`. */
    int (*upload)(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory to, const void *from, size_t bytes);
    int (*download)(ckv_gpu_device *device, ckv_gpu_stream stream, void *to, ckv_gpu_memory from, size_t bytes);
    int (*clear)(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_memory memory, size_t bytes); /* to 0 */
    int (*wait)(ckv_gpu_device *device, ckv_gpu_stream stream);

    /* One more stream, ordered with no other but by events.  Releasing it waits for it. */
    int (*create_stream)(ckv_gpu_device *device, ckv_gpu_stream *stream);
    void (*release_stream)(ckv_gpu_device *device, ckv_gpu_stream stream);
    /* The host's memory of a kind that copies run from beside kernels; ours to write as
     * soon as the copies are done. */
    int (*allocate_host)(ckv_gpu_device *device, size_t bytes, void **memory);
    void (*release_host)(ckv_gpu_device *device, void *memory);

    /* Loads an image, building it first where it is source; `options` are the target's
     * defines ("-DNAME=1 ...").  On failure `log` says why, cut to its size.  A built
     * image can be had back for the cache on disk: *built is malloc'ed, or NULL. */
    int (*load_module)(ckv_gpu_device *device, const ckv_gpu_image *image, const char *options, ckv_gpu_module **module,
                       void **built, size_t *built_size, char *log, size_t log_size);
    void (*unload_module)(ckv_gpu_device *device, ckv_gpu_module *module);
    int (*find_kernel)(ckv_gpu_device *device, ckv_gpu_module *module, const char *name, ckv_gpu_kernel *kernel);
    void (*release_kernel)(ckv_gpu_device *device, ckv_gpu_kernel kernel);
    int (*launch)(ckv_gpu_device *device, ckv_gpu_stream stream, const ckv_gpu_launch *launch);

    int (*create_event)(ckv_gpu_device *device, ckv_gpu_event *event);
    void (*release_event)(ckv_gpu_device *device, ckv_gpu_event event);
    int (*record)(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event);
    /* What the stream is given from now on waits for what the event was last recorded
     * after; the host does not. */
    int (*follow)(ckv_gpu_device *device, ckv_gpu_stream stream, ckv_gpu_event event);
    int (*wait_event)(ckv_gpu_device *device, ckv_gpu_event event); /* the host does */
    int (*elapsed)(ckv_gpu_device *device, ckv_gpu_event start, ckv_gpu_event end, float *milliseconds); /* waits */

    /* 0 if `base` is memory of another device, or none that a device can read.  OpenCL:
     * a cl_mem of another context; what is no cl_mem at all it cannot tell. */
    int (*owns)(ckv_gpu_device *device, const void *base);
    /* Optional: 0 if a stream that the caller named is not the device's.  OpenCL alone can tell; on
     * others a launch on it fails. */
    int (*takes)(ckv_gpu_device *device, ckv_gpu_stream stream);
} ckv_gpu_driver;

extern const ckv_gpu_driver ckv_gpu_cuda, ckv_gpu_hip, ckv_gpu_opencl;

#endif
